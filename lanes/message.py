"""
A message and its form on the wire: CloudEvents 1.0 JSON in the body of an SQS message.

Owns the words message, kind, group and deduplication ID. The group and the deduplication ID are attributes
of the SQS message and not part of the body.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Generic, NoReturn

from lanes.encoding import encoded, program_source
from lanes.errors import InvalidMessageError, MessageDecodeError, MessageTooLargeError

if TYPE_CHECKING:
    from collections.abc import Mapping

    # Type checkers bring it along; with its default, a plain `Message` is a `Message[Any]`.
    from typing_extensions import TypeVar

    Data_co = TypeVar("Data_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    Data_co = TypeVar("Data_co", covariant=True)

# AWS: 1,048,576 bytes for a message and for all messages of one batch (SQSDeveloperGuide/quotas-messages).
LARGEST_BODY_BYTES = 1024 * 1024
# AWS: both ids take 1 to 128 letters, digits and ASCII punctuation (API_SendMessage).
LONGEST_ID = 128
IDENTITY_PARTS = 3
SQS_ID = re.compile(r"[!-~]{1,128}")
KIND = re.compile(r"\S{1,128}")
BYTE_ORDER_MARK = "\ufeff"
JSON_WHITESPACE = " \t\n\r"
INTEGER = re.compile(r"[+-]?\d{1,18}")
MOVED, REDRIVEN = "moved-", "redrive-"

"""Prefixes of the deduplication ids of messages that an override moved, and of copies of dead letters."""

CLAIMED_AT = "lanes.claimed_at"
"""SQS message attribute by which a relay says when it claimed the entry, in milliseconds of the epoch."""
RUN = "lanes.run"
"""SQS message attribute with the run that a message belongs to (`lanes.runs.Mark`)."""
CURE = "register a @consumer.decoder or @consumer.raw_handler"
OTHER_FORM = f"for bodies of another form {CURE}"
OVERLAP, SKIP = "lanes.overlap", "skip"
"""SQS message attribute, and its value, by which a schedule's message is dropped if an earlier one was not done yet."""
LEAP_SECOND = re.compile(r"(?<=T\d\d:\d\d):60")
# Text to Python only: JSON can escape half of a surrogate pair, UTF-8 and CloudEvents cannot hold one.
HALF_PAIR = re.compile("[\ud800-\udfff]")
# AWS: SQS refuses bodies with characters outside XML 1.0 (API_SendMessage). The JSON encoder escapes the control
# characters among them, but not these.
NOT_IN_XML = re.compile("[\ud800-\udfff\ufffe\uffff]")


class JsonText(str):
    """
    Data that is JSON text already: it is sent as it is, neither parsed nor written again.

    Example:
        >>> JsonText('{"amount":0.1000000000000000055}').checked()
        '{"amount":0.1000000000000000055}'
    """

    __slots__ = ()

    def checked(self) -> JsonText:
        """Return the text; raises `ValueError` if it is not one JSON document, or has a number that floats lack."""
        try:
            _DECODER.decode(self)
        except RecursionError as error:
            raise ValueError("it is nested too deep") from error
        return self


def expiry_of(expires: datetime | timedelta | None, *, now: float) -> datetime | None:
    """
    Return the time after which no handler gets a message: the given one, or so long from `now`, in epoch seconds.

    Raises:
        InvalidMessageError: it is after the year 9999, or before the first.
    """
    if not isinstance(expires, timedelta):
        return expires
    try:
        return datetime.fromtimestamp(now, UTC) + expires
    except OverflowError as error:
        raise InvalidMessageError(
            [
                f"expires is {expires} from now, outside the years 1 to 9999; omit it for a message that never expires"
            ]
        ) from error


def time_of(not_before: datetime | timedelta, now: float, *, latest: timedelta) -> float:
    """
    Return the time before which a message may not be sent, in epoch seconds.

    Args:
        not_before: a time with its zone, or a duration from now.
        now: the current time.
        latest: how far ahead it may be.

    Raises:
        InvalidMessageError: it is something else, or too far ahead.
    """
    if isinstance(not_before, timedelta):
        found = now + not_before.total_seconds()
    elif not isinstance(not_before, datetime):
        problem = f"not_before is {not_before!r}; pass a datetime with a time zone, or a timedelta from now"
        raise InvalidMessageError([problem])
    elif not has_zone(not_before):
        problem = f"not_before is {not_before.isoformat()} without a time zone; add one, such as tzinfo=UTC"
        raise InvalidMessageError([problem])
    else:
        found = not_before.timestamp()
    if found > now + latest.total_seconds():
        problem = f"not_before is {not_before}; must be at most {latest.days:,} days ahead"
        raise InvalidMessageError([problem])
    return max(found, 0.0)


