"""The attributes of a queue that SQS accepts, where moto accepts more."""

import json
from collections.abc import Mapping
from typing import Any

from moto.sqs.exceptions import InvalidAttributeValue, InvalidParameterValue, SQSException

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
