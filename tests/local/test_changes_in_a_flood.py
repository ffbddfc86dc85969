"""A change of engine, slots, lanes, times or code in the middle of a flood keeps C1, C2, C4 and C10."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
import threading
from collections import defaultdict
from pathlib import Path

import pytest

from lanes.message import Message
from lanes.producer import Producer
from local.deploy import ROOT, CdkApp
from local.deployed import DeploymentReader
from local.event_source_mapping import EventSourceMappingEmulator
from local.platform import Platform
from local.polled_queue import SqsQueue, without_qualifier
from tests.support.command import Typed
from tests.support.waiting import SLACK, until

STACK = "Switching"
PIECE, AHEAD = 50, 100
# A batch that a retired mapping drops stays hidden for six function timeouts.
PATIENCE = 300


class Work:
    """The work of the handlers, by the lines that the sample function prints; give it to a platform as `on_line`."""

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

    Each piece is sent by a new producer, which knows the engine and the lanes of that moment. Priorities are those of
    three lanes; ids and groups begin with the name.
    """

    def __init__(self, endpoint_url, work, name="m"):
        self.sent = []
        self.name = name
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

    def left(self, handled):
        """Return how many of its messages are not handled."""
        return sum(message.id not in handled for message in self.sent)

    def groups(self):
        """Return the ids of each group in the order in which they were sent."""
        groups = defaultdict(list)
        for message in self.sent:
            groups[message.group].append(message.id)
        return groups

    def _run(self):
        while self._wait_for_room():
            piece = [_message(self.name, len(self.sent) + number) for number in range(PIECE)]
            Producer.from_stack(STACK, endpoint_url=self._endpoint_url).send_many(piece)
            self.sent += piece

    def _wait_for_room(self):
        """Wait until few messages are left; return false at the end."""
        with self._work.changed:
            self._work.changed.wait_for(
                lambda: self._ended or self.left(self._work.handled) < AHEAD, PATIENCE
            )
            return not self._ended


