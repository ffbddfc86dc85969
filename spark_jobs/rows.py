"""Rows of a table, the messages that they become, and what of each is being sent."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from json.encoder import c_make_encoder  # type: ignore[attr-defined]
from json.encoder import encode_basestring as quote
from typing import TYPE_CHECKING, Any, TypeAlias

from lanes.errors import MessageError, MessageTooLargeError
from lanes.message import (
    LARGEST_BODY_BYTES,
    SQS_ID,
    JsonText,
    Message,
    identity_prefix,
    in_xml,
    kind_problem,
    run_bytes,
    size_bytes,
    sqs_id,
)
from lanes.producer.outgoing import SendEntry

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lanes.runs import Mark

    Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class UnreadableRow:
    """
    A row with a value that Python cannot hold.

    Attributes:
        row: The row; such values are text.
        reason: The columns that cannot be read, and why.
    """

    row: Row
    reason: str


Rows: TypeAlias = "list[dict[str, Any] | UnreadableRow]"


@dataclass(slots=True)
class OutgoingRow:
    """
    A row that can be sent.

    Attributes:
        row: The row of the table.
        index: Position in the partition, starting at 1.
        identity: Identity of the message, by which a rerun knows it.
        priority: Priority of the message.
        body: Body of the message.
        message_group_id: Message group at SQS.
        message_deduplication_id: Deduplication id at SQS.
        size_bytes: Size of the body and the mark.
        run: Mark of the run that is followed; empty for none.
        attempts: Number of calls that included it and were not throttled.
        first_tried_at: Start of the first of them.
        alone: Sent in a call of its own, after one that was refused for one of its rows.
    """

    row: Row
    index: int
    identity: str
    priority: int
    body: str
    message_group_id: str
    message_deduplication_id: str
    size_bytes: int
    run: str = ""
    attempts: int = 0
    first_tried_at: float = 0.0
    alone: bool = False

    def entry(self, entry_id: str) -> SendEntry:
        """Give it as boto3's client takes it."""
        return SendEntry(
            entry_id=entry_id,
            body=self.body,
            message_group_id=self.message_group_id,
            message_deduplication_id=self.message_deduplication_id,
            run=self.run,
        )


# A change gives every row a new id, so a rerun would send all rows again.
NAMESPACE = uuid.UUID("5a0f3b4e-6d1c-4f0a-9b57-1d0c8e7a2f36")
WHOLE = Decimal(1)


