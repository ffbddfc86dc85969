"""Records: the wire types of Lambda's SQS event and of its answer, and the record read from them."""

from __future__ import annotations

import base64
import dataclasses
import json
import re
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from lanes.consumer.values import value
from lanes.errors import ConfigurationError
from lanes.message import CLAIMED_AT, OVERLAP, RUN, SKIP, size_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

    from lanes.config import Lane

T = TypeVar("T")
_MILLISECONDS = re.compile(r"[0-9]{1,15}")

# Release, entries and visibility are three calls, of 8 ms each in the simulations; the rest is for repeats.
SETTLING = 1.0
"""Seconds of the function's time that are kept for settling."""

# Lambda may take a moment to end it, and then deletes a batch; AWS documents neither. A process may end with its last
# poll of a second. The contract allows five seconds until others have the records.
BEYOND = 2 * SETTLING
"""Seconds for which records in hand stay invisible after the end of the invocation's time."""

# Without this cap, one record of nearly the whole timeout would stop its lane in this environment: all later ones
# would return for want of time, never attempted and never dead-lettered.
WHOLE_INVOCATION = 0.9
"""Share of the function timeout beyond which a record is tried in any case: it would fit nowhere."""


class BatchItemFailure(TypedDict):
    """A record that stays in the queue."""

    itemIdentifier: str


class PartialBatchResponse(TypedDict):
    """The answer of a function whose mapping reports batch item failures; an empty list deletes the whole batch."""

    batchItemFailures: list[BatchItemFailure]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RawRecord:
    """
    One record of an SQS event, as the handler registered for raw bodies receives it.

    Times are epoch seconds. `receive_count` counts deliveries, whatever their outcome; it is not the attempt. `entry`
    is the record in Lambda's own form. `problem` says why its decoder failed; it is empty if none did.
    """

    message_id: str
    receipt_handle: str
    body: str
    group: str
    receive_count: int
    sent_at: float
    first_received_at: float
    deduplication_id: str
    attributes: Mapping[str, str]
    message_attributes: Mapping[str, Any]
    entry: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False, compare=False)
    problem: str = ""

    @property
    def claimed_at(self) -> float | None:
        """The epoch time at which a relay claimed it in an outbox; None if it came by another way."""
        text = str((self.message_attributes.get(CLAIMED_AT) or {}).get("stringValue", ""))
        # Whoever may send to the lane can set it: any other form is a sender's own attribute.
        return int(text) / 1000 if _MILLISECONDS.fullmatch(text) else None

    @property
    def run(self) -> str:
        """The mark of the run that it belongs to; empty for none."""
        return str((self.message_attributes.get(RUN) or {}).get("stringValue", ""))

    @property
    def sender_role_id(self) -> str:
        """
        The id of the role that sent it, which no sender chooses; empty or another id if no role did.

        AWS: `SenderId` of a role is its id, a colon and the name of the session (SQS, ReceiveMessage).
        """
        return self.attributes.get("SenderId", "").partition(":")[0]

    @property
    def skips_overlap(self) -> bool:
        """Whether it is dropped if it was due before the last one of its schedule was done."""
        return str((self.message_attributes.get(OVERLAP) or {}).get("stringValue", "")) == SKIP

    def size_with(self, body: str) -> int:
        """Return the size of `body` with this record's attributes, as SQS counts it: names, types and values."""
        return size_bytes(body) + sum(
            len(name.encode()) + len(value["dataType"]) + _value_bytes(value)
            for name, value in self.message_attributes.items()
        )

    @property
    def event(self) -> SQSRecord:
        """
        The record in the form of Powertools for AWS Lambda: typed attributes, and nested events of S3 and SNS.

        The first use loads Powertools' event types, which takes about 30 ms.
        """
        from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

        return SQSRecord(dict(self.entry))

    def body_as(self, event_type: Callable[[Any], T]) -> T:
        """
        Return the body as an event type: a data class of Powertools, or any callable that takes parsed JSON.

        Args:
            event_type: for example `S3Event` or `EventBridgeEvent` of `aws_lambda_powertools.utilities.data_classes`.

        Raises:
            ValueError: the body is not JSON.

        Example:
            >>> from aws_lambda_powertools.utilities.data_classes import EventBridgeEvent
            >>> def imported(record: RawRecord) -> str:
            ...     return record.body_as(EventBridgeEvent).detail_type

        """
        return event_type(json.loads(self.body))

    @classmethod
    def from_event(cls, record: Mapping[str, Any]) -> RawRecord:
        """Read one entry of `Records`; times arrive in milliseconds, counts as text."""
        message_id, attributes = record["messageId"], record["attributes"]
        sent_at = int(attributes["SentTimestamp"]) / 1000
        first = attributes.get("ApproximateFirstReceiveTimestamp")
        return cls(
            message_id=message_id,
            receipt_handle=record["receiptHandle"],
            body=record["body"],
            # AWS: only FIFO records have a group. A queue without groups has no order to keep.
            group=attributes.get("MessageGroupId", message_id),
            receive_count=int(attributes.get("ApproximateReceiveCount", "1")),
            sent_at=sent_at,
            first_received_at=int(first) / 1000 if first else sent_at,
            deduplication_id=attributes.get("MessageDeduplicationId", message_id),
            attributes=attributes,
            message_attributes=record.get("messageAttributes") or {},
            entry=record,
        )


