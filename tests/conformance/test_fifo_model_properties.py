"""The model against a naive reference, over any sequence of operations."""

from dataclasses import dataclass, field
from datetime import timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lanes.testing.clock import FakeClock
from lanes.testing.fifo.message import FifoQueueError, FifoSettings, GroupOrder
from lanes.testing.fifo.queue import FifoQueue

RETENTION_SECONDS = 500
GROUPS = st.sampled_from("ABCD")
SECONDS = st.sampled_from([0, 1, 5, 30])


@dataclass
class Expected:
    """A message as the reference sees it: a row in a plain list, in the order of sending."""

    message_id: str
    group: str
    sent_at: float
    shown_at: float
    hidden_until: float | None = None
    handle: str = ""
    receive_count: int = 0


@dataclass
class Reference:
    """A queue in the plainest way: every question is answered by a walk over all messages."""

    look_ahead: int
    messages: list[Expected] = field(default_factory=list)

    def settle(self, now):
        """Drop what is too old and show what was hidden long enough."""
        self.messages = [m for m in self.messages if m.sent_at + RETENTION_SECONDS > now]
        for message in self.messages:
            if message.hidden_until is not None and message.hidden_until <= now:
                message.hidden_until = None

    def counts(self, now):
        """Return the numbers of visible, hidden and delayed messages."""
        self.settle(now)
        hidden = sum(m.hidden_until is not None for m in self.messages)
        delayed = sum(m.shown_at > now for m in self.messages)
        return (len(self.messages) - hidden - delayed, hidden, delayed)

    def available(self, now):
        """Return the receivable messages by group: the visible ones in front of the first in flight."""
        self.settle(now)
        searched = [m for m in self.messages if m.shown_at <= now][: self.look_ahead]
        groups, blocked = {}, set()
        for message in searched:
            if message.hidden_until is not None:
                blocked.add(message.group)
            elif message.group not in blocked:
                groups.setdefault(message.group, []).append(message)
        return groups


