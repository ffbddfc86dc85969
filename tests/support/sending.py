"""A queue service that refuses and loses messages by plan."""

from __future__ import annotations

import dataclasses
import random
import threading

from lanes.config import LanesConfig
from lanes.errors import AwsError
from lanes.message import Message, id_in
from lanes.producer import Pacing, Producer
from lanes.producer.outgoing import Accepted, Refused
from lanes.testing.clock import FakeClock
from lanes.testing.world import deployment_in_memory

ACCEPT = "accept"
THROTTLE = "throttle"
REFUSE = "refuse"
LEAVE_OUT = "leave out"
LOSE_CALL = "lose call"
FAIL_CALL = "fail call"

MOST_BYTES = 1024 * 1024


class FakeSqs:
    """
    FIFO queues in memory.

    Args:
        plan: called with the message id of an entry, returns its outcome: one of the words above. The
            first entry of a batch decides for calls that fail as a whole.
    """

    def __init__(self, plan=lambda _: ACCEPT):
        self.queues = {}
        self.calls = []
        self._plan = plan
        self._lock = threading.Lock()

    def send_batch(self, queue_url, entries):
        """Check the limits, then follow the plan."""
        with self._lock:
            self._check(entries)
            self.calls.append((queue_url, [id_in(entry.message_deduplication_id) for entry in entries]))
            words = [self._plan(id_in(entry.message_deduplication_id)) for entry in entries]
            if words[0] == FAIL_CALL:
                raise AwsError(operation="SendMessageBatch", code="ThrottlingException", retryable=True)
            answers = {
                entry.entry_id: answer
                for entry, word in zip(entries, words, strict=True)
                if (answer := self._answer(queue_url, entry, word)) is not None
            }
            if words[0] == LOSE_CALL:
                raise AwsError(
                    operation="SendMessageBatch", code="ReadTimeoutError", retryable=True, answered=False
                )
            return answers

    def ids(self, queue_url):
        """Return the ids of the messages in a queue, in the order in which they came."""
        return [id_in(entry.message_deduplication_id) for entry in self.queues.get(queue_url, [])]

    def _answer(self, queue_url, entry, word):
        if word == THROTTLE:
            return Refused(code="ThrottlingException", reason="slow down", retryable=True)
        if word == REFUSE:
            return Refused(code="InvalidMessageContents", reason="not for us", retryable=False)
        queue = self.queues.setdefault(queue_url, [])
        known = [one.message_deduplication_id for one in queue]
        if entry.message_deduplication_id not in known:
            queue.append(entry)
            known.append(entry.message_deduplication_id)
        place = known.index(entry.message_deduplication_id)
        accepted = Accepted(message_id=f"m-{place}", sequence_number=f"{place:020}")
        return None if word == LEAVE_OUT else accepted

    @staticmethod
    def _check(entries):
        assert 1 <= len(entries) <= 10
        assert len({entry.entry_id for entry in entries}) == len(entries)
        assert sum(len(entry.body.encode()) for entry in entries) <= MOST_BYTES


def queue_url(lane):
    """Return the address of a lane's queue in tests."""
    return f"https://sqs.invalid/{lane}.fifo"


def make_deployment(config=None):
    """Return a deployment of these lanes without a bell, by default HIGH, MEDIUM and MAIN."""
    return dataclasses.replace(deployment_in_memory(config or LanesConfig()), bell=None)


def make_producer(sqs, *, config=None, jitter=random.random, **fields):
    """Give a producer whose time passes only while it waits."""
    clock = FakeClock()
    pacing = Pacing(clock=clock, pause=clock.advance, jitter=jitter)
    return Producer(deployment=make_deployment(config), sqs=sqs, pacing=pacing, **fields)


def messages(groups):
    """Give one message for each group named."""
    return [Message(kind="k", id=f"{place:04}", group=group) for place, group in enumerate(groups)]