def _message(name, number):
    urgency, priority = ("urgent", 100) if number % 5 == 0 else ("bulk", -100)
    if number % 5 == 1:
        urgency, priority = "usual", 0
    return Message(
        kind="order.placed", id=f"{name}{number}", group=f"{name}-{urgency}-{number % 12}", priority=priority
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


def left(platform):
    """Return the number of messages in the queues of the lanes and in their dead-letter queues."""
    sqs, outputs = platform.client("sqs"), platform.outputs[STACK]
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    urls = [url for name, url in outputs.items() if name.endswith("QueueUrl") and name != "BellQueueUrl"]
    found = [sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"] for url in urls]
    return sum(int(number) for attributes in found for number in attributes.values())


APP = Path(__file__).with_name("switching_app")
NEW_CODE = "new_code"
HIGH, MAIN = {"name": "HIGH", "threshold": 50}, {"name": "MAIN"}
MEDIUM = {"name": "MEDIUM", "threshold": 0}
CLOSING = {**MEDIUM, "closing": True}
LONGER = [{**HIGH, "visibility_timeout": 180}, {**MAIN, "visibility_timeout": 240, "batch_size": 5}]

# The contexts before and after the change.
CHANGES = {
    "more slots": ({"slots": "2"}, {"slots": "3"}),
    "fewer slots": ({"slots": "3"}, {"slots": "2"}),
    "a lane is added": ({"lanes": [HIGH, MAIN]}, {"lanes": [HIGH, MEDIUM, MAIN]}),
    "a lane is closing": ({"lanes": [HIGH, MEDIUM, MAIN]}, {"lanes": [HIGH, CLOSING, MAIN]}),
    "other times": ({"lanes": LONGER, "function_timeout": "20s"}, {}),
    "other code": ({}, {"function_folder": NEW_CODE}),
}
DEFAULTS = {"slots": "2", "lanes": [HIGH, MAIN]}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def work():
    """The work of the handlers."""
    return Work()


@pytest.fixture(scope="module")
def platform(tmp_path_factory, work):
    """A stack with mappings; each test but the first deploys it anew."""
    build = tmp_path_factory.mktemp("build")
    first = CdkApp(directory=APP, context={"engine": "mappings", "slots": DEFAULTS["slots"]})
    with Platform(app=first, on_line=work, build_directory=build, slack=SLACK) as running:
        yield running


@pytest.fixture
def new_code(tmp_path):
    """The sample function with other code."""
    folder = shutil.copytree(ROOT / "lambdas" / "consumer", tmp_path / "consumer")
    handler = folder / "handler.py"
    handler.write_text(f"{handler.read_text()}\n\nCHANGED = True\n")
    return folder


def app_of(engine, context, new_code):
    """Return the app with settings of its own."""
    values = {**DEFAULTS, "engine": engine, **context}
    if values.get("function_folder") == NEW_CODE:
        values["function_folder"] = str(new_code)
    return CdkApp(directory=APP, context={**values, "lanes": json.dumps(values["lanes"])})


@pytest.fixture(autouse=True)
def _credentials(platform, monkeypatch):
    """Let producers of this process reach the platform."""
    for name, value in platform.variables().items():
        monkeypatch.setenv(name, value)


@pytest.mark.deep
def test_engines_are_switched_in_the_middle_of_a_flood(platform, work, new_code):
    """From mappings to pull and back; the old mappings outlive each switch, and their events reach the new engine."""
    mappings, pull = (app_of(engine, {}, new_code) for engine in ("mappings", "pull"))

    with Flood(platform.endpoint_url, work) as flood:
        work.wait_for_more(PIECE)
        with outliving_mappings(platform) as of_lanes:
            platform.deploy(pull)
            assert "BellQueueUrl" in platform.outputs[STACK]
            before = total(of_lanes, "invokes")
            work.wait_for_more(AHEAD)
            until(lambda: total(of_lanes, "invokes") > before, why="no old batch reached the pull engine")
        work.wait_for_more(AHEAD)
        with outliving_mappings(platform) as of_bell:
            platform.deploy(mappings)
            assert "BellQueueUrl" not in platform.outputs[STACK]
            work.wait_for_more(AHEAD)
        work.wait_for_more(AHEAD)
    work.wait_for(lambda handled: flood.left(handled) == 0)
    until(lambda: left(platform) == 0)

    assert work.handled.keys() == {message.id for message in flood.sent}
    assert work.most_at_once() == int(DEFAULTS["slots"])
    for ids in flood.groups().values():
        assert sorted(ids, key=work.handled.__getitem__) == ids
    assert total([*of_lanes, *of_bell], "errors") == 0


# Each takes a minute or more, so a change meets one engine here; both hold the contract's suites alike. More slots
# than before are no harder to keep to.
@pytest.mark.nightly
@pytest.mark.parametrize(
    ("change", "engine"), list(zip(CHANGES, itertools.cycle(["mappings", "pull"]), strict=False))
)
def test_a_change_in_the_middle_of_a_flood(platform, work, new_code, change, engine):
    """Every message is handled, those of a group in order, with no more handlers at once than slots."""
    before, after = CHANGES[change]
    slots = [int({**DEFAULTS, **context}["slots"]) for context in (before, after)]
    platform.deploy(app_of(engine, before, new_code))
    work.steps.clear()

    with Flood(platform.endpoint_url, work, f"flood{next(_numbers)}-") as flood:
        work.wait_for_more(PIECE)
        with outliving_mappings(platform):
            platform.deploy(app_of(engine, after, new_code))
            work.wait_for_more(AHEAD)
        work.wait_for_more(AHEAD)
    work.wait_for(lambda handled: flood.left(handled) == 0)
    until(lambda: left(platform) == 0)

    assert work.most_at_once() <= max(slots)
    for group, ids in flood.groups().items():
        # A new lane takes a group's later messages, and a closing one its earlier ones: no order across lanes.
        if "lanes" not in after or "-usual-" not in group:
            assert sorted(ids, key=work.handled.__getitem__) == ids
    if after.get("lanes", [])[1:2] == [CLOSING]:
        platform.deploy(app_of(engine, {"lanes": [HIGH, MAIN]}, new_code))
        assert "MEDIUMQueueUrl" not in platform.outputs[STACK]


@pytest.mark.nightly
@pytest.mark.parametrize("engine", ["mappings", "pull"])
def test_a_paused_lane_stays_paused_over_a_deploy_or_the_check_names_it(platform, new_code, engine):
    """A deploy that changes the mapping; and one that switches the engine, with which no pause goes."""
    lanes = Typed(platform.endpoint_url)
    platform.deploy(app_of(engine, {}, new_code))
    lanes.json("--stack", STACK, "pause", "MAIN")

    for changed in (engine, {"mappings": "pull", "pull": "mappings"}[engine]):
        platform.deploy(app_of(changed, {"lanes": LONGER}, new_code))
        states = {row["lane"]: row["mapping"] for row in lanes.json("--stack", STACK, "status")}
        named = [
            one
            for one in json.loads(lanes("--output", "json", "--stack", STACK, "check").stdout)
            if one["verdict"] == "wrong" and "pause" in one["found"] and "MAIN" in one["subject"]
        ]

        assert states["HIGH"] == "Enabled"
        assert len(named) == 1, (states, named)

    if states["MAIN"] == "Enabled":
        lanes.json("--stack", STACK, "pause", "MAIN")
    lanes.json("--stack", STACK, "resume", "MAIN")
    assert "pause" not in lanes("--stack", STACK, "check").stdout
