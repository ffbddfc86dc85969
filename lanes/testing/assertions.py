"""What happened in a test: the journal of messages and attempts, and assertions with their nearest misses."""

from __future__ import annotations

import difflib
import json
from collections import Counter
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from lanes.errors import MessageDecodeError
from lanes.events import Count, Event
from lanes.message import Message, sqs_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from lanes.consumer.records import RawRecord
    from lanes.metrics import Metric
    from lanes.testing.clock import FakeClock


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """
    A message that a lane accepted from any sender.

    Attributes:
        message: with its resolved priority.
        lane: name of the lane.
        at: when, by the test's clock.
        message_id: its id in SQS.

    """

    message: Message
    lane: str
    at: datetime
    message_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Handled:
    """
    A successfully handled message.

    Attributes:
        message: the handled message.
        lane: name of the lane that it came by.
        at: when it was done, by the test's clock.
        attempt: the successful attempt, 1 for the first.
        receive_count: receives until then, yields included.

    """

    message: Message
    lane: str
    at: datetime
    attempt: int
    receive_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """
    A failed attempt.

    Attributes:
        message: the attempted message.
        lane: name of the lane that it came by.
        at: when it failed, by the test's clock.
        attempt: 1 for the first.
        error: the handler's exception, `Retry` and `DeadLetter` included.

    """

    message: Message
    lane: str
    at: datetime
    attempt: int
    error: BaseException


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLettered:
    """
    A dead-lettered message.

    Attributes:
        message: as it is in the dead-letter queue; a raw body has no kind, and is the data itself.
        lane: name of its lane.
        at: when, by the test's clock.
        reason: of the dead letter.
        error: of its last failed attempt, if there was one.
        attempts: number of failed attempts.
        yields: number of yields.
        receives: number of receives in all.

    """

    message: Message
    lane: str
    at: datetime
    reason: str
    error: str
    attempts: int
    yields: int
    receives: int


JournalEntry = Sent | Handled | Failed | DeadLettered


def message_of(body: str, *, group: str, message_id: str) -> Message:
    """Return the message in a body; a raw body becomes a message without a kind, with the body as data."""
    try:
        return Message.from_body(body, group=group)
    except MessageDecodeError:
        return Message(kind="", data=body, id=message_id, group=group)


class Silence:
    """Telemetry without a receiver."""

    def begin(self, lane: str, context: Any) -> None:
        """Do nothing."""

    def event(self, name: str, fields: Mapping[str, Any]) -> None:
        """Do nothing."""

    def problem(self, name: str, /, **fields: Any) -> None:
        """Do nothing."""

    def count(self, metric: Metric | str, value: float = 1) -> None:
        """Do nothing."""

    def milliseconds(self, metric: Metric | str, value: float) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""


