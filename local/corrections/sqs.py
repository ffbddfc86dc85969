"""
Corrections of moto's SQS: FIFO queues behave as AWS documents them, at any depth.

Every operation on messages of a FIFO queue is handled by `lanes.testing.fifo.queue`; standard queues and the
administration of queues stay moto's. What this corrects, all of it for FIFO queues unless said otherwise:

* order within a group after a visibility timeout of several messages ends (moto: the last comes first);
* group exclusivity between concurrent and waiting receives, under a lock;
* a message in flight blocks those behind it in its group, and no other;
* as many messages as possible of one group first; returned messages behind all groups that waited, but in
  high-throughput mode, where no order of groups has been observed, by their age;
* deduplication for five minutes also after the delete, but not after a purge, per queue or per group;
  a duplicate answers with the original's message id and sequence number; sequence numbers rise and are never missing;
* receipt handles: new at each receive but that of a repeated attempt id, refused once expired; visibility
  only changes in flight, 12 hours in all;
* SendMessageBatch fails entry by entry, and as a whole where an entry has no group or deduplication id;
  sizes are bytes and include attributes; group id, deduplication id,
  body characters and the number of attributes are checked;
* long polls wake on send, delete, change of visibility and its end, and sleep in between;
* redrive resolves the dead-letter queue by name at each receive, starts its retention again and adds
  DeadLetterQueueSourceArn; the deduplication id becomes the message id;
* retention drops messages, counts are exact and cheap, every call costs the same at any depth;
* for all queues: attributes out of range, FIFO names of standard queues, another type for an existing queue and
  dead-letter queues of another type are refused; moto's own event source mapping inside SendMessage never fires.

Not modelled: throttling, approximate counts, permissions, message move tasks.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from moto.core.responses import ActionResult, EmptyResult
from moto.sqs import models, responses
from moto.sqs.exceptions import InvalidAttributeValue, InvalidParameterValue, SQSException

from . import sqs_operations
from .models import is_true
from .sqs_queue import LocalQueue


def correct() -> None:
    """Correct moto's SQS in this process."""
    _route_operations()
    _correct_backend()
    _correct_administration()
    _correct_queue()


def _route_operations() -> None:
    for operation in sqs_operations.OPERATIONS.values():
        original = getattr(responses.SQSResponse, operation.__name__)
        setattr(responses.SQSResponse, operation.__name__, _routed(operation, original))


def _routed(
    operation: Callable[[models.Queue, dict[str, Any]], dict[str, Any]],
    original: Callable[[Any], ActionResult],
) -> Callable[[Any], ActionResult]:
    def handle(response: Any) -> ActionResult:
        queue = response.sqs_backend.get_queue(response._get_queue_name())  # noqa: SLF001
        if not queue.fifo_queue:
            # moto keeps a message that it refuses for an attribute, and fails each receive of it.
            if original.__name__ == "send_message":
                sqs_operations.check_content(queue, response.params)
            return original(response)
        answer = operation(queue, response.params)
        return ActionResult(answer) if answer else EmptyResult()

    return handle


def _correct_backend() -> None:
    backend = models.SQSBackend
    stock_send, stock_attributes = backend.send_message, backend.get_queue_attributes

    def send_message(self: Any, queue_name: str, message_body: str, *args: Any, **kwargs: Any) -> Any:
        queue = self.get_queue(queue_name)
        if not queue.fifo_queue:
            return stock_send(self, queue_name, message_body, *args, **kwargs)
        return _send_from_another_service(queue, message_body, *args, **kwargs)

    def get_queue_attributes(self: Any, queue_name: str, attribute_names: list[str]) -> Any:
        queue = self.get_queue(queue_name)
        if not queue.fifo_queue:
            return stock_attributes(self, queue_name, attribute_names)
        return sqs_operations.attributes_of(queue, attribute_names)

    backend.send_message, backend.get_queue_attributes = send_message, get_queue_attributes


