"""A change of engine in the middle of a flood: nothing is lost, and no more handlers are at work than slots."""

import contextlib
import itertools
import json
import threading
from collections import defaultdict
from pathlib import Path

import pytest

from lanes.message import Message
from lanes.producer import Producer
from local.deploy import CdkApp
from local.deployed import DeploymentReader
from local.event_source_mapping import EventSourceMappingEmulator
from local.model.qualifier import without_qualifier
from local.platform import Platform
from local.polled_queue import SqsQueue
from tests.support.waiting import SLACK, until

APP = Path(__file__).with_name("switching_app")
STACK = "Switching"
SLOTS = 2
PIECE, AHEAD = 50, 100
LANES = ("HIGH", "MAIN")
# A batch that a retired mapping drops stays hidden for six function timeouts, a minute here.
PATIENCE = 300


def app(engine):
    """Give the app with an engine."""
    return CdkApp(directory=APP, context={"engine": engine, "slots": str(SLOTS)})


class Work:
    """What the handlers do, by the lines that the sample function prints; give it to a platform as `on_line`."""

    def __init__(self):
        self.changed = threading.Condition()
        self.steps = []
        self.handled = {}

    def __call__(self, _function, line):
        """Take a line."""
        if '"resource": ' not in line:
            return
        step = json.loads(line)
        with self.changed:
            self.steps.append((step["at"], 1 if step["resource"] == "started" else -1))
            if step["resource"] == "finished":
                self.handled.setdefault(step["id"], step["at"])
            self.changed.notify_all()

    def wait_for(self, condition):
        """Wait until something holds of the handled messages."""
        with self.changed:
            assert self.changed.wait_for(lambda: condition(self.handled), PATIENCE), len(self.handled)

    def wait_for_more(self, count):
        """Wait until so many more messages are handled."""
        before = len(self.handled)
        self.wait_for(lambda handled: len(handled) >= before + count)

    def most_at_once(self):
        """Return the largest number of handlers that were at work at one moment."""
        return max(itertools.accumulate(change for _, change in sorted(self.steps)))


class Flood:
    """
    Sends from a thread while the context lasts, so much that some messages always wait.

    Each piece is sent by a new producer, which knows the engine of that moment.
    """

    def __init__(self, endpoint_url, work):
        self.sent = []
        self._endpoint_url = endpoint_url
        self._work = work
        self._ended = False
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_details):
        with self._work.changed:
            self._ended = True
            self._work.changed.notify_all()
        self._thread.join()

    def groups(self):
        """Return the ids of each group in the order in which they were sent."""
        groups = defaultdict(list)
        for message in self.sent:
            groups[message.group].append(message.id)
        return groups

    def _run(self):
        while self._wait_for_room():
            piece = [_message(len(self.sent) + number) for number in range(PIECE)]
            Producer.from_stack(STACK, endpoint_url=self._endpoint_url).send_many(piece)
            self.sent += piece

    def _wait_for_room(self):
        """Wait until few messages are left; return false at the end."""
        with self._work.changed:
            self._work.changed.wait_for(
                lambda: self._ended or len(self.sent) - len(self._work.handled) < AHEAD, PATIENCE
            )
            return not self._ended


def _message(number):
    urgent = number % 5 == 0
    return Message(
        kind="order.placed",
        id=f"m{number}",
        group=f"{'urgent' if urgent else 'bulk'}-{number % 12}",
        priority=100 if urgent else -100,
    )


@contextlib.contextmanager
def outliving_mappings(platform):
    """
    Let the present mappings go on in a deploy, as on AWS, where CloudFormation deletes them last.

    Yields them.
    """
    deployed = DeploymentReader(platform.endpoint_url).read()
    functions = {without_qualifier(one.settings.arn): one for one in platform.functions.values()}
    old = [
        EventSourceMappingEmulator(
            mapping,
            queue=SqsQueue(endpoint_url=platform.endpoint_url, url=deployed.queues[mapping.queue_arn].url),
            function=functions[mapping.function_arn],
            visibility_timeout=deployed.queues[mapping.queue_arn].visibility_timeout,
        )
        for mapping in deployed.mappings.values()
    ]
    for mapping in old:
        mapping.start()
    try:
        yield old
    finally:
        for mapping in old:
            mapping.stop()
        for mapping in old:
            mapping.join()


def total(mappings, name):
    """Sum up a counter of mappings."""
    return sum(mapping.counters()[name] for mapping in mappings)


@pytest.fixture(scope="module")
def work():
    """What the handlers do."""
    return Work()


@pytest.fixture(scope="module")
def platform(tmp_path_factory, work):
    """The stack with mappings."""
    build = tmp_path_factory.mktemp("build")
    with Platform(app=app("mappings"), on_line=work, build_directory=build, slack=SLACK) as running:
        yield running


def left(platform):
    """Return the number of messages in the queues of the lanes and in their dead-letter queues."""
    sqs, outputs = platform.client("sqs"), platform.outputs[STACK]
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    urls = [outputs[f"{lane}{kind}Url"] for lane in LANES for kind in ("Queue", "DeadLetterQueue")]
    found = [sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"] for url in urls]
    return sum(int(number) for attributes in found for number in attributes.values())


@pytest.mark.deep
def test_engines_are_switched_in_the_middle_of_a_flood(platform, work, monkeypatch):
    """From mappings to pull and back; the old mappings outlive each switch, and their events reach the new engine."""
    for name, value in platform.variables().items():
        monkeypatch.setenv(name, value)

    with Flood(platform.endpoint_url, work) as flood:
        work.wait_for_more(PIECE)
        with outliving_mappings(platform) as of_lanes:
            platform.deploy(app("pull"))
            assert "BellQueueUrl" in platform.outputs[STACK]
            before = total(of_lanes, "invokes")
            work.wait_for_more(AHEAD)
            until(lambda: total(of_lanes, "invokes") > before, why="no old batch reached the pull engine")
        work.wait_for_more(AHEAD)
        with outliving_mappings(platform) as of_bell:
            platform.deploy(app("mappings"))
            assert "BellQueueUrl" not in platform.outputs[STACK]
            work.wait_for_more(AHEAD)
        work.wait_for_more(AHEAD)
    work.wait_for(lambda handled: len(handled) == len(flood.sent))
    until(lambda: left(platform) == 0)

    assert work.handled.keys() == {message.id for message in flood.sent}
    assert work.most_at_once() == SLOTS
    for ids in flood.groups().values():
        assert sorted(ids, key=work.handled.__getitem__) == ids
    assert total([*of_lanes, *of_bell], "errors") == 0
