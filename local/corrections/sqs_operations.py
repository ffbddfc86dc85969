"""
The message operations of SQS on a FIFO queue: the request's parameters in, the answer's members out.

Names, limits and error codes are those of the API; nothing here knows about HTTP. A refusal is moto's `SQSException`,
raised for a single call and listed under `Failed` for an entry of a batch.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

from moto.sqs.constants import MAXIMUM_MESSAGE_LENGTH, MAXIMUM_VISIBILITY_TIMEOUT
from moto.sqs.exceptions import (
    BatchEntryIdsNotDistinct,
    BatchRequestTooLong,
    EmptyBatchRequest,
    InvalidAttributeName,
    InvalidBatchEntryId,
    InvalidParameterValue,
    MissingParameter,
    ReceiptHandleIsInvalid,
    SQSException,
    TooManyEntriesInBatchRequest,
)
from moto.sqs.models import DEFAULT_SENDER_ID, Message, Queue
from moto.sqs.utils import validate_message_attributes

from lanes.testing.fifo.message import (
    AttemptOverError,
    FifoQueueError,
    MessageGoneError,
    MessageNotInFlightError,
    ReceiptHandleExpiredError,
    ReceiptHandleUnknownError,
    ReceivedMessage,
)
from lanes.testing.function import system_attributes

from .sqs_queue import LocalQueue, Payload

_ENTRY_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")
_MAXIMUM_ENTRIES = 10
_MAXIMUM_WAIT_SECONDS = 20

Parameters = Mapping[str, Any]
Entry = Mapping[str, Any]
Answer = dict[str, Any]


def send_message(queue: Queue, parameters: Parameters) -> Answer:
    """SendMessage."""
    _check_entry(queue, parameters)
    return _send(LocalQueue.of(queue), parameters)


def send_message_batch(queue: Queue, parameters: Parameters) -> Answer:
    """SendMessageBatch: valid entries are sent in order, the others come back under Failed."""
    entries = parameters.get("Entries") or []
    _check_batch(entries, action="Send")
    for entry in entries:
        _check_identity(queue, entry)
    length = sum(_size_of(entry) for entry in entries)
    if length > MAXIMUM_MESSAGE_LENGTH:
        raise BatchRequestTooLong(length)
    local = LocalQueue.of(queue)

    def send(entry: Entry) -> Answer:
        _check_entry(queue, entry)
        return _send(local, entry)

    return _each(entries, send)


def receive_message(queue: Queue, parameters: Parameters) -> Answer:
    """ReceiveMessage."""
    maximum = parameters.get("MaxNumberOfMessages", 1)
    _check_range("MaxNumberOfMessages", maximum, 1, _MAXIMUM_ENTRIES)
    wait = parameters.get("WaitTimeSeconds", queue.receive_message_wait_time_seconds)
    _check_range("WaitTimeSeconds", wait, 0, _MAXIMUM_WAIT_SECONDS)
    visibility = parameters.get("VisibilityTimeout", queue.visibility_timeout)
    attempt_id = parameters.get("ReceiveRequestAttemptId")
    try:
        received = LocalQueue.of(queue).receive(
            maximum,
            visibility_timeout=_visibility_timeout(visibility),
            wait=timedelta(seconds=wait),
            attempt_id=attempt_id,
        )
    except AttemptOverError as error:
        raise InvalidParameterValue(
            f"Value {attempt_id} for parameter ReceiveRequestAttemptId is invalid. Reason: The receiveRequestAttemptId "
            "is not valid anymore since the receive call is not retryable."
        ) from error
    if not received:
        return {}
    system_names = {
        *(parameters.get("AttributeNames") or ()),
        *(parameters.get("MessageSystemAttributeNames") or ()),
    }
    names = parameters.get("MessageAttributeNames") or ()
    return {"Messages": [_describe(message, system_names, names) for message in received]}


def delete_message(queue: Queue, parameters: Parameters) -> Answer:
    """DeleteMessage."""
    _delete(LocalQueue.of(queue), parameters)
    return {}


def delete_message_batch(queue: Queue, parameters: Parameters) -> Answer:
    """DeleteMessageBatch."""
    return _batch(queue, parameters, "Delete", _delete)


def change_message_visibility(queue: Queue, parameters: Parameters) -> Answer:
    """ChangeMessageVisibility."""
    _change_visibility(LocalQueue.of(queue), parameters)
    return {}


def change_message_visibility_batch(queue: Queue, parameters: Parameters) -> Answer:
    """ChangeMessageVisibilityBatch."""
    return _batch(queue, parameters, "ChangeMessageVisibility", _change_visibility)


def get_queue_attributes(queue: Queue, parameters: Parameters) -> Answer:
    """GetQueueAttributes, evaluating only the attributes asked for."""
    names = parameters.get("AttributeNames") or []
    attributes = attributes_of(queue, names)
    if not attributes:
        return {}
    return {"Attributes": {name: str(value) for name, value in attributes.items()}}


def attributes_of(queue: Queue, names: Iterable[str]) -> dict[str, Any]:
    """Return the values of the named attributes that are set."""
    wanted = set(names)
    counts = LocalQueue.of(queue).counts()
    known: dict[str, Any] = {
        "ApproximateNumberOfMessages": counts.visible,
        "ApproximateNumberOfMessagesNotVisible": counts.not_visible,
        "ApproximateNumberOfMessagesDelayed": counts.delayed,
    }
    if not wanted <= known.keys():
        known = queue.attributes
        valid = {"All", *queue.BASE_ATTRIBUTES, *queue.FIFO_ATTRIBUTES, *queue.KMS_ATTRIBUTES}
        if unknown := sorted(wanted - valid):
            raise InvalidAttributeName(unknown[0])
        wanted = set(known) if "All" in wanted else wanted
    return {name: value for name, value in known.items() if name in wanted and value is not None}


def _check_batch(entries: list[Entry], *, action: str) -> None:
    if not entries:
        raise EmptyBatchRequest(action)
    if len(entries) > _MAXIMUM_ENTRIES:
        raise TooManyEntriesInBatchRequest(len(entries))
    seen = set()
    for entry in entries:
        if not _ENTRY_ID.fullmatch(entry["Id"]):
            raise InvalidBatchEntryId
        if entry["Id"] in seen:
            raise BatchEntryIdsNotDistinct(entry["Id"])
        seen.add(entry["Id"])


def _batch(
    queue: Queue, parameters: Parameters, action: str, act: Callable[[LocalQueue, Entry], None]
) -> Answer:
    entries = parameters.get("Entries") or []
    _check_batch(entries, action=action)
    local = LocalQueue.of(queue)
    return _each(entries, lambda entry: act(local, entry))


def _each(entries: Iterable[Entry], action: Callable[[Entry], Answer | None]) -> Answer:
    """Answer a batch: each entry by itself, under Successful or Failed."""
    successful, failed = [], []
    for entry in entries:
        try:
            successful.append({"Id": entry["Id"], **(action(entry) or {})})
        except SQSException as error:
            failed.append(
                {"Id": entry["Id"], "SenderFault": True, "Code": error.code, "Message": error.message}
            )
    return {"Successful": successful, "Failed": failed}


def _send(local: LocalQueue, entry: Entry) -> Answer:
    body = entry["MessageBody"]
    attributes = entry.get("MessageAttributes") or {}
    system_attributes = entry.get("MessageSystemAttributes") or {}
    payload = None
    if attributes or system_attributes:
        payload = Payload(attributes=dict(attributes), system_attributes=dict(system_attributes))
    sent = local.send(
        body,
        group=entry["MessageGroupId"],
        deduplication_id=entry.get("MessageDeduplicationId"),
        payload=payload,
    )
    answer = {
        "MessageId": sent.message_id,
        "MD5OfMessageBody": _md5(body),
        "SequenceNumber": str(sent.sequence_number),
    }
    if attributes:
        answer["MD5OfMessageAttributes"] = _md5_of_attributes(attributes)
    if system_attributes:
        answer["MD5OfMessageSystemAttributes"] = _md5_of_attributes(system_attributes)
    return answer


def _delete(local: LocalQueue, entry: Entry) -> None:
    try:
        local.delete(entry["ReceiptHandle"])
    except FifoQueueError as error:
        raise _refusal(error, entry) from error


def _change_visibility(local: LocalQueue, entry: Entry) -> None:
    try:
        local.change_visibility(
            entry["ReceiptHandle"], _visibility_timeout(entry.get("VisibilityTimeout") or 0)
        )
    except FifoQueueError as error:
        raise _refusal(error, entry) from error


def _refusal(error: FifoQueueError, entry: Entry) -> SQSException:
    handle = entry["ReceiptHandle"]
    if isinstance(error, ReceiptHandleUnknownError):
        return ReceiptHandleIsInvalid()
    if isinstance(error, ReceiptHandleExpiredError):
        return InvalidParameterValue(
            f"Value {handle} for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired."
        )
    if isinstance(error, MessageGoneError):
        return InvalidParameterValue(
            f"Value {handle} for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not "
            "available for visibility timeout change."
        )
    if isinstance(error, MessageNotInFlightError):
        return SQSException("MessageNotInflight", "The message referred to isn't in flight.")
    return InvalidParameterValue(
        f"Value {entry.get('VisibilityTimeout')} for parameter VisibilityTimeout is invalid. Reason: Total "
        f"VisibilityTimeout for the message is beyond the limit [{MAXIMUM_VISIBILITY_TIMEOUT} seconds]"
    )


def _visibility_timeout(seconds: int) -> timedelta:
    """Return a visibility timeout within its bounds."""
    _check_range("VisibilityTimeout", seconds, 0, MAXIMUM_VISIBILITY_TIMEOUT)
    return timedelta(seconds=seconds)


def _check_range(parameter: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise InvalidParameterValue(
            f"Value {value} for parameter {parameter} is invalid. Reason: Must be between {least} and "
            f"{most}, if provided."
        )


def _describe(message: ReceivedMessage, system_names: set[str], names: Iterable[str]) -> Answer:
    answer: Answer = {
        "MessageId": message.message_id,
        "ReceiptHandle": message.receipt_handle,
        "MD5OfBody": _md5(message.body),
        "Body": message.body,
    }
    if system_names:
        known = _system_attributes(message)
        if "All" not in system_names:
            known = {name: value for name, value in known.items() if name in system_names}
        answer["Attributes"] = known
    payload = message.attributes
    if isinstance(payload, Payload) and (wanted := _select(payload.attributes, names)):
        answer["MessageAttributes"] = wanted
        answer["MD5OfMessageAttributes"] = _md5_of_attributes(wanted)
    return answer


def _system_attributes(message: ReceivedMessage) -> dict[str, str]:
    known = {**system_attributes(message), "SenderId": DEFAULT_SENDER_ID}
    if message.dead_letter_source is not None:
        known["DeadLetterQueueSourceArn"] = message.dead_letter_source
    if isinstance(message.attributes, Payload):
        # moto has one sender; the emulated Scheduler says which role it has.
        given = message.attributes.system_attributes
        known |= {
            name: given[name]["StringValue"] for name in ("AWSTraceHeader", "SenderId") if name in given
        }
    return known


def _select(attributes: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    # AWS: "All" or ".*" ask for all attributes, "prefix.*" for those that begin so (ReceiveMessage).
    exact = set(names)
    prefixes = tuple(name[:-2] for name in exact if name.endswith(".*"))
    if "All" in exact:
        return attributes
    return {name: value for name, value in attributes.items() if name in exact or name.startswith(prefixes)}


def _md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def _md5_of_attributes(attributes: dict[str, Any]) -> str:
    holder = Message("", "")
    holder.message_attributes = attributes
    return str(holder.attribute_md5)


# AWS: the characters that a body may have (SendMessage API page).
_FORBIDDEN_CHARACTER = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# AWS: group and deduplication ids are 1 to 128 alphanumeric or punctuation characters (SendMessage).
_ID = re.compile(r"[!-~]{1,128}")
# AWS: the characters of a name (developer guide, "Message attribute components"); moto looks at them after it has kept
# the message.
_ATTRIBUTE_NAME = re.compile(r"[A-Za-z0-9_.-]{1,256}")
# AWS: a message has at most ten attributes (developer guide, "Amazon SQS message quotas").
_MAXIMUM_ATTRIBUTES = 10


def _check_identity(queue: Queue, entry: Entry) -> None:
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


def _check_entry(queue: Queue, entry: Entry) -> None:
    """
    Refuse a message that a FIFO queue would refuse.

    Raises:
        SQSException: with SQS's error code.
    """
    check_content(queue, entry)
    _check_identity(queue, entry)
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
    if _size_of(entry) > queue.maximum_message_size:
        raise InvalidParameterValue(
            "One or more parameters are invalid. Reason: Message must be shorter than "
            f"{queue.maximum_message_size} bytes."
        )


def _size_of(entry: Entry) -> int:
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


OPERATIONS: Mapping[str, Callable[[Queue, Parameters], Answer]] = {
    "SendMessage": send_message,
    "SendMessageBatch": send_message_batch,
    "ReceiveMessage": receive_message,
    "DeleteMessage": delete_message,
    "DeleteMessageBatch": delete_message_batch,
    "ChangeMessageVisibility": change_message_visibility,
    "ChangeMessageVisibilityBatch": change_message_visibility_batch,
    "GetQueueAttributes": get_queue_attributes,
}
"""All of them by SQS's names."""