def _correct_administration() -> None:
    backend = models.SQSBackend
    stock_create, stock_set = backend.create_queue, backend.set_queue_attributes
    stock_purge, stock_delete = backend.purge_queue, backend.delete_queue

    def create_queue(self: Any, name: str, tags: dict[str, str] | None = None, **kwargs: Any) -> Any:
        _check_new_queue(name, kwargs)
        return stock_create(self, name, tags, **kwargs)

    def set_queue_attributes(self: Any, queue_name: str, attributes: dict[str, Any]) -> Any:
        _check_type(queue_name, attributes)
        _check_attributes(queue_name, attributes)
        return stock_set(self, queue_name, attributes)

    def purge_queue(self: Any, queue_name: str) -> None:
        stock_purge(self, queue_name)
        queue = self.get_queue(queue_name)
        if queue.fifo_queue:
            LocalQueue.of(queue).purge()

    def delete_queue(self: Any, queue_name: str) -> None:
        queue = self.get_queue(queue_name)
        stock_delete(self, queue_name)
        if queue.fifo_queue:
            LocalQueue.of(queue).look_again()

    backend.create_queue, backend.set_queue_attributes = create_queue, set_queue_attributes
    backend.purge_queue, backend.delete_queue = purge_queue, delete_queue


def _send_from_another_service(  # noqa: PLR0917 - moto's signature
    queue: models.Queue,
    body: str,
    message_attributes: dict[str, Any] | None = None,
    delay_seconds: int | None = None,
    deduplication_id: str | None = None,
    group_id: str | None = None,
    system_attributes: dict[str, Any] | None = None,
    validate_group_id: bool = True,  # noqa: ARG001, FBT001, FBT002
) -> models.Message:
    """The entry that SNS, EventBridge and S3 call inside moto."""
    parameters = {
        "MessageBody": body,
        "MessageAttributes": message_attributes,
        "DelaySeconds": delay_seconds,
        "MessageDeduplicationId": deduplication_id,
        "MessageGroupId": group_id,
        "MessageSystemAttributes": system_attributes,
    }
    answer = sqs_operations.send_message(queue, parameters)
    message = models.Message(answer["MessageId"], body, system_attributes)
    message.group_id, message.deduplication_id = group_id, deduplication_id
    message.sequence_number = answer["SequenceNumber"]
    return message


def _correct_queue() -> None:
    queue = models.Queue
    for name, count in (
        ("approximate_number_of_messages", "visible"),
        ("approximate_number_of_messages_not_visible", "not_visible"),
        ("approximate_number_of_messages_delayed", "delayed"),
    ):
        setattr(queue, name, _counted(count, getattr(queue, name)))
    queue.add_message = _add_message


def _counted(count: str, original: property) -> property:
    def value(queue: Any) -> Any:
        if queue.fifo_queue:
            return getattr(LocalQueue.of(queue).counts(), count)
        return original.__get__(queue)

    return property(value)


def _add_message(queue: Any, message: Any) -> None:
    """Store a message of a standard queue, without moto's invocation of functions in the middle of it."""
    if queue.fifo_queue:
        raise TypeError(f"{queue.name} is a FIFO queue: its messages live in its model")
    with queue._messages_lock:  # noqa: SLF001
        queue._messages.append(message)  # noqa: SLF001
        queue._messages_lock.notify_all()  # noqa: SLF001


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


def _check_new_queue(name: str, attributes: Mapping[str, Any]) -> None:
    """
    Refuse a queue that SQS would not create.

    Raises:
        SQSException: with SQS's error code.
    """
    # AWS: the name of a FIFO queue, and only such a name, ends in .fifo (CreateQueue API page).
    if name.endswith(_FIFO_SUFFIX) and not is_true(attributes.get("FifoQueue")):
        raise InvalidParameterValue(
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
        )
    _check_attributes(name, attributes)


def _check_type(name: str, attributes: Mapping[str, Any]) -> None:
    """
    Refuse another type for an existing queue.

    Raises:
        SQSException: with SQS's error code.
    """
    wanted = attributes.get("FifoQueue")
    # AWS: the type of an existing queue can't be changed (CreateQueue API page, FifoQueue).
    if wanted is not None and is_true(wanted) != name.endswith(_FIFO_SUFFIX):
        raise SQSException(
            "InvalidAttributeValue",
            "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.",
        )


def _check_attributes(name: str, attributes: Mapping[str, Any]) -> None:
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
