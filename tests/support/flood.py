"""A flood of messages while a stack changes, and the work of its handlers meanwhile."""

import contextlib
import itertools
import json
import threading
from collections import defaultdict

from lanes.message import Message
from lanes.producer import Producer
from local.deployed import DeploymentReader
from local.event_source_mapping import EventSourceMappingEmulator
from local.polled_queue import SqsQueue, without_qualifier

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