class Journal(Silence):
    """
    Lists messages in the order of their events; it serves as the consumer's telemetry.

    `waiting` has the messages that are neither handled nor dead-lettered, by the message id of SQS.
    """

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._messages: dict[str, Message] = {}
        self.sent: list[Sent] = []
        self.handled: list[Handled] = []
        self.failed: list[Failed] = []
        self.dead_lettered: list[DeadLettered] = []
        self.waiting: dict[str, Sent] = {}
        self.yields: Counter[str] = Counter()
        self.problems: list[str] = []

    def note_sent(self, lane: str, body: str, *, group: str, message_id: str) -> None:
        """Add a message that a lane accepted, unless it is known."""
        if message_id in self._messages:
            return
        message = message_of(body, group=group, message_id=message_id)
        self._messages[message_id] = message
        sent = Sent(message=message, lane=lane, at=self._clock.time, message_id=message_id)
        self.sent.append(sent)
        self.waiting[message_id] = sent

    def note_decoded(self, record: RawRecord) -> None:
        """From now on, take a message as its decoder made it."""
        message_id = record.message_id
        self._messages[message_id] = message_of(record.body, group=record.group, message_id=message_id)

    def note_failed(self, message_id: str, *, lane: str, attempt: int, error: BaseException) -> None:
        """Add a failed attempt."""
        self.failed.append(
            Failed(
                message=self._messages[message_id],
                lane=lane,
                at=self._clock.time,
                attempt=attempt,
                error=error,
            )
        )

    def note_deleted(self, message_id: str) -> None:
        """Remove a message from `waiting`."""
        self.waiting.pop(message_id, None)

    def event(self, name: str, fields: Mapping[str, Any]) -> None:
        """Add a handled or dead-lettered message, or count a yield."""
        if name == Event.MESSAGE_HANDLED:
            self.handled.append(
                Handled(
                    message=self._messages[fields["message_id"]],
                    lane=fields["lane"],
                    at=self._clock.time,
                    attempt=fields["attempt"],
                    receive_count=fields["receive_count"],
                )
            )
        elif name == Event.MESSAGE_DEAD_LETTERED:
            self._note_dead_lettered(fields)
        elif Event(name).counts is Count.YIELDED:
            self.yields[fields["lane"]] += 1

    def problem(self, name: str, /, **fields: Any) -> None:  # noqa: ARG002
        """Add an error that the consumer handled by itself; failures of handlers are in `failed`."""
        if name != Event.HANDLER_FAILED:
            self.problems.append(name)

    def _note_dead_lettered(self, fields: Mapping[str, Any]) -> None:
        # The consumer took it out of its lane, even if its process is killed before it answers.
        self.note_deleted(fields["message_id"])
        self.dead_lettered.append(
            DeadLettered(
                message=self._messages[fields["message_id"]],
                lane=fields["lane"],
                at=self._clock.time,
                reason=fields["reason"],
                error=fields["error"],
                attempts=fields["attempts"],
                yields=fields["yields"],
                receives=fields["receive_count"],
            )
        )


Found = TypeVar("Found", bound=Sent | Handled | Failed | DeadLettered)

ANYTHING: Final = object()
"""Matches any data; None is data too."""

MOST_SHOWN = 5
LONGEST_DATA = 200
# Two letters that changed places leave 0.8 of "works" and 0.92 of "order.placed".
SIMILAR = 0.75


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """
    The wanted values of a message; None matches any.

    Attributes:
        exact: wanted values by name: kind, lane, group, priority, id, attempt.
        reason: text that the reason of a dead letter holds.
        data: the whole data, compared for equality.
        fields: wanted values of single keys of the data.

    """

    exact: Mapping[str, Any]
    reason: str | None = None
    data: Any = ANYTHING
    fields: Mapping[str, Any] = field(default_factory=dict)

    def misses(self, found: JournalEntry) -> list[str]:
        """Return the differences, the kind first; none if it matches."""
        return list(self._misses(found))

    def means(self, found: JournalEntry) -> bool:
        """Return whether this is the wanted message in another state: attempt and reason are left out."""
        exact = {name: wanted for name, wanted in self.exact.items() if name != "attempt"}
        return not replace(self, exact=exact, reason=None).misses(found)

    def means_misspelt(self, found: JournalEntry) -> bool:
        """Return whether this would be the wanted message if its kind were spelt like the wanted one."""
        wanted, kind = self.exact.get("kind"), found.message.kind
        if not wanted or kind == wanted or not difflib.get_close_matches(kind, [wanted], cutoff=SIMILAR):
            return False
        return replace(self, exact={**self.exact, "kind": kind}).means(found)

    def _misses(self, found: JournalEntry) -> Iterator[str]:
        for name, wanted in self.exact.items():
            value = _value(found, name)
            if wanted is not None and value != wanted:
                yield f"{name} is {_text(value)}, not {_text(wanted)}"
        if self.reason is not None and isinstance(found, DeadLettered) and self.reason not in found.reason:
            yield f"reason is {found.reason!r}, without {self.reason!r}"
        data = found.message.data
        if self.data is not ANYTHING and data != self.data:
            yield f"data is {_text(data)}, not {_text(self.data)}"
        for name, wanted in self.fields.items():
            if not isinstance(data, dict) or name not in data:
                yield f"data has no {name!r}, {_text(wanted)} is wanted"
            elif data[name] != wanted:
                yield f"{name} is {_text(data[name])}, not {_text(wanted)}"

    def __str__(self) -> str:
        parts = [f"{name}={_text(value)}" for name, value in self.exact.items() if value is not None]
        parts += [] if self.reason is None else [f"reason={self.reason!r}"]
        parts += [] if self.data is ANYTHING else [f"data={_text(self.data)}"]
        parts += [f"{name}={_text(value)}" for name, value in self.fields.items()]
        return ", ".join(parts) or "anything"


