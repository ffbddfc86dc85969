"""Lanes in memory: producers, the real consumer and the mappings between them, under a clock that the test moves."""

from __future__ import annotations

import contextlib
import itertools
import math
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from lanes.config import EngineName, LanesConfig
from lanes.consumer import Consumer
from lanes.outbox.entry import Positions
from lanes.producer.outgoing import SendEntry
from lanes.testing.assertions import ANYTHING, Criteria, Journal, describe, first, none
from lanes.testing.calls import Calls
from lanes.testing.clock import FakeClock
from lanes.testing.function import Environment, Invocations
from lanes.testing.mapping import Mappings, Rings, Runs
from lanes.testing.queues import JournaledQueues
from lanes.testing.sender import MemoryLater, MemorySender, Relays
from lanes.testing.world import LAST_RESORT, MemoryStack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lanes.message import Message
    from lanes.outbox.sql.outbox import SqlOutbox
    from lanes.outbox.store import RelayStore
    from lanes.priority import PriorityRules
    from lanes.producer import Producer
    from lanes.testing.assertions import JournalEntry
    from lanes.testing.function import EntryPoint

_WAITING = "still waiting, until run_until_idle() or run_for(...) lets the lanes work"

MOST_HANDLINGS = 1000
"""Default number of handler starts after which a run counts as endless."""


