"""
Select and list dead letters.

SQS shows messages only by delivering them. So a listing receives dead letters, hides them for seconds and makes them
visible again. That changes neither their order nor their number; it raises their receive counts, which have no meaning
in a dead-letter queue.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from lanes.consumer.attempts import EXHAUSTED
from lanes.errors import ConfigurationError
from lanes.message import REDRIVEN, RUN
from lanes.message_filter import is_like
from lanes.operate.descriptions import moment
from lanes.runs import Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lanes.depth import LaneDepth

LATEST = 253_402_300_799
"""The last second of the year 9999 in epoch seconds, the end of Python's dates."""
LONGEST_ID = 128
"""AWS: the most characters of a deduplication id (API_SendMessage); a message id has 36."""


def read_note(text: str) -> dict[str, Any]:
    """Return the fields of a note that are as the consumer writes them; empty if it is not a note."""
    try:
        note = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(note, dict):
        return {}
    return {name: value for name, value in note.items() if name in FIELDS and FIELDS[name](value)}


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_id(value: object) -> bool:
    return isinstance(value, str) and value.isascii() and value.isprintable() and len(value) <= LONGEST_ID


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_time(value: object) -> bool:
    # NaN is within no bounds.
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LATEST


def _are_attributes(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_attribute, value.values()))


def _is_attribute(value: object) -> bool:
    """Check an attribute of the original that had to make room for the note; its binary value is in base64."""
    if not isinstance(value, dict) or not all(map(_is_text, value.values())):
        return False
    if value.keys() == {"DataType", "BinaryValue"}:
        with suppress(ValueError):
            return bool(base64.b64decode(value["BinaryValue"], validate=True))
    return value.keys() == {"DataType", "StringValue"}


FIELDS: Mapping[str, Callable[[object], bool]] = {
    "reason": _is_text,
    "error": _is_text,
    "attempts": _is_count,
    "yields": _is_count,
    "receives": _is_count,
    "first_received_at": _is_time,
    "dead_lettered_at": _is_time,
    "lane": _is_text,
    "message_id": _is_id,
    "deduplication_id": _is_id,
    "sent_at": _is_time,
    "attributes": _are_attributes,
}
"""Each field of a note with the test that its values pass."""


LARGEST_RECEIVE = 10
# All that a listing has received stays hidden until its end, or it would receive the same dead letters again. A
# thousand dead letters are a hundred calls.
HOLD = timedelta(seconds=60)
WITHOUT_NOTE = (
    "unknown: the consumer's note did not fit beside the body, or another program sent it here; "
    "`lanes trace` may know more"
)