class FifoMachine(RuleBasedStateMachine):
    """Does anything to a queue and holds each answer against the reference."""

    def __init__(self):
        super().__init__()
        self.clock = FakeClock()
        self.sent = 0
        self.gone = set()
        self.remembered = {}

    @initialize(
        delay=SECONDS,
        look_ahead=st.sampled_from([3, 1000]),
        limit=st.sampled_from([None, 2]),
        by_group=st.booleans(),
        order=st.sampled_from(GroupOrder),
    )
    def create(self, delay, look_ahead, limit, by_group, order):
        """Take one of several kinds of queue; a limit of receives only with the full look-ahead."""
        self.limit = limit
        self.delay = delay
        self.by_group = by_group
        self.dead = FifoQueue(self.clock)
        self.queue = FifoQueue(
            self.clock,
            settings=FifoSettings(
                delay=timedelta(seconds=delay),
                retention=timedelta(seconds=RETENTION_SECONDS),
                look_ahead=1000 if limit else look_ahead,
                max_receive_count=limit,
                deduplicate_by_group=by_group,
                group_order=order,
            ),
            dead_letter_queue=self.dead,
        )
        self.reference = Reference(look_ahead=1000 if limit else look_ahead)

    @rule(group=GROUPS, deduplication_id=st.sampled_from("12345678"))
    def send(self, group, deduplication_id):
        """A repeated id within five minutes adds nothing and names the original."""
        self.reference.settle(self.clock.now)
        answer = self.queue.send("body", group=group, deduplication_id=deduplication_id)
        key = (group if self.by_group else None, deduplication_id)
        at, original = self.remembered.get(key, (None, None))
        if at is not None and self.clock.now - at < 300:
            assert (answer.message_id, answer.is_duplicate) == (original, True)
            return
        assert not answer.is_duplicate
        self.remembered[key] = (self.clock.now, answer.message_id)
        self.sent += 1
        self.reference.messages.append(
            Expected(
                message_id=answer.message_id,
                group=group,
                sent_at=self.clock.now,
                shown_at=self.clock.now + self.delay,
            )
        )

    @rule(maximum=st.integers(1, 10), visibility=SECONDS)
    def receive(self, maximum, visibility):
        """Groups come whole and in order, none that is blocked, and nothing available is held back."""
        now = self.clock.now
        available = self.reference.available(now)
        received = self.queue.receive(maximum, visibility_timeout=timedelta(seconds=visibility))
        self._bury(available)
        order = list(dict.fromkeys(message.group for message in received))
        for group in order:
            taken = [message.message_id for message in received if message.group == group]
            offered = [m.message_id for m in available.get(group, [])]
            assert taken == offered[: len(taken)]
            assert group == order[-1] or len(taken) == len(offered)
        assert [m.group for m in received] == sorted((m.group for m in received), key=order.index)
        assert len(received) == maximum or len(received) == sum(map(len, available.values()))
        by_id = {m.message_id: m for m in self.reference.messages}
        for message in received:
            expected = by_id[message.message_id]
            expected.receive_count += 1
            assert message.receive_count == expected.receive_count
            expected.handle = message.receipt_handle
            expected.hidden_until = now + visibility if visibility else None

    def _bury(self, available):
        """Take what went to the dead-letter queue out of the reference; it must have been due, in order."""
        dead = []
        while messages := self.dead.receive(10):
            for message in messages:
                self.dead.delete(message.receipt_handle)
                dead.append(message.message_id)
        for messages in available.values():
            buried = [m for m in messages if m.message_id in dead]
            assert buried == messages[: len(buried)]
            assert all(self.limit is not None and m.receive_count >= self.limit for m in buried)
            del messages[: len(buried)]
        self.reference.messages = [m for m in self.reference.messages if m.message_id not in dead]
        self.gone.update(dead)

    @precondition(lambda self: self.reference.messages)
    @rule(data=st.data())
    def delete(self, data):
        """A delete works exactly while the message is in flight."""
        message = data.draw(st.sampled_from(self.reference.messages))
        self.reference.settle(self.clock.now)
        if message not in self.reference.messages or not message.handle:
            return
        try:
            self.queue.delete(message.handle)
        except FifoQueueError:
            assert message.hidden_until is None
        else:
            assert message.hidden_until is not None
            self.reference.messages.remove(message)
            self.gone.add(message.message_id)

    @precondition(lambda self: self.reference.messages)
    @rule(data=st.data(), visibility=SECONDS)
    def change_visibility(self, data, visibility):
        """A change works exactly while the message is in flight."""
        message = data.draw(st.sampled_from(self.reference.messages))
        self.reference.settle(self.clock.now)
        if message not in self.reference.messages or not message.handle:
            return
        try:
            self.queue.change_visibility(message.handle, timedelta(seconds=visibility))
        except FifoQueueError:
            assert message.hidden_until is None
        else:
            assert message.hidden_until is not None
            message.hidden_until = self.clock.now + visibility if visibility else None

    @rule(seconds=st.sampled_from([0.5, 1, 4, 29, 301]))
    def wait(self, seconds):
        """Let time pass."""
        self.clock.advance(seconds)

    @rule()
    def wait_for_the_next_event(self):
        """At the time the queue foretells, and not before, a message becomes visible."""
        now = self.clock.now
        self.reference.settle(now)
        ends = [m.hidden_until for m in self.reference.messages if m.hidden_until is not None]
        shows = [m.shown_at for m in self.reference.messages if m.shown_at > now]
        assert self.queue.next_event_at() == min(ends + shows, default=None)
        if ends or shows:
            self.clock.now = min(ends + shows)

    @precondition(lambda self: self.sent > 5)
    @rule()
    def purge(self):
        """Nothing is left."""
        self.queue.purge()
        self.reference.messages.clear()
        self.remembered.clear()

    @invariant()
    def counts_agree(self):
        """Every message is counted once, as what it is."""
        if hasattr(self, "queue"):
            assert self.queue.counts() == self.reference.counts(self.clock.now)
            assert self.queue.is_receivable() == bool(self.reference.available(self.clock.now))


TestFifoMachine = FifoMachine.TestCase
TestFifoMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
