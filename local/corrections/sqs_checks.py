"""
The limits of SQS where moto accepts more: the messages of a FIFO queue, in bytes, and the attributes of a queue.

Refusals are moto's `SQSException` with the code SQS documents, raised for a single send and listed under `Failed` for
an entry of a batch.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from moto.sqs.exceptions import InvalidAttributeValue, InvalidParameterValue, MissingParameter, SQSException
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


# AWS: the ranges of the numeric attributes (CreateQueue and SetQueueAttributes API pages).
_RANGES = {
    "DelaySeconds": (0, 900),
    "KmsDataKeyReusePeriodSeconds": (60, 86_400),
    "MaximumMessageSize": (1_024, 1_048_576),
    "MessageRetentionPeriod": (60, 1_209_600),
    "ReceiveMessageWaitTimeSeconds": (0, 20),
    "VisibilityTimeout": (0, 43_200),
}
# AWS: maxReceiveCount is 1 to 1,000 (developer guide, "Configure a dead-letter queue").
_RECEIVE_COUNTS = range(1, 1_001)
_FIFO_SUFFIX = ".fifo"


def check_new_queue(name: str, attributes: Mapping[str, Any]) -> None:
    """
    Refuse a queue that SQS would not create.

    Raises:
        SQSException: with SQS's error code.
    """
    # AWS: the name of a FIFO queue, and only such a name, ends in .fifo (CreateQueue API page).
    if name.endswith(_FIFO_SUFFIX) and not _is_true(attributes.get("FifoQueue")):
        raise InvalidParameterValue(
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
        )
    check_attributes(name, attributes)


def check_type(name: str, attributes: Mapping[str, Any]) -> None:
    """
    Refuse another type for an existing queue.

    Raises:
        SQSException: with SQS's error code.
    """
    wanted = attributes.get("FifoQueue")
    # AWS: the type of an existing queue can't be changed (CreateQueue API page, FifoQueue).
    if wanted is not None and _is_true(wanted) != name.endswith(_FIFO_SUFFIX):
        raise SQSException(
            "InvalidAttributeValue",
            "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.",
        )


def _is_true(value: Any) -> bool:
    return str(value).lower() == "true"


def check_attributes(name: str, attributes: Mapping[str, Any]) -> None:
    """
    Refuse values outside their range, and a dead-letter queue of another type.

    Raises:
        SQSException: with SQS's error code.
    """
    for attribute, (least, most) in _RANGES.items():
        value = attributes.get(attribute)
        if value is not None and not _is_between(value, least, most):
            raise InvalidAttributeValue(attribute)
    policy = attributes.get("RedrivePolicy")
    if policy:
        _check_redrive_policy(name, policy if isinstance(policy, dict) else _parse(policy))


def _is_between(value: Any, least: int, most: int) -> bool:
    try:
        return least <= int(value) <= most
    except ValueError:
        return False


def _parse(policy: str) -> dict[str, Any]:
    try:
        parsed = json.loads(policy)
    except ValueError:
        parsed = {}
    # moto refuses JSON that is not an object, in its own words.
    return parsed if isinstance(parsed, dict) else {}


def _check_redrive_policy(name: str, policy: dict[str, Any]) -> None:
    count = policy.get("maxReceiveCount")
    if count is not None and not _is_between(count, _RECEIVE_COUNTS.start, _RECEIVE_COUNTS.stop - 1):
        raise InvalidParameterValue(
            f"Value {json.dumps(policy)} for parameter RedrivePolicy is invalid. Reason: Invalid value for "
            f"maxReceiveCount: {count}, valid values are from 1 to 1000 both inclusive."
        )
    # AWS: the dead-letter queue of a FIFO queue is a FIFO queue, of a standard queue a standard queue
    # (developer guide, "Dead-letter queues").
    target = str(policy.get("deadLetterTargetArn", ""))
    if target and target.endswith(_FIFO_SUFFIX) != name.endswith(_FIFO_SUFFIX):
        raise SQSException(
            "InvalidParameterCombination", "A queue and its dead-letter queue must be of the same type."
        )