def reason_code(reason: str) -> str:
    """Return the code of a reason that the consumer wrote; a refusal is in the words of a handler or of an error."""
    return "attempts_exhausted" if reason == EXHAUSTED else "refused"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetteredMessage:
    """
    One message in a dead-letter queue. Times are epoch seconds.

    Attributes:
        lane: the lane of the dead-letter queue.
        message_id: message ID of the dead letter; the original had another one.
        attributes: message attributes from SQS, without the note.
        note: the consumer's note; empty if SQS moved the message by itself, or nothing fitted beside the body.
        moved_by_sqs: whether SQS says that it moved the message.
        trace_header: X-Ray's tracing header; empty for none.
        first_received_at: when SQS gave it out for the first time, on SQS's clock as ``sent_at``.

    """

    lane: str
    message_id: str
    receipt_handle: str
    body: str
    group: str
    sent_at: float
    receive_count: int
    attributes: Mapping[str, Any]
    note: Mapping[str, Any]
    moved_by_sqs: bool = False
    trace_header: str = ""
    first_received_at: float

    @property
    def kind(self) -> str:
        """The kind; empty if the body is not a CloudEvent."""
        return self._event("type")

    @property
    def event_id(self) -> str:
        """The id of the message; empty if the body is not a CloudEvent."""
        return self._event("id")

    @property
    def run(self) -> str:
        """The name of the run to which it says it belongs; empty for none."""
        mark = Mark.parse(str((self.attributes.get(RUN) or {}).get("StringValue", "")))
        return "" if mark is None else mark.name

    @property
    def reason(self) -> str:
        """The reason of the dead letter."""
        if self.note:
            return str(self.note.get("reason", ""))
        return "moved by SQS after too many receives" if self.moved_by_sqs else WITHOUT_NOTE

    @property
    def code(self) -> str:
        """The reason for programs; it stays the same when the text of the reason changes."""
        if self.note:
            return reason_code(self.reason)
        return "moved_by_sqs" if self.moved_by_sqs else "without_note"

    @property
    def error(self) -> str:
        """The exception of the last attempt."""
        return str(self.note.get("error", ""))

    @property
    def dead_at(self) -> float:
        """When it was dead-lettered; if SQS moved it by itself, when it was sent."""
        return float(self.note.get("dead_lettered_at", self.sent_at))

    @property
    def sent_as(self) -> str:
        """The deduplication id of the original; empty if the note has none."""
        return str(self.note.get("deduplication_id") or "")

    @property
    def is_redriven(self) -> bool:
        """Whether it was a copy of a dead letter, of any run."""
        return self.sent_as.startswith(REDRIVEN)

    @property
    def copied_as(self) -> str:
        """The deduplication id of its copy, the same in every try."""
        return f"{REDRIVEN}{self.message_id}"

    def is_called(self, name: str) -> bool:
        """Whether a name is the message ID of the dead letter or of the original, or the message's own id."""
        return name in (self.message_id, self.note.get("message_id"), self.event_id)

    def _event(self, key: str) -> str:
        try:
            event = json.loads(self.body)
        except (ValueError, RecursionError):
            return ""
        value = event.get(key) if isinstance(event, dict) else None
        return value if isinstance(value, str) else ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterFilter:
    """
    Selects dead letters; they must match every attribute that is set.

    Attributes:
        kind: kind of the message; `*` matches any characters.
        group: group of the message.
        run: name of its run.
        reason: text in reason or error, ignoring case.
        since: dead-lettered at this time or later, epoch seconds.
        until: dead-lettered before this time.
        ids: ids of dead letters, originals or messages.

    Raises:
        ConfigurationError: one of the texts but the kind is empty.

    """

    kind: str | None = None
    group: str | None = None
    run: str | None = None
    reason: str | None = None
    since: float | None = None
    until: float | None = None
    ids: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Refuse empty texts: a script's unset variable would select other messages, or everything."""
        texts = {
            "group": self.group,
            "run": self.run,
            "reason": self.reason,
            "an id": min(self.ids, default=None),
        }
        if problems := [
            f"{name} is empty; leave it out for any" for name, text in texts.items() if text == ""
        ]:
            raise ConfigurationError(problems, source="filter")

    @property
    def chooses_all(self) -> bool:
        """Whether it matches every dead letter."""
        return not self.describe()

    def matches(self, letter: DeadLetteredMessage) -> bool:
        """Whether a dead letter matches."""
        return (
            (self.kind is None or is_like(letter.kind, self.kind))
            and (self.group is None or letter.group == self.group)
            and (self.run is None or letter.run == self.run)
            and (self.reason is None or self._gives_reason(letter, self.reason))
            and (self.since is None or letter.dead_at >= self.since)
            and (self.until is None or letter.dead_at < self.until)
            and (not self.ids or any(letter.is_called(name) for name in self.ids))
        )

    def describe(self) -> dict[str, Any]:
        """Return the attributes that are set, for people and the audit trail."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value not in (None, ())}

    @staticmethod
    def _gives_reason(letter: DeadLetteredMessage, text: str) -> bool:
        return text.casefold() in f"{letter.reason}\n{letter.error}".casefold()


class DeadLetterQueues(Protocol):
    """The dead-letter queues of the lanes; every method raises `AwsError`."""

    def dead_letters(self, lane: str) -> LaneDepth:
        """Return the counts of a lane's dead-letter queue."""

    def receive(
        self, lane: str, *, limit: int, hold: timedelta, wait: bool = True
    ) -> list[DeadLetteredMessage]:
        """
        Receive up to ten dead letters and hide them; none of a group with a hidden one.

        Args:
            lane: the lane.
            limit: maximum number.
            hold: visibility timeout.
            wait: whether to wait a second for one; without it SQS may leave out some that are there.
        """

    def give_back(self, letters: Sequence[DeadLetteredMessage]) -> None:
        """Make dead letters visible; those that are visible stay so."""

    def copy(self, letters: Sequence[DeadLetteredMessage]) -> Mapping[str, str]:
        """Send copies to the lane, at most one of a group; return the reasons of refusals by the dead letter's id."""

    def delete(self, letters: Sequence[DeadLetteredMessage]) -> Mapping[str, str]:
        """Delete dead letters; return the reasons of refusals by the dead letter's id."""


