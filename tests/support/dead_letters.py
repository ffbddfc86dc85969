"""Dead-letter queues in memory, after the documented model of FIFO queues."""

from __future__ import annotations

import json
from datetime import timedelta

from lanes.depth import LaneDepth
from lanes.message import Message
from lanes.operate.dead_letters import DeadLetteredMessage
from lanes.testing.fifo.message import FifoQueueError, FifoSettings
from lanes.testing.fifo.queue import FifoQueue

SETTINGS = FifoSettings(deduplicate_by_group=True, retention=timedelta(days=14))


class Killed(BaseException):
    """The process has died."""


class MemoryDeadLetters:
    """
    One lane and its dead-letter queue.

    `before_call` may raise, as a process that is killed would; `refuse` names messages that the lane does not take.
    """

    def __init__(self, clock, *, wait=1.0):
        self.clock = clock
        self.lane = FifoQueue(clock, settings=SETTINGS)
        self.dead = FifoQueue(clock, settings=SETTINGS)
        self.before_call = lambda _name: None
        self.refuse = set()
        self.calls = []
        self.batches = []
        self._wait = wait

    def put(self, number, *, group="g", kind="order.placed", reason="attempts exhausted", at=0.0):
        """Dead-letter a message; return the id of the dead letter."""
        body = Message(kind=kind, data=number, id=f"{kind}-{number}").to_body()
        note = {"reason": reason, "error": "boom", "dead_lettered_at": at, "message_id": f"original-{number}"}
        sent = self.dead.send(body, group=group, deduplication_id=f"dead-{number}", attributes=note)
        return sent.message_id

    def dead_letters(self, _lane):
        self._called("dead_letters")
        return depth_of(self.dead)

    def receive(self, lane, *, limit, hold, wait=True):
        self._called("receive")
        received = self.dead.receive(limit, visibility_timeout=hold)
        if not received and wait:
            self.clock.advance(self._wait)
        return [letter_of(lane, message) for message in received]

    def give_back(self, letters):
        self._called("give_back")
        for letter in letters:
            try:
                self.dead.change_visibility(letter.receipt_handle, timedelta(0))
            except FifoQueueError:
                continue

    def copy(self, letters):
        groups = [letter.group for letter in letters]
        assert len(groups) == len(set(groups)), "two of a group are on their way at once"
        self.batches.append(len(letters))
        refused = {}
        for letter in letters:
            self._called("copy")
            if letter.event_id in self.refuse:
                refused[letter.message_id] = "refused"
                continue
            self.lane.send(letter.body, group=letter.group, deduplication_id=letter.copied_as)
        return refused

    def delete(self, letters):
        refused = {}
        for letter in letters:
            self._called("delete")
            try:
                self.dead.delete(letter.receipt_handle)
            except FifoQueueError as error:
                refused[letter.message_id] = type(error).__name__
        return refused

    def in_lane(self):
        """Take all messages out of the lane; return their groups and numbers in the order of each group."""
        return taken_from(self.lane)

    def give_up_what_arrived(self):
        """Dead-letter every message of the lane, as a consumer with a failing handler does."""
        while received := self.lane.receive(10):
            for message in received:
                note = {"reason": "attempts exhausted", "deduplication_id": message.deduplication_id}
                self.dead.send(
                    message.body,
                    group=message.group,
                    deduplication_id=f"again-{message.message_id}",
                    attributes=note,
                )
                self.lane.delete(message.receipt_handle)

    def _called(self, name):
        self.calls.append(name)
        self.before_call(name)


def letter_of(lane, message):
    """Return a received message of a dead-letter queue as a dead letter; its attributes are the consumer's note."""
    return DeadLetteredMessage(
        lane=lane,
        message_id=message.message_id,
        receipt_handle=message.receipt_handle,
        body=message.body,
        group=message.group,
        sent_at=message.sent_at,
        receive_count=message.receive_count,
        first_received_at=message.first_received_at,
        attributes={},
        note=message.attributes if isinstance(message.attributes, dict) else {},
        moved_by_sqs=message.dead_letter_source is not None,
    )


def depth_of(queue):
    """Count a queue of the model."""
    counts = queue.counts()
    return LaneDepth(backlog=counts.visible, in_flight=counts.not_visible)


def taken_from(queue):
    """Take every message out of a queue; return groups and numbers in the order received."""
    taken = []
    while received := queue.receive(10):
        for message in received:
            taken.append((message.group, json.loads(message.body)["data"]))
            queue.delete(message.receipt_handle)
    return taken
