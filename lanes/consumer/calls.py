"""Calls: the records that are handled together, and the failures that a batch handler's answer names."""

from __future__ import annotations

import contextvars
import dataclasses
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lanes.config.settings import MAX_RECEIVES
from lanes.consumer import telemetry as report
from lanes.consumer.handlers import HandlerContext
from lanes.consumer.signals import Yielded, deciding, readable
from lanes.consumer.values import value
from lanes.events import Event
from lanes.metrics import Metric
from lanes.priority import CURRENT_PRIORITY, current_priority
from lanes.trace_context import CONTINUED_TRACE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.config import Lane, LanesConfig
    from lanes.consumer.handlers import Work
    from lanes.consumer.ledger import Entry
    from lanes.consumer.outcome import Outcomes
    from lanes.consumer.records import Batch, RawRecord
    from lanes.consumer.telemetry import Telemetry
    from lanes.message import Message

MOST_NAMED = 3
"""Unknown ids that an error names."""


class NamedAsFailedError(Exception):
    """The batch handler named this message as failed, without an error."""


@value(frozen=True, slots=True)
class Call:
    """
    Records that one call of a handler handles, in their order, with their decoded work.

    More than one only for a batch handler: then they are of one kind and priority, each of another group, and new, so
    a message that failed or crashed before can't spoil the attempts of others.
    """

    records: Sequence[RawRecord]
    works: Sequence[Work]

    @property
    def max_size(self) -> int:
        """The most records that a call of this handler takes."""
        handler = self.works[0].handler
        return (handler and handler.max_size) or 1

    def only(self, records: Iterable[RawRecord], *, most: int) -> Call:
        """Return the same call with at most so many of these records."""
        kept = {record.message_id for record in records}
        both = [pair for pair in zip(self.records, self.works, strict=True) if pair[0].message_id in kept][
            :most
        ]
        return Call([record for record, _ in both], [work for _, work in both])


def next_call(rest: Sequence[RawRecord], outcomes: Outcomes, *, resolve: Callable[[RawRecord], Work]) -> Call:
    """Return the call that handles the first of the undecided records, and those that it can handle with it."""
    first = rest[0]
    records, works = [first], [resolve(first)]
    handler = works[0].handler
    if handler is None or handler.max_size is None or not _is_new(first, outcomes):
        return Call(records, works)
    # One of each group: behind a failed record of its group, a later one would be handled already.
    groups, ids = {first.group}, {works[0].id}
    for record in rest[1:]:
        if len(records) == handler.max_size:
            break
        if record.group in groups:
            continue
        groups.add(record.group)
        if outcomes.behind(record) or not _is_new(record, outcomes):
            continue
        work = resolve(record)
        # The answer names ids. What the handler sends inherits the priority.
        if work.handler is handler and work.priority == works[0].priority and work.id not in ids:
            ids.add(work.id)
            records.append(record)
            works.append(work)
    return Call(records, works)


def _is_new(record: RawRecord, outcomes: Outcomes) -> bool:
    """Whether a record may share a call: none of its attempts failed or crashed, and it may yield with the others."""
    entry = outcomes.entries[record.message_id]
    is_tried = entry.attempts or entry.suspect or entry.given_up
    return not is_tried and record.receive_count < MAX_RECEIVES


def failures_in(answer: Any, messages: Sequence[Message]) -> dict[str, BaseException]:
    """
    Return the errors of the messages that a batch handler's answer names, by id.

    Raises:
        TypeError: the answer is not None, ids, or a mapping of ids to exceptions.
        ValueError: none of the messages has such an id.

    """
    if answer is None:
        return {}
    if isinstance(answer, str | bytes) or not isinstance(answer, Iterable):
        raise TypeError(
            "a batch handler must return None, the ids of failed messages in a list, or a dict of these ids and "
            f"their exceptions, not a value of type {type(answer).__name__}"
        )
    found: dict[str, BaseException] = {}
    for one in answer:
        if not isinstance(one, str):
            raise TypeError(
                f"a batch handler must name failed messages by id (message.id), not with a value of type "
                f"{type(one).__name__}"
            )
        error = answer[one] if isinstance(answer, Mapping) else NamedAsFailedError("by its batch handler")
        if not isinstance(error, Exception):
            raise TypeError(
                f"a batch handler must map the id {one!r} to an exception, such as Retry() or DeadLetter('why'), "
                f"not to a value of type {type(error).__name__}"
            )
        found[one] = error
    if unknown := [one for one in found if one not in {message.id for message in messages}]:
        more = f" and {len(unknown) - MOST_NAMED} more" if len(unknown) > MOST_NAMED else ""
        named = ", ".join(map(repr, unknown[:MOST_NAMED]))
        raise ValueError(
            f"a batch handler returned ids that none of its {len(messages)} messages has: {named}{more}; "
            "return those of message.id"
        )
    return found