def has_zone(moment: datetime) -> bool:
    """Whether a time has a time zone; the missing time of pandas, which is a datetime too, has none."""
    try:
        return moment.utcoffset() is not None
    except ValueError:
        return False


def check_expiry(message: Message[Any], due: float | None) -> None:
    """
    Refuse a message for later that expires before its time, in epoch seconds.

    Raises:
        InvalidMessageError: no handler would get it.
    """
    if due is not None and message.expires is not None and message.expires.timestamp() <= due:
        later = datetime.fromtimestamp(due, UTC)
        problem = f"expires is {message.expires}, not after not_before ({later}), so no handler would get the message"
        raise InvalidMessageError([problem])


def plain(text: str) -> str:
    """
    Return a text as Python's own type.

    Example:
        >>> f"{plain(JsonText('7'))!r}"
        "'7'"
    """
    return str.__str__(text)


def _new_id() -> str:
    return str(uuid.uuid4())


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(Generic[Data_co]):
    """
    A message, as you send it with a producer and receive it in a handler.

    Creating one checks nothing; `to_body` checks all fields, and producers call it before any call to AWS. A handler
    that takes a `Message[Order]` receives its data as an `Order`, a dataclass, a pydantic model or a struct.

    Attributes:
        kind: stable name for this sort of message; selects the handler. Up to 128 characters, no spaces.
        data: any value that JSON can represent, also in dataclasses, models, structs, enums, times, UUIDs and decimals;
            `JsonText` is sent as it is.
        id: of the event, up to 128 characters; the same id from the same source and of the same kind is the same
            message.
        group: messages of one group are handled in the order sent; by default each message is its own group.
        priority: explicit priority; None leaves it to the block, the rules of the kind, or NORMAL.
        source: origin of the event; by default the name of this program (`lanes.encoding`).
        time: time of the event, with a time zone.
        traceparent: W3C trace context, passed on unchanged; the reader ignores an invalid one.
        expires: no handler gets the message after this time, with a time zone; None, the default, for never.
        deduplication_id: SQS drops a repeat within five minutes; by default the message's identity.

    Example:
        >>> message = Message(kind="order.placed", data={"order": 7}, id="order-7")
        >>> Message.from_body(message.to_body()) == message
        True
    """

    # With the alias of `typing`, calling `Message[Order](...)` fails in Python 3.11: it sets an attribute of the frozen
    # instance and expects another error.
    if not TYPE_CHECKING:
        __class_getitem__ = classmethod(GenericAlias)

    kind: str
    data: Data_co = None  # type: ignore[assignment]
    id: str = field(default_factory=_new_id)
    group: str | None = None
    priority: int | None = None
    source: str = field(default_factory=program_source)
    time: datetime = field(default_factory=_now)
    traceparent: str | None = None
    expires: datetime | None = None
    deduplication_id: str | None = None

    def __post_init__(self) -> None:
        """Take the texts of an `Enum`'s members: formatted, and in some drivers, they are names and not values."""
        for name in ("kind", "id", "group", "source", "deduplication_id"):
            value = getattr(self, name)
            if type(value) is not str and isinstance(value, str):
                object.__setattr__(self, name, plain(value))

    @property
    def identity(self) -> str:
        """The name of this message alone: see `identity_of`."""
        return identity_of(self.source, self.kind, self.id)

    @property
    def message_group_id(self) -> str:
        """The group in SQS: `group`, or one for this message alone."""
        return sqs_id(self.identity) if self.group is None else self.group

    @property
    def message_deduplication_id(self) -> str:
        """The deduplication ID in SQS: `deduplication_id`, or the identity; never one of lanes' own form."""
        return sqs_id(self.identity if self.deduplication_id is None else self.deduplication_id)

    def to_body(self) -> str:
        """
        Write the CloudEvents form.

        Raises:
            InvalidMessageError: with every rule that the message breaks.
            MessageTooLargeError: the body is over 1 MiB.
        """
        problems = [*self._field_problems(), *self._id_problems()]
        body = "" if problems else self._encoded(problems)
        if problems:
            raise InvalidMessageError(problems)
        size = size_bytes(body)
        if size > LARGEST_BODY_BYTES:
            raise MessageTooLargeError(size_bytes=size, limit_bytes=LARGEST_BODY_BYTES)
        return body

    @classmethod
    def from_body(cls: type[Message[Any]], body: str, *, group: str | None = None) -> Message[Any]:
        """
        Read the CloudEvents form.

        Args:
            body: body of an SQS message.
            group: message group of the SQS message.

        Raises:
            MessageDecodeError: the body is not such an event.
        """
        event = _parsed(body)
        version = event.get("specversion")
        if not isinstance(version, str) or not version.startswith("1."):
            own = f"specversion is {_cut(version)}; it must be '1.0'"
            raise MessageDecodeError(_cure(event) or (f"{own}; {OTHER_FORM}" if version is None else own))
        if "data_base64" in event:
            raise MessageDecodeError("data_base64 is not supported; put JSON into data")
        return cls(
            kind=_text(event, "type"),
            data=event.get("data"),
            id=_text(event, "id"),
            group=group,
            priority=_priority(event.get("priority")),
            source=_text(event, "source"),
            time=_now() if (time := _time(event, "time")) is None else time,
            traceparent=_traceparent(event.get("traceparent")),
            expires=_time(event, "expirytime"),
        )

    def _encoded(self, problems: list[str]) -> str:
        before = {
            "specversion": "1.0",
            "id": self.id,
            "source": self.source,
            "type": self.kind,
            "time": self.time.isoformat(),
            "datacontenttype": "application/json",
        }
        after = {
            "priority": None if self.priority is None else int(self.priority),
            "traceparent": self.traceparent,
            # An extension of CloudEvents (cloudevents/spec, extensions/expirytime.md).
            "expirytime": None if self.expires is None else self.expires.isoformat(),
        }
        present = {key: value for key, value in after.items() if value is not None}
        try:
            data = self.data.checked() if isinstance(self.data, JsonText) else encoded(self.data)
        except KeyboardInterrupt:
            raise
        except Exception as error:  # noqa: BLE001 - the border to user code: the serializer of a model
            problems.append(f"the data is not JSON: {error}")
            return ""
        rest = f",{encoded(present)[1:]}" if present else "}"
        return in_xml(f'{encoded(before)[:-1]},"data":{data}{rest}')

    def _field_problems(self) -> list[str]:
        problems = []
        if problem := kind_problem(self.kind):
            problems.append(problem)
        if not isinstance(self.source, str) or not self.source or HALF_PAIR.search(self.source):
            problems.append(f"source is {_cut(self.source)}; it must be a string that is not empty")
        if isinstance(self.priority, bool) or not isinstance(self.priority, int | None):
            problems.append(f"priority is {_cut(self.priority)}; it must be an int")
        for name, time in (("time", self.time), ("expires", self.expires)):
            if name == "expires" and time is None:
                continue
            if not isinstance(time, datetime) or not has_zone(time):
                problems.append(f"{name} is {_cut(time)}; it must be a datetime with a time zone")
        if self.traceparent is not None and not isinstance(self.traceparent, str):
            problems.append(f"traceparent is {_cut(self.traceparent)}; it must be a string")
        return problems

    def _id_problems(self) -> list[str]:
        problems = []
        if not isinstance(self.id, str) or not 1 <= len(self.id) <= LONGEST_ID:
            problems.append(f"id is {_cut(self.id)}; it must have 1 to {LONGEST_ID} characters")
        elif HALF_PAIR.search(self.id):
            problems.append(f"id is {_cut(self.id)}; half of a surrogate pair is not a character")
        for name, value in (("group", self.group), ("deduplication_id", self.deduplication_id)):
            if value is not None and not (isinstance(value, str) and SQS_ID.fullmatch(value)):
                problems.append(
                    f"{name} is {_cut(value)}; it must have 1 to {LONGEST_ID} letters, digits and ASCII "
                    f"punctuation marks"
                )
        return problems