@dataclasses.dataclass(slots=True, kw_only=True)
class Listing:
    """
    Dead letters of a queue.

    Attributes:
        letters: the matching dead letters, each group in its order.
        received: number of dead letters received.
        beyond: approximate number of the others: after ten of their group, hidden by another reader, come since, or
            over the limit.
        is_hidden: whether another reader has some of them, or the hold of this one ended before its last receive.

    """

    letters: list[DeadLetteredMessage]
    received: int
    beyond: int
    is_hidden: bool


def list_dead_letters(
    queues: DeadLetterQueues,
    lane: str,
    wanted: DeadLetterFilter,
    *,
    limit: int,
    hold: timedelta = HOLD,
    at_once: int = 1,
) -> Listing:
    """
    Receive dead letters of a lane until enough match, and make all visible again.

    `at_once` is the number of receives in progress.

    AWS: no message of a group is delivered while another of it is in flight (SQS developer guide, FIFO delivery
    logic), so at most ten of a group can be received at once.
    """
    seen: dict[str, DeadLetteredMessage] = {}
    found: list[DeadLetteredMessage] = []
    cut = 0
    try:
        for letters in _rounds(queues, lane, hold, seen, at_once):
            found += [letter for letter in letters if wanted.matches(letter)]
            if len(found) >= limit:
                found, cut = found[:limit], len(found) - limit
                break
        depth = queues.dead_letters(lane)
    finally:
        queues.give_back(list(seen.values()))
    return Listing(
        letters=found,
        received=len(seen),
        beyond=max(0, depth.messages - len(seen)) + cut,
        is_hidden=depth.in_flight != len(seen),
    )


def _rounds(
    queues: DeadLetterQueues,
    lane: str,
    hold: timedelta,
    seen: dict[str, DeadLetteredMessage],
    at_once: int,
) -> Iterator[list[DeadLetteredMessage]]:
    """Receive until no new one arrives, then once more for each group that the end of a receive may have cut."""
    cut: list[str] = []

    def receive(_: int) -> list[DeadLetteredMessage]:
        return queues.receive(lane, limit=LARGEST_RECEIVE, hold=hold)

    with ThreadPoolExecutor(at_once, thread_name_prefix="dead-letters") as threads:
        while True:
            found = [receive(0)] if at_once == 1 else list(threads.map(receive, range(at_once)))
            new = [one for letters in found for one in letters if one.message_id not in seen]
            seen.update({one.message_id: one for letters in found for one in letters})
            if new:
                # AWS: a receive takes as much as it can from one group (FIFO delivery logic), so a full one may end
                # amid the last group.
                cut += [letters[-1].group for letters in found if len(letters) == LARGEST_RECEIVE]
                yield new
            elif cut:
                group = cut.pop()
                queues.give_back([letter for letter in seen.values() if letter.group == group])
            else:
                return


def row_of(letter: DeadLetteredMessage) -> dict[str, Any]:
    """Return the fields of a dead letter in a list; times are in UTC."""
    return {
        "lane": letter.lane,
        "message_id": letter.message_id,
        "kind": letter.kind,
        "id": letter.event_id,
        "group": letter.group,
        "run": letter.run,
        "given_up_at": moment(letter.dead_at),
        "attempts": letter.note.get("attempts"),
        "code": letter.code,
        "reason": letter.reason,
        "error": letter.error,
    }


def details_of(letter: DeadLetteredMessage) -> dict[str, Any]:
    """Return all fields of a dead letter; None for unknown ones."""
    noted = letter.note
    return {
        **row_of(letter),
        "yields": noted.get("yields"),
        "receives": noted.get("receives"),
        "original_message_id": noted.get("message_id"),
        "original_deduplication_id": noted.get("deduplication_id"),
        "sent_at": moment(noted.get("sent_at", letter.sent_at)),
        "first_received_at": moment(noted.get("first_received_at")),
        "times_shown": letter.receive_count,
        "attributes": letter.attributes,
        "body": letter.body,
    }


def brief_rows(
    letters: Sequence[DeadLetteredMessage], *, now: float, with_lane: bool
) -> list[dict[str, Any]]:
    """Return the rows of a list for a terminal."""
    return [
        {
            **({"lane": letter.lane} if with_lane else {}),
            "id": letter.event_id or letter.message_id,
            "kind": letter.kind,
            "group": letter.group,
            "age": timedelta(seconds=max(0, round(now - letter.dead_at))),
            "attempts": letter.note.get("attempts"),
            "reason": letter.reason,
        }
        for letter in letters
    ]
