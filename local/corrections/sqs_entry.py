"""
The messages that SQS accepts on a FIFO queue: contents, ids, attributes, sizes in bytes.

Refusals are moto's `SQSException` with the code SQS documents, raised for a single send and listed under
`Failed` for an entry of a batch.
"""

import re
from collections.abc import Mapping
from typing import Any

from moto.sqs.exceptions import InvalidParameterValue, MissingParameter, SQSException
from moto.sqs.models import Queue
from moto.sqs.utils import validate_message_attributes

# AWS: the characters that a body may have (SendMessage API page).
_FORBIDDEN_CHARACTER = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# AWS: group and deduplication ids are 1 to 128 alphanumeric or punctuation characters (SendMessage).
_ID = re.compile(r"[!-~]{1,128}")
# AWS: the characters of a name (developer guide, "Message attribute components"); moto looks at them after it has kept
# the message.
_ATTRIBUTE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,256}")
# AWS: a message has at most ten attributes (developer guide, "Amazon SQS message quotas").
_MAXIMUM_ATTRIBUTES = 10

Entry = Mapping[str, Any]


def check_identity(queue: Queue, entry: Entry) -> None:
    """
    Refuse a message without a group, or without a deduplication id where the queue derives none.

    AWS: such an entry fails its whole batch.

    Raises:
        SQSException: with SQS's error code.
    """
    if entry.get("MessageGroupId") is None:
        raise MissingParameter("MessageGroupId")
    if entry.get("MessageDeduplicationId") is None and not queue.content_based_deduplication:
        raise InvalidParameterValue(
            "The queue should either have ContentBasedDeduplication enabled or "
            "MessageDeduplicationId provided explicitly"
        )


def check_entry(queue: Queue, entry: Entry) -> None:
    """
    Refuse a message that a FIFO queue would refuse.

    Raises:
        SQSException: with SQS's error code.
    """
    check_content(queue, entry)
    check_identity(queue, entry)
    for name in ("MessageGroupId", "MessageDeduplicationId"):
        if entry.get(name) is not None:
            _check_id(name, entry[name])
    _check_delay(entry.get("DelaySeconds"))


def check_content(queue: Queue, entry: Entry) -> None:
    """
    Refuse a body and attributes that every queue would refuse.

    Raises:
        SQSException: with SQS's error code.
    """
    _check_body(entry.get("MessageBody"))
    attributes = entry.get("MessageAttributes") or {}
    for name in attributes:
        if not _ATTRIBUTE_NAME.fullmatch(name):
            raise InvalidParameterValue(
                f"The message attribute name '{name}' is invalid. Attribute name can contain A-Z, a-z, 0-9, underscore "
                "(_), hyphen (-), and period (.) characters."
            )
    validate_message_attributes(attributes)
    validate_message_attributes(entry.get("MessageSystemAttributes") or {})
    if len(attributes) > _MAXIMUM_ATTRIBUTES:
        raise InvalidParameterValue(
            f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum "
            f"[{_MAXIMUM_ATTRIBUTES}]."
        )
    if size_of(entry) > queue.maximum_message_size:
        raise InvalidParameterValue(
            "One or more parameters are invalid. Reason: Message must be shorter than "
            f"{queue.maximum_message_size} bytes."
        )


def size_of(entry: Entry) -> int:
    """Return the bytes of body and attributes, as SQS counts them."""
    # AWS: name, type and value of each attribute count towards the size (developer guide,
    # "Amazon SQS message metadata"); system attributes do not.
    size = _length(entry.get("MessageBody") or "")
    for name, attribute in (entry.get("MessageAttributes") or {}).items():
        size += _length(name) + _length(attribute.get("DataType") or "")
        size += _length(attribute.get("StringValue") or attribute.get("BinaryValue") or "")
    return size


def _length(value: str | bytes) -> int:
    return len(value) if isinstance(value, bytes) else len(value.encode(errors="replace"))


def _check_body(body: str | None) -> None:
    if not body:
        raise MissingParameter("MessageBody")
    if _FORBIDDEN_CHARACTER.search(body):
        raise SQSException(
            "InvalidMessageContents",
            "Invalid binary character was found in the message body, the set of allowed characters is "
            "#x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF",
        )


def _check_id(parameter: str, value: str) -> None:
    if not _ID.fullmatch(value):
        raise InvalidParameterValue(
            f"Value {value} for parameter {parameter} is invalid. Reason: {parameter} can only include "
            "alphanumeric and punctuation characters. 1 to 128 in length."
        )


def _check_delay(delay: int | None) -> None:
    # AWS: a delay per message is not allowed on FIFO queues, only one of the queue (SendMessage API page).
    if delay:
        raise InvalidParameterValue(
            f"Value {delay} for parameter DelaySeconds is invalid. Reason: The request include parameter "
            "that is not valid for this queue type."
        )
