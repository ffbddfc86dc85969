"""The event that a function gets for a batch."""

from __future__ import annotations

import base64
import json
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from lanes.mapping.rules import MappedMessage

# AWS: a synchronous invocation takes at most 6 MB, the metadata of the records counted
# (Lambda quotas; Using Lambda with Amazon SQS).
MAX_EVENT_BYTES = 6_291_556

M = TypeVar("M", bound="MappedMessage")

_EVENT_START, _EVENT_END = b'{"Records":[', b"]}"


def sqs_record(
    *,
    message_id: str,
    receipt_handle: str,
    body: str,
    md5_of_body: str,
    attributes: Mapping[str, str],
    queue_arn: str,
    message_attributes: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """
    Return one record of an event.

    # AWS: the example events of Using Lambda with Amazon SQS.
    """
    return {
        "messageId": message_id,
        "receiptHandle": receipt_handle,
        "body": body,
        "attributes": attributes,
        "messageAttributes": message_attributes or {},
        "md5OfBody": md5_of_body,
        "eventSource": "aws:sqs",
        "eventSourceARN": queue_arn,
        "awsRegion": queue_arn.split(":")[3],
    }


def polled_record(message: Mapping[str, Any], *, queue_arn: str) -> dict[str, Any]:
    """Return a message of ReceiveMessage's answer as one record of an event, attribute names in camel case."""
    attributes = message.get("MessageAttributes", {})
    return sqs_record(
        message_id=message["MessageId"],
        receipt_handle=message["ReceiptHandle"],
        body=message["Body"],
        md5_of_body=message["MD5OfBody"],
        attributes=message.get("Attributes", {}),
        queue_arn=queue_arn,
        message_attributes={name: _attribute(value) for name, value in attributes.items()},
    )


def _attribute(value: Mapping[str, Any]) -> dict[str, Any]:
    converted: dict[str, Any] = {
        "stringListValues": [],
        "binaryListValues": [],
        "dataType": value["DataType"],
    }
    if "StringValue" in value:
        converted["stringValue"] = value["StringValue"]
    if "BinaryValue" in value:
        binary = value["BinaryValue"]
        converted["binaryValue"] = base64.b64encode(binary).decode() if isinstance(binary, bytes) else binary
    return converted


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload(Generic[M]):
    """Messages of one invocation and their event in bytes."""

    messages: tuple[M, ...]
    event: bytes


def payloads(
    messages: Sequence[M],
    record_of: Callable[[M], Mapping[str, Any]],
    *,
    failed_groups: Collection[str] = (),
) -> Iterator[Payload[M]]:
    """
    Yield the events of one receive, in order: nearly always one, more only if it would be too large.

    # AWS: a batch may hold several groups, each in order (Configuring scaling for SQS event source mappings).

    Args:
        messages: of the receive.
        record_of: makes the record of a message.
        failed_groups: groups of which a message failed; add to it between two events, so that a group's later
            messages do not overtake the failed one.
    """
    remaining = deque(messages)
    while remaining:
        payload = _next_payload(remaining, record_of, failed_groups)
        if payload.messages:
            yield payload


def _next_payload(
    remaining: deque[M], record_of: Callable[[M], Mapping[str, Any]], failed_groups: Collection[str]
) -> Payload[M]:
    taken: list[M] = []
    records: list[bytes] = []
    size = len(_EVENT_START) + len(_EVENT_END)
    while remaining:
        if remaining[0].group in failed_groups:
            remaining.popleft()
            continue
        record = json.dumps(record_of(remaining[0]), separators=(",", ":")).encode()
        # The first record is always taken: SQS allows 1 MiB for a message, so it fits.
        if records and size + len(record) > MAX_EVENT_BYTES:
            break
        taken.append(remaining.popleft())
        records.append(record)
        size += len(record) + 1
    return Payload(messages=tuple(taken), event=_EVENT_START + b",".join(records) + _EVENT_END)