def identity_of(source: str, kind: str, event_id: str) -> str:
    """
    Return the identity of a message: its source, kind and id, so that no two messages share one.

    The deduplication ID, the group of a message without one, the manifest of a bulk run and the effect under
    idempotency are all made from it.

    Example:
        >>> identity_of("shop", "order.placed", "order-7")
        'shop#order.placed#order-7'
    """
    return f"{identity_prefix(source, kind)}{event_id}"


def identity_prefix(source: str, kind: str) -> str:
    """Return the part of an identity before the id, which has exactly two separators."""
    return f"{_escaped(source)}#{_escaped(kind)}#"


def id_in(identity: str) -> str:
    """Return the id in an identity; a text of another form, such as a hash, as it is."""
    parts = identity.split("#", 2)
    return parts[2] if len(parts) == IDENTITY_PARTS else identity


def sqs_id(text: str) -> str:
    """Return a text as an id that SQS accepts and no part of lanes takes for one of its own."""
    return text if SQS_ID.fullmatch(text) and not text.startswith((MOVED, REDRIVEN)) else _hashed(text)


def _escaped(part: str) -> str:
    return part.replace("%", "%25").replace("#", "%23")


def in_xml(text: str) -> str:
    """Return JSON text with the characters escaped that SQS refuses, and nothing else changed."""
    return NOT_IN_XML.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def size_bytes(body: str) -> int:
    """Return the size of a body as SQS counts it."""
    return len(body.encode())


