"""The recipe that moves the messages of a queue to a lane, killed at each of its calls and run again."""

import json
from collections import Counter
from datetime import timedelta

import boto3
import moto.sqs.models
import pytest
from moto import mock_aws

from examples.move_queue import move
from lanes import Producer
from lanes.testing.clock import FakeClock
from local import corrections
from local.corrections.sqs_queue import set_clock
from tests.support.dead_letters import Killed
from tests.support.operating import STACK, drain, make_deployment

NUMBERS = range(14)
HIDDEN = timedelta(seconds=31)
"""After this the messages of a killed run are visible again."""
LATE = timedelta(minutes=6)
"""After this SQS no longer knows a deduplication id."""


class DyingClient:
    """A client of SQS in a process that is killed at one of its deletions, before AWS gets it or after."""

    def __init__(self, client, deletions, *, gets_it):
        self._client, self._left, self._gets_it = client, deletions, gets_it

    def receive_message(self, **request):
        return self._client.receive_message(**request)

    def delete_message(self, **request):
        self._left -= 1
        if self._left >= 0 or self._gets_it:
            self._client.delete_message(**request)
        if self._left < 0:
            raise Killed


@pytest.fixture
def clock(monkeypatch):
    """The clock of all queues."""
    clock = FakeClock()
    set_clock(clock)
    for name, factor in (("unix_time", 1), ("unix_time_millis", 1000)):
        monkeypatch.setattr(moto.sqs.models, name, lambda factor=factor: clock() * factor)
    yield clock
    set_clock(None)


@pytest.fixture
def shop(clock):
    """Lanes, and a FIFO queue with numbered orders of three customers."""
    corrections.install()
    with mock_aws():
        yield Shop()


class Shop:
    """The queue, the lanes, and what runs between them."""

    def __init__(self):
        self.deployment = make_deployment(boto3.client)
        self.sqs = boto3.client("sqs")
        self.producer = Producer.from_stack(STACK, source="shop")
        fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true", "VisibilityTimeout": "30"}
        self.old = self.sqs.create_queue(QueueName="orders.fifo", Attributes=fifo)["QueueUrl"]
        for number in NUMBERS:
            body = json.dumps({"number": number})
            self.sqs.send_message(QueueUrl=self.old, MessageBody=body, MessageGroupId=f"g{number % 3}")

    def moved(self):
        """Take what the lane has; give group and number of each message."""
        found = drain(self.sqs, self.deployment.queues["MAIN"].url)
        return [
            (one["Attributes"]["MessageGroupId"], json.loads(one["Body"])["data"]["number"]) for one in found
        ]

    def left(self):
        """Count the messages of the old queue, hidden ones too."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.sqs.get_queue_attributes(QueueUrl=self.old, AttributeNames=names)["Attributes"]
        return sum(map(int, found.values()))


def order_of(moved):
    """Give the numbers of each group as they arrived first."""
    groups = {}
    for group, number in moved:
        groups.setdefault(group, {}).setdefault(number)
    return {group: list(numbers) for group, numbers in groups.items()}


EXPECTED = {f"g{rest}": list(range(rest, len(NUMBERS), 3)) for rest in range(3)}


def test_all_messages_are_moved_in_the_order_of_their_groups(shop):
    """And a second run finds nothing."""
    assert move(shop.sqs, shop.old, shop.producer) == len(NUMBERS)
    assert move(shop.sqs, shop.old, shop.producer) == 0

    moved = shop.moved()
    assert (len(moved), order_of(moved), shop.left()) == (len(NUMBERS), EXPECTED, 0)


@pytest.mark.parametrize("wait", [pytest.param(HIDDEN, id="soon"), pytest.param(LATE, id="late")])
@pytest.mark.parametrize("gets_it", [False, True])
@pytest.mark.parametrize("deletions", [0, 9, *(pytest.param(one, marks=pytest.mark.deep) for one in (1, 13))])
def test_a_run_killed_between_send_and_delete_loses_nothing(shop, clock, deletions, gets_it, wait):
    """The next run sends one message again, with its id: SQS drops it for five minutes, idempotency later."""
    with pytest.raises(Killed):
        move(DyingClient(shop.sqs, deletions, gets_it=gets_it), shop.old, shop.producer)
    before = shop.moved() if wait is LATE else []
    clock.advance(wait.total_seconds())

    move(shop.sqs, shop.old, shop.producer)

    moved = before + shop.moved()
    assert (order_of(moved), shop.left()) == (EXPECTED, 0)
    repeats = [one for one, count in Counter(moved).items() if count > 1]
    assert len(repeats) == (wait is LATE and not gets_it)