@dataclasses.dataclass(slots=True)
class Attempt:
    """One record's attempt: `before` is its entry while the attempt does not count, `is_ahead` if it was counted."""

    record: RawRecord
    work: Work
    entry: Entry
    before: Entry
    is_ahead: bool = False

    @property
    def number(self) -> int:
        """1 for the first attempt."""
        return self.before.attempts + 1


class Caller:
    """Calls handlers, and tells the errors of each message from the end of the process and from yields."""

    def __init__(self, *, config: LanesConfig, telemetry: Telemetry) -> None:
        # A sender that may send to one lane alone writes the priority into its message as it likes.
        self._highest = {lane.name: config.highest_priority(lane) for lane in config.lanes}
        self._max_attempts = config.consumer.max_attempts
        self._telemetry = telemetry

    def call(
        self, batch: Batch, begun: Sequence[Attempt], *, check: Callable[[], None]
    ) -> Mapping[str, BaseException]:
        """Call the handler; return the errors by message id; raises `Yielded` if all attempts leave untouched."""
        try:
            return self._called(batch, begun, check=check)
        except BaseException as raised:  # noqa: BLE001 - the border to user code: every exception is an outcome
            raised = readable(raised)
            error = deciding(raised)
            # The first ends the process, and neither is a failure of the record.
            if isinstance(error, KeyboardInterrupt | Yielded):
                raise error from None
            return dict.fromkeys((attempt.work.id for attempt in begun), raised)

    def _called(
        self, batch: Batch, begun: Sequence[Attempt], *, check: Callable[[], None]
    ) -> Mapping[str, BaseException]:
        """Call the handler inside the priority of its messages, and the trace if they have one in common."""
        first, handler = begun[0], begun[0].work.handler
        assert handler is not None  # noqa: S101 - refused before
        trace = first.work.trace
        if trace and all(one.work.trace and one.work.trace.trace_id == trace.trace_id for one in begun):
            trace = trace.child()
        else:
            trace = None
        messages: list[Any] = [attempt.work.argument for attempt in begun]
        # A list of its own: a handler may take messages out of it, and its answer names them afterwards.
        arguments: list[Any] = messages[:1] if handler.max_size is None else [list(messages)]
        if handler.takes_context:
            context = HandlerContext(
                lane=batch.lane.name,
                attempt=first.number,
                max_attempts=self._max_attempts,
                receive_count=first.record.receive_count,
                message_id=first.record.message_id,
                message_ids=[one.record.message_id for one in begun] if handler.max_size else (),
                remaining=lambda: timedelta(seconds=max(0.0, batch.seconds_left)),
                check=check,
                traceparent=str(trace) if trace else None,
            )
            arguments.append(context)
        priority = self._priority_in(batch.lane, begun)

        def handle() -> Any:
            CURRENT_PRIORITY.set(priority)
            CONTINUED_TRACE.set(trace)
            return handler.ran(handler.function(*arguments))

        # A context for each call: a variable that a handler sets must not reach the next message.
        answer = contextvars.copy_context().run(handle)
        return {} if handler.max_size is None else failures_in(answer, messages)

    def _priority_in(self, lane: Lane, begun: Sequence[Attempt]) -> int | None:
        """Return the priority in which a handler runs: at most the highest of its lane."""
        priority, highest = begun[0].work.priority, self._highest[lane.name]
        if priority is None:
            return current_priority()
        if highest is None or priority <= highest:
            return priority
        for one in begun:
            self._telemetry.count(Metric.LOWERED)
            fields = {"priority": priority, "to": highest}
            report.decoded(self._telemetry, Event.PRIORITY_LOWERED, lane, one.record, one.work, **fields)
        return highest