def run_bytes(run: str) -> int:
    """Return what the mark of a run adds to the size of a message."""
    # AWS: name, type and value of an attribute count towards the size of a message (API_SendMessage).
    return len(RUN) + len("String") + len(run) if run else 0


def _hashed(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def kind_problem(kind: object) -> str:
    """Return why no message can have a kind; empty if one can."""
    if isinstance(kind, str) and KIND.fullmatch(kind) and kind.isprintable():
        return ""
    return f"kind is {_cut(kind)}; it must have 1 to 128 printable characters and no spaces"


def _cut(value: object) -> str:
    longest = LONGEST_ID // 2
    if isinstance(value, str):
        return repr(value) if len(value) <= longest else f"{value[:longest]!r}... ({len(value)} characters)"
    text = repr(value)
    return text if len(text) <= longest else f"{text[:longest]}..."


def _parsed(body: str) -> Mapping[str, Any]:
    if not isinstance(body, str):
        # SQLite keeps bytes in a column of texts, where a program has written some.
        raise MessageDecodeError(f"the body is of type {type(body).__name__}, not text")
    if body.startswith(BYTE_ORDER_MARK):
        raise MessageDecodeError(
            "it begins with a byte order mark; write UTF-8 without one (in Python: utf-8, not utf-8-sig)"
        )
    try:
        text = body.strip(JSON_WHITESPACE)
        event, end = _DECODER.raw_decode(text)
        if end < len(text):
            _DECODER.decode(text)  # raises the error that names the surplus text
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise MessageDecodeError(f"the body is not JSON: {error}; {OTHER_FORM}") from error
    if not isinstance(event, dict):
        raise MessageDecodeError(f"the body is JSON but not an object; {OTHER_FORM}")
    return event


def _cure(event: Mapping[str, Any]) -> str:
    """Return what to do with an event of another service; empty for other bodies."""
    if event.get("Type") == "Notification" and "TopicArn" in event:
        return f"it is an envelope of SNS; enable raw message delivery for the subscription, or {CURE}"
    if "detail-type" in event and "detail" in event:
        return f"it is an event of EventBridge; {CURE}, or write a CloudEvent with an input transformer"
    records = event.get("Records")
    if isinstance(records, list) and records and isinstance(records[0], dict) and "s3" in records[0]:
        return f"it is a notification of S3; {CURE}"
    return ""


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    """Read a number; one beyond the floats would become infinite, which nothing could send on."""
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{_cut(text)} is larger than any number of a handler")
    return number


# Shared: with hooks, json.loads would build a decoder for each body.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)


def _text(event: Mapping[str, Any], key: str) -> str:
    value = event.get(key)
    if not isinstance(value, str) or not value or (not value.isascii() and HALF_PAIR.search(value)):
        raise MessageDecodeError(f"{key} is {_cut(value)}; it must be a string")
    return value


def _priority(value: object) -> int | None:
    """Read the extension attribute; some CloudEvents libraries write every extension as a string."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)  # JSON has one sort of number
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    if isinstance(value, str) and INTEGER.fullmatch(value):
        return int(value)
    raise MessageDecodeError(f"priority is {_cut(value)}; it must be an integer")


def _traceparent(value: object) -> str | None:
    """Read the extension attribute; a tracing error must not prevent the handling of the message."""
    return value if isinstance(value, str) and value else None


def _time(event: Mapping[str, Any], key: str) -> datetime | None:
    """Read a time, which is optional in CloudEvents."""
    if (value := event.get(key)) is None:
        return None
    text = value if isinstance(value, str) else ""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        try:
            # RFC 3339 allows t and z in small letters, and a leap second, which Python doesn't know.
            time = datetime.fromisoformat(LEAP_SECOND.sub(":59", text.upper()))
        except ValueError as error:
            raise MessageDecodeError(f"{key} is {_cut(value)}; it must be an RFC 3339 time") from error
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)