class RowRefusedError(MessageError):
    """
    A row cannot be sent.

    Attributes:
        partition: Number of the partition.
        position: Place of the row in its partition, from 1.
        row: The row.
        reason: Why it cannot be sent.
        sent: Messages of the partition that SQS has accepted in this session.
    """

    def __init__(
        self, *, partition: int, position: int, row: Mapping[str, Any], reason: str, sent: int
    ) -> None:
        self.partition = partition
        self.position = position
        self.row = row
        self.reason = reason
        self.sent = sent
        named = ", ".join(
            f"{name} {row[name]!r}" for name in ("id", "kind", "group") if row.get(name) is not None
        )
        super().__init__(
            f"row {position} of partition {partition}{f' ({named})' if named else ''} cannot be sent: {reason}\n"
            f"SQS has accepted {sent:,} messages of this partition, and those of other partitions may be sent too; a "
            f"rerun sends the same ids. With onError=quarantine (and runId, manifestPath) the job writes such rows "
            f"beside the manifest and sends all others."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RowReader:
    """
    Makes messages from rows.

    The same row gives the same id and group in every task and job.

    Attributes:
        kind: Kind of rows without one.
        priority: Priority of rows without one.
        source: Source of the messages.
        mark: Mark of the run that is followed; None for none.
    """

    kind: str | None
    priority: int
    source: str = "spark"
    mark: Mark | None = None

    def message(self, row: Mapping[str, Any]) -> Message:
        """
        Make the message of a row.

        Raises:
            ValueError: The row has no kind, or its data is not a JSON document.
        """
        kind, data, identity, group, priority = self._fields(row)
        return Message(
            kind=kind,
            data=data,
            id=identity,
            group=group,
            priority=priority,
            source=self.source,
            traceparent=row.get("traceparent"),
            deduplication_id=self._deduplication_id(row, kind, identity),
        )

    def _deduplication_id(self, row: Mapping[str, Any], kind: str, identity: str) -> str | None:
        if self.mark is None:
            return self._resend_id(row, kind, identity)
        # A run has its name alone, so this is not a repeat of the dead letter either.
        return self.mark.once(f"{identity_prefix(self.source, kind)}{identity}")

    def _resend_id(self, row: Mapping[str, Any], kind: str, identity: str) -> str | None:
        """Name a resend after its dead letter, since SQS would drop a repeat of the letter's own message."""
        letter = row.get("resend_of")
        return None if letter is None else f"{identity_prefix(self.source, kind)}{identity}#resend-{letter}"

    def item(self, row: Mapping[str, Any], position: int) -> OutgoingRow:
        """
        Make the body and the ids of a row: those of its message, in a third of the time.

        Args:
            row: A row of the table.
            position: Its position in the partition, starting at 1.

        Raises:
            ValueError: The row has no kind, or its data is not a JSON document.
            MessageError: The message breaks a rule.
        """
        if row.get("resend_of") is not None:
            return self._item_of_message(row, position)
        kind, data, identity, group, priority = self._fields(row)
        prefix, origin = _origin(self.source, kind)
        name = f"{prefix}{identity}"
        if not (
            origin and identity and SQS_ID.fullmatch(name) and (group is None or SQS_ID.fullmatch(group))
        ):
            return self._item_of_message(row, position)
        trace = row.get("traceparent")
        try:
            traceparent = "" if trace is None else f',"traceparent":{quote(trace)}'
            text = (
                f'{{"specversion":"1.0","id":{quote(identity)},{origin},"time":"{moment(time.time_ns())}",'
                f'"datacontenttype":"application/json","data":{data},"priority":{priority:d}'
                f"{traceparent}}}"
            )
        except (TypeError, ValueError):
            return self._item_of_message(row, position)
        plain = text.isascii()
        body = text if plain else in_xml(text)
        run, once = ("", name) if self.mark is None else (self.mark.text, self.mark.once(name))
        size = (len(body) if plain else len(body.encode())) + run_bytes(run)
        if size > LARGEST_BODY_BYTES:
            return self._item_of_message(row, position)
        return OutgoingRow(row, position, name, priority, body, group or name, once, size, run)

    def _item_of_message(self, row: Mapping[str, Any], position: int) -> OutgoingRow:
        """Make it from its message, for ids that SQS does not accept and for full error messages."""
        message = self.message(row)
        body = message.to_body()
        run = "" if self.mark is None else self.mark.text
        size = size_bytes(body) + run_bytes(run)
        if size > LARGEST_BODY_BYTES:
            raise MessageTooLargeError(size_bytes=size, limit_bytes=LARGEST_BODY_BYTES)
        return OutgoingRow(
            row=row,
            index=position,
            identity=message.identity,
            priority=message.priority or 0,
            body=body,
            message_group_id=message.message_group_id,
            message_deduplication_id=message.message_deduplication_id,
            size_bytes=size,
            run=run,
        )

    def _fields(self, row: Mapping[str, Any]) -> tuple[str, JsonText, str, str | None, int]:
        if row.get("refused") is not None:
            raise ValueError(row["refused"])
        kind = row.get("kind") or self.kind
        if kind is None:
            raise ValueError("it has no kind; add a column kind or set the option kind")
        value = row.get("data")
        if value is None:
            raise ValueError("its data is null; for a message with null write the text 'null'")
        data = _json_of(value)
        group = text_of(row.get("group"), "group")
        if "id" in row:
            identity = text_of(row["id"], "id")
            if not identity:
                raise ValueError(
                    "its id is null or empty; fill it, or leave the id out to have all ids derived"
                )
        else:
            text = data if isinstance(value, str) else _SORTED(value)
            identity = _derived_id(kind, group, text, row.get("occurrence", 1))
        priority = row.get("priority")
        return (
            kind,
            data,
            identity,
            group,
            self.priority if priority is None else priority,
        )


# Most rows of a job have one kind.
@lru_cache(maxsize=64)
def _origin(source: str, kind: str) -> tuple[str, str]:
    """Write the start of the identity, and the members source and type of the body: empty if they need a check."""
    prefix = identity_prefix(source, kind)
    is_plain = not kind_problem(kind) and sqs_id(prefix) == prefix
    return prefix, f'"source":{quote(source)},"type":{quote(kind)}' if is_plain else ""


def moment(nanoseconds: int) -> str:
    """Write a time since 1970 as ISO 8601 with microseconds, in two thirds of the time of `isoformat`."""
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{_second(seconds)}.{rest // 1000:06d}+00:00"


@lru_cache(maxsize=1)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def text_of(value: object, name: str) -> str | None:
    """
    Give the text of an id or a group.

    Raises:
        ValueError: Programs write such a value in ways of their own.
    """
    if value is None or isinstance(value, str):
        return value
    # Spark, Python and JSON write numbers with a fraction, times and truth values in ways of their own, and a rerun
    # through another of them would send the row again.
    if isinstance(value, int | date) and not isinstance(value, bool | datetime):
        return str(value)
    raise ValueError(f"its {name} is {value!r}; a string, a whole number or a date is needed")


def _json_of(value: object) -> JsonText:
    """Return the data of a row as JSON: a text as it is."""
    if isinstance(value, str):
        try:
            return JsonText(value).checked()
        except ValueError as error:
            raise ValueError(f"its data is not a JSON document: {error}") from error
    try:
        return JsonText(_encoded(value))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ValueError(f"its data cannot be written as JSON: {error}") from error


def _as_json(value: object) -> Any:
    """Convert a value of Spark that JSON lacks; dates and times become ISO 8601 strings."""
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, datetime):
        return (value if value.tzinfo is None else value.astimezone(UTC)).isoformat()
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} cannot be expressed in JSON")


def _number(value: Decimal) -> float:
    # Of a type without a fraction, which has the keys of many databases: a handler's int is not 7.0.
    if value.same_quantum(WHOLE):
        return int(value)
    number = float(value)
    if Decimal(repr(number)) != value:
        raise ValueError(f"{value} has more digits than a number of a handler keeps; cast it to a string")
    return number


def _derived_id(kind: str, group: str | None, data: str, occurrence: int) -> str:
    """Derive the id from all that a message is, and of equal ones from the second on from its number."""
    members = [kind, group] if occurrence == 1 else [kind, group, occurrence]
    return str(uuid.uuid5(NAMESPACE, f"{_SORTED(members)[:-1]},{data}]"))


# A JSONEncoder makes its encoder again for every value, a third of the time of a row of 300 bytes. Values of Spark
# are trees, so no markers of circular references are needed.
_CHUNKS = c_make_encoder(None, _as_json, quote, None, ":", ",", False, False, False)


def _encoded(value: object) -> str:
    return "".join(_CHUNKS(value, 0))


_SORTED = json.JSONEncoder(allow_nan=False, sort_keys=True, separators=(",", ":"), default=_as_json).encode