def _value_bytes(value: Mapping[str, Any]) -> int:
    binary = value.get("binaryValue")
    if binary is None:
        return size_bytes(value.get("stringValue", ""))
    return len(base64.b64decode(binary) if isinstance(binary, str) else binary)


@value(frozen=True, slots=True, kw_only=True)
class Batch:
    """
    Records of one lane, those of each group in the order in which they were sent.

    They are parked under its `name`, that of the invocation, which `began_at` a time in epoch seconds.
    `milliseconds_left` returns the time until Lambda ends the function, `is_stopped` whether the process is to stop.
    """

    lane: Lane
    records: Sequence[RawRecord]
    name: str
    milliseconds_left: Callable[[], float]
    began_at: float
    is_stopped: Callable[[], bool] = lambda: False

    @property
    def seconds_left(self) -> float:
        """The seconds until Lambda ends the function."""
        return self.milliseconds_left() / 1000

    @property
    def is_over(self) -> bool:
        """Whether the time that is left is needed for settling."""
        return self.seconds_left < SETTLING


@value(frozen=True, slots=True, kw_only=True)
class Invocation:
    """
    One invocation.

    Attributes:
        name: its request id.
        context: Lambda's context.
        milliseconds_left: returns the time until Lambda ends it.
        is_stopped: returns whether its process is to stop, which Lambda never tells.

    """

    name: str
    context: Any
    milliseconds_left: Callable[[], float]
    is_stopped: Callable[[], bool]

    @classmethod
    def of(cls, context: Any, *, timeout: float, monotonic: Callable[[], float]) -> Invocation:
        """
        Read Lambda's context; where it lacks a name or a time, as in tests, the name is random.

        The time left is never more than `timeout` seconds since now: the context subtracts the clock's time from an
        absolute one, so with a clock that is set back it would let records stay invisible long after a crash.
        """
        ends_at = monotonic() + timeout
        given = getattr(context, "get_remaining_time_in_millis", None)

        def left() -> float:
            own = (ends_at - monotonic()) * 1000
            return own if given is None else min(own, given())

        return cls(
            name=getattr(context, "aws_request_id", None) or uuid.uuid4().hex,
            context=context,
            milliseconds_left=left,
            is_stopped=getattr(context, "is_stopped", None) or (lambda: False),
        )

    def batch(self, lane: Lane, records: Sequence[RawRecord], *, began_at: float, part: str = "") -> Batch:
        """Return records as a batch of this invocation; `part` tells several from each other."""
        return Batch(
            lane=lane,
            records=records,
            name=self.name + part,
            milliseconds_left=self.milliseconds_left,
            began_at=began_at,
            is_stopped=self.is_stopped,
        )


def read_batch(event: Mapping[str, Any]) -> tuple[str, list[RawRecord]]:
    """
    Return the ARN of the queue and the records in the order SQS gave them.

    Raises:
        ConfigurationError: the event is not one of an SQS mapping. Raising keeps every record in its queue.

    """
    # A mapping, not a dictionary: Powertools' `event_source` passes on its own.
    entries = event.get("Records") if isinstance(event, Mapping) else None
    if not isinstance(entries, list) or not entries or not all(map(_is_of_sqs, entries)):
        keys = f"with the keys {sorted(event)[:5]}" if isinstance(event, Mapping) else ""
        raise _bad_event(
            f"an event {keys or f'of type {type(event).__name__}'} is not a batch of SQS records; "
            "map the function to the lanes' queues only"
        )
    queues = {entry.get("eventSourceARN") for entry in entries}
    if len(queues) > 1:
        raise _bad_event(f"the records are of {len(queues)} queues; a mapping of Lambda sends those of one")
    try:
        return entries[0]["eventSourceARN"], [RawRecord.from_event(entry) for entry in entries]
    except (KeyError, TypeError, ValueError) as error:
        found = f"has no {error}" if isinstance(error, KeyError) else f"can't be read ({error})"
        raise _bad_event(
            f"a record {found}; make a test event of one that a mapping of Lambda sends"
        ) from error


def _bad_event(problem: str) -> ConfigurationError:
    return ConfigurationError([problem], source="event")


def _is_of_sqs(entry: object) -> bool:
    return isinstance(entry, dict) and entry.get("eventSource") == "aws:sqs"


def oldest_first(records: Iterable[RawRecord]) -> list[RawRecord]:
    """Sort records by the time they were sent; those of one group stay in the order in which they came."""
    latest: dict[str, float] = {}
    keyed = []
    for record in records:
        # Not before the one in front of it, whatever the stamps say.
        latest[record.group] = max(latest.get(record.group, 0.0), record.sent_at)
        keyed.append((latest[record.group], record))
    return [record for _, record in sorted(keyed, key=lambda one: one[0])]


def response_for(kept: Iterable[RawRecord]) -> PartialBatchResponse:
    """Return the answer that lets Lambda delete all records but `kept`."""
    return {"batchItemFailures": [{"itemIdentifier": record.message_id} for record in kept]}