class InMemoryLanes:
    """
    A set of lanes without AWS, for tests of your handlers and senders.

    The consumer is the one that runs in Lambda: batches, yields, attempts, backoff, idempotency and dead letters are
    its own. In memory are the queues, after the documented rules of SQS FIFO, the table, and the mappings, or the bell
    with `engine = "pull"`. Messages wait until you run the lanes, and time passes only when you or the lanes move the
    clock.

    Args:
        consumer: the consumer with your handlers; you may give it later with `serve`. Register handlers before the
            first run.
        config: the lanes; HIGH, MEDIUM and MAIN by default. `LanesConfig.load("lanes.toml")` reads yours.
        clock: the time; a new clock by default.
        handler_time: duration of one handler. If it is shorter than `recheck_interval` (default 250 ms), several
            records of a batch are handled between two checks of the higher lanes, as in production.
        seed: of the random jitter of delays.

    Attributes:
        config: the lanes.
        clock: the time.
        deployment: the deployment that your code sees, with invalid addresses.
        producer: sends to the lanes.
        journal: the messages and attempts, in lists: `sent`, `handled`, `failed`, `dead_lettered`.

    Example:
        >>> from lanes import Consumer
        >>> consumer = Consumer()
        >>> lanes = InMemoryLanes(consumer)
        >>> @consumer.handler("order.placed")
        ... def place(message):
        ...     lanes.producer.send("mail.wanted", {"order": message.data["order"]}, priority=-50)
        >>> sent = lanes.producer.send("order.placed", {"order": 7})
        >>> lanes.run_for(1)
        >>> lanes.assert_handled("order.placed").id == sent.id
        True
        >>> lanes.assert_sent("mail.wanted", lane="MAIN").data
        {'order': 7}

    """

    def __init__(
        self,
        consumer: Consumer | None = None,
        *,
        config: LanesConfig | None = None,
        clock: FakeClock | None = None,
        handler_time: timedelta = timedelta(seconds=1),
        seed: int = 0,
    ) -> None:
        self.config = config or LanesConfig()
        self.clock = clock or FakeClock()
        self.journal = Journal(self.clock)
        self._consumer = consumer
        self._entry_point: EntryPoint | None = None
        self._random = Random(seed)  # noqa: S311 - the jitter of tests
        self._raw_numbers = itertools.count(1)
        calls = Calls()
        queues = JournaledQueues(self.config, self.clock, calls, native=LAST_RESORT, journal=self.journal)
        self._stack = MemoryStack(self.config, self.clock, calls, queues, sleep=self.clock.advance)
        self.deployment = self._stack.deployment
        self._sender = MemorySender(self.deployment, queues.live, self.journal, self._stack.new_bell())
        self._later = MemoryLater(self._sender, self.clock)
        self.producer = self.new_producer()
        self._relays = Relays(
            producer=self.producer,
            config=self.config,
            clock=self.clock,
            depth_of=self._stack.queues.depth,
        )
        self._invocations = Invocations(
            settings=self.config.consumer,
            clock=self.clock,
            journal=self.journal,
            calls=calls,
            handler_time=handler_time,
            new_environment=self._new_environment,
        )
        self._source = self._new_source(calls)
        self._runs = Runs(
            source=self._source,
            invocations=self._invocations,
            relays=self._relays,
            later=self._later,
            journal=self.journal,
            clock=self.clock,
        )

    def serve(self, consumer: Consumer, *, entry_point: EntryPoint | None = None) -> None:
        """
        Handle messages with this consumer from now on, as after a deployment.

        Args:
            consumer: the consumer with your handlers.
            entry_point: your `lambda_handler`, if it is a function of your own around this consumer: events go
                through it. A `TypeError` ends the run if it returns nothing.
        """
        if not isinstance(consumer, Consumer):
            raise TypeError(f"serve takes a lanes.Consumer, not {consumer!r}")
        self._consumer, self._entry_point = consumer, entry_point
        self._invocations.forget_environments()

    def new_producer(self, *, rules: PriorityRules | None = None, source: str | None = None) -> Producer:
        """Return a producer for these lanes with rules or a source of its own."""
        return self._stack.new_producer(
            self._sender, rules=rules, source=source, jitter=self._random.random, later=self._later
        )

    def new_outbox(self, *, rules: PriorityRules | None = None, source: str | None = None) -> SqlOutbox:
        """Return an outbox for SQL transactions of the application, whose entries are as old as the clock says."""
        # Imported here, since SQLAlchemy is an extra.
        from lanes.outbox.sql.outbox import SqlOutbox

        return SqlOutbox(config=self.config, rules=rules, source=source, positions=Positions(self.clock))

    @property
    def scheduled(self) -> Sequence[Message]:
        """Messages with `not_before` that are not due yet, the next one first."""
        return self._later.messages()

    def publish_from(self, store: RelayStore) -> None:
        """Publish the outbox entries in this store whenever the lanes run."""
        self._relays.add(store)

    def send_body(self, lane: str, body: str, *, group: str = "raw") -> None:
        """
        Put any body straight into a lane, as another service would, for `raw_handler` or none.

        Raises:
            KeyError: there is no such lane.
            TypeError: the body is not text.
            ValueError: it is empty.

        """
        if not isinstance(body, str):
            raise TypeError(f"body is {body!r}; SQS takes text, such as json.dumps(...)")
        # AWS: at least one character (API_SendMessage).
        if not body:
            raise ValueError("body is empty; SQS takes no message without text")
        entry = SendEntry(
            entry_id="0",
            body=body,
            message_group_id=group,
            message_deduplication_id=f"raw-{next(self._raw_numbers)}",
        )
        self._sender.take_in(self.config.lane(lane).name, entry)

    def run_until_idle(self, *, most_handlings: int = MOST_HANDLINGS) -> None:
        """
        Run relays, mappings and consumer until no message waits; backoffs and delays move the clock.

        Args:
            most_handlings: handler starts after which the run counts as endless.

        Raises:
            NeverIdleError: the limit was reached.

        """
        self._runs.until(lambda: False, most_handlings=most_handlings)

    def run_for(self, duration: timedelta | float, *, most_handlings: int = MOST_HANDLINGS) -> None:
        """
        Run the lanes for some time, a timedelta or seconds, and leave the clock at its end.

        An invocation that begins within it is not cut short, so the clock may end later.

        Raises:
            NeverIdleError: as for `run_until_idle`.
            ValueError: the duration is negative, or not a timedelta or number.

        """
        seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < math.inf:
            raise ValueError(f"duration is {duration!r}; it must be a timedelta or seconds, and not negative")
        end = self.clock.now + seconds
        self._runs.until(lambda: self.clock.now >= end, most_handlings=most_handlings, deadline=end)
        self.clock.advance_to(end)

    def run_until(self, condition: Callable[[], bool], *, most_handlings: int = MOST_HANDLINGS) -> bool:
        """
        Run the lanes until a condition holds, checked before each invocation, or no message waits.

        Returns:
            Whether the condition holds.

        Raises:
            NeverIdleError: as for `run_until_idle`.
            TypeError: the condition can't be called.

        """
        if not callable(condition):
            raise TypeError(f"condition is {condition!r}; it must be a function, such as lambda: done")
        return self._runs.until(condition, most_handlings=most_handlings)

    @contextlib.contextmanager
    def away(self, resource: str = "") -> Iterator[None]:
        """
        Let a resource be away for the length of a block: the handlers that need it raise `Unavailable`.

        Let time pass with `run_for` in the block: until its end no message of the resource is handled.

        Args:
            resource: as in `@consumer.handler(kind, resource=…)`; by default that of handlers that name none.

        """
        self._invocations.away.add(resource)
        try:
            yield
        finally:
            self._invocations.away.discard(resource)

    def assert_sent(
        self,
        kind: str | None = None,
        *,
        lane: str | None = None,
        group: str | None = None,
        priority: int | None = None,
        id: str | None = None,  # noqa: A002 - the name that CloudEvents gives it
        data: Any = ANYTHING,
        **fields: Any,
    ) -> Message:
        """
        Return the first sent message that matches the arguments you give.

        Args:
            kind: its kind.
            lane: name of the lane that took it in.
            group: its group.
            priority: its resolved priority.
            id: its id.
            data: its whole data.
            fields: single keys of its data; `data` compares those that are named like the arguments above.

        Raises:
            AssertionError: none does; lists the nearest ones.
            KeyError: there is no such lane.

        """
        __tracebackhide__ = True
        exact = {"kind": kind, "lane": self._known(lane), "group": group, "priority": priority, "id": id}
        criteria = Criteria(exact=exact, data=data, fields=fields)
        return first("sent", self.journal.sent, criteria).message

    def assert_not_sent(
        self, kind: str | None = None, *, lane: str | None = None, data: Any = ANYTHING, **fields: Any
    ) -> None:
        """
        Check that no sent message matches; the arguments are those of `assert_sent`.

        Raises:
            AssertionError: some do; lists all of them.
            KeyError: there is no such lane, so that a misspelt one isn't taken for an empty one.

        """
        __tracebackhide__ = True
        criteria = Criteria(exact={"kind": kind, "lane": self._known(lane)}, data=data, fields=fields)
        none("sent", self.journal.sent, criteria)

    def assert_handled(
        self,
        kind: str | None = None,
        *,
        lane: str | None = None,
        attempt: int | None = None,
        data: Any = ANYTHING,
        **fields: Any,
    ) -> Message:
        """
        Return the first successfully handled message that matches.

        Args:
            kind: its kind.
            lane: name of the lane that it came by.
            attempt: the attempt that succeeded, 1 for the first.
            data: its whole data.
            fields: single keys of its data.

        Raises:
            AssertionError: none does; lists the nearest ones, failed attempts, dead letters and waiting messages.
            KeyError: there is no such lane.

        """
        __tracebackhide__ = True
        exact = {"kind": kind, "lane": self._known(lane), "attempt": attempt}
        criteria = Criteria(exact=exact, data=data, fields=fields)
        instead: dict[str, Sequence[JournalEntry]] = {
            "failed attempts": self.journal.failed,
            "dead-lettered": self.journal.dead_lettered,
            _WAITING: [*self.journal.waiting.values()],
        }
        return first("handled", self.journal.handled, criteria, instead=instead).message

    def assert_dead_lettered(
        self,
        kind: str | None = None,
        *,
        reason: str | None = None,
        lane: str | None = None,
        data: Any = ANYTHING,
        **fields: Any,
    ) -> Message:
        """
        Return the first dead-lettered message that matches.

        Args:
            kind: its kind.
            reason: text that its reason holds: that of `DeadLetter`, or "attempts exhausted".
            lane: name of its lane.
            data: its whole data.
            fields: single keys of its data.

        Raises:
            AssertionError: none does; lists the nearest ones, and handled and waiting messages.
            KeyError: there is no such lane.

        """
        __tracebackhide__ = True
        exact = {"kind": kind, "lane": self._known(lane)}
        criteria = Criteria(exact=exact, reason=reason, data=data, fields=fields)
        instead: dict[str, Sequence[JournalEntry]] = {
            "handled": self.journal.handled,
            _WAITING: [*self.journal.waiting.values()],
        }
        return first("dead-lettered", self.journal.dead_lettered, criteria, instead=instead).message

    def assert_nothing_waiting(self) -> None:
        """
        Check that every message was handled or dead-lettered, and that the outboxes are empty.

        Raises:
            AssertionError: some were not; lists each with its state.

        """
        __tracebackhide__ = True
        waiting = [
            f"{describe(sent)}: {self._stack.ledger.whereabouts(sent.lane, message_id, now=self.clock.now)}"
            for message_id, sent in self.journal.waiting.items()
        ]
        if waiting := [*waiting, *self._relays.unfinished()]:
            raise AssertionError("\n  ".join(["there are messages that wait:", *waiting]))

    def _known(self, lane: str | None) -> str | None:
        return lane if lane is None else self.config.lane(lane).name

    def _new_source(self, calls: Calls) -> Mappings | Rings:
        queues = self._stack.queues.live
        if self.config.consumer.engine is EngineName.PULL:
            return Rings(bell=self._stack.bell, queues=queues, invocations=self._invocations)
        return Mappings(
            config=self.config,
            queues=queues,
            clock=self.clock,
            journal=self.journal,
            calls=calls,
            invocations=self._invocations,
        )

    def _new_environment(self) -> Environment:
        if self._consumer is None:
            raise ValueError("the lanes have no consumer; give one to InMemoryLanes(...) or to serve(...)")
        random = Random(self._random.getrandbits(64))  # noqa: S311
        runtime = self._stack.runtime(self.journal, random)
        consumer = self._consumer.within(
            runtime, around=self._invocations.around, decoded=self.journal.note_decoded
        )
        return Environment(consumer, self._entry_point, self._consumer)