def first(
    verb: str,
    found: Sequence[Found],
    criteria: Criteria,
    *,
    instead: Mapping[str, Sequence[JournalEntry]] = MappingProxyType({}),
) -> Found:
    """
    Return the first that matches.

    Args:
        verb: the state of the entries in `found`.
        found: the entries to search.
        criteria: the wanted values.
        instead: entries of other states by heading, in case the wanted message is one of those.

    Raises:
        AssertionError: none does; lists the near misses, and matches in `instead`.

    """
    __tracebackhide__ = True
    for one in found:
        if not criteria.misses(one):
            return one
    lines = [f"no message was {verb} with {criteria}"]
    lines += [f"the nearest of {len(found)}:", *near_misses(found, criteria)] if found else []
    for heading, others in instead.items():
        meant = [f"  {describe(one)}" for one in others if criteria.means(one)][-MOST_SHOWN:]
        lines += [f"{heading}:", *meant] if meant else []
        misspelt = [f"  {describe(one)}" for one in others if criteria.means_misspelt(one)][-MOST_SHOWN:]
        lines += [f"with a similar kind, {heading}:", *misspelt] if misspelt else []
    raise AssertionError("\n".join(lines))


def none(verb: str, found: Sequence[Found], criteria: Criteria) -> None:
    """
    Check that nothing matches.

    Raises:
        AssertionError: something does.

    """
    __tracebackhide__ = True
    matching = [f"  {describe(one)}" for one in found if not criteria.misses(one)]
    if matching:
        raise AssertionError("\n".join([f"{verb} with {criteria}: {len(matching)}", *matching]))


def near_misses(found: Sequence[JournalEntry], criteria: Criteria) -> list[str]:
    """Describe the misses, the nearest first: the same kind, then fewest differences, then the latest."""
    ranked = []
    for position, one in enumerate(found):
        misses = criteria.misses(one)
        other_kind = any(miss.startswith("kind ") for miss in misses)
        ranked.append((other_kind, len(misses), -position, one, misses))
    ranked.sort(key=lambda entry: entry[:3])
    lines = []
    for *_, one, misses in ranked[:MOST_SHOWN]:
        lines.append(f"  {describe(one)}")
        lines += [f"      {miss}" for miss in misses]
    if len(ranked) > MOST_SHOWN:
        lines.append(f"  and {len(ranked) - MOST_SHOWN} more")
    return lines


def describe(one: JournalEntry) -> str:
    """Return a line that identifies a message."""
    message = one.message
    parts = [message.kind or "raw body", f"in {one.lane}", f"priority {message.priority}"]
    # A message without a group has its identity for one.
    parts += [f"group {message.group!r}"] if message.group not in (None, sqs_id(message.identity)) else []
    parts.append(_text(message.data))
    if isinstance(one, Handled | Failed):
        parts.append(f"attempt {one.attempt}")
    if isinstance(one, Failed):
        parts.append(f"{type(one.error).__name__}: {one.error}")
    if isinstance(one, DeadLettered):
        parts.append(f"{one.reason!r} after {one.attempts} attempts")
        parts += [one.error] if one.error else []
    return ", ".join(parts)


def _value(found: JournalEntry, name: str) -> Any:
    return getattr(found, name) if name in ("lane", "attempt") else getattr(found.message, name)


def _text(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= LONGEST_DATA else f"{text[:LONGEST_DATA]}..."
