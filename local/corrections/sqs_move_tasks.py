"""Message move tasks for FIFO queues: a task is done when its start returns."""

import uuid
from typing import Any

from moto.sqs.exceptions import InvalidParameterValue, SQSException
from moto.sqs.models import Queue, SQSBackend

from lanes.testing.fifo.message import StoredMessage
from lanes.testing.fifo.queue import FifoQueue

from .sqs_queue import LOCK, LocalQueue, read_clock

# AWS: a listing shows one task unless asked for more, ten at most (ListMessageMoveTasks API page).
_MAXIMUM_RESULTS = 10


def start(backend: SQSBackend, parameters: dict[str, Any]) -> dict[str, Any]:
    """Move the visible messages of a dead-letter queue to one queue, or back to where they came from."""
    source = _queue_of(backend, parameters["SourceArn"])
    destination_arn = parameters.get("DestinationArn")
    destination = LocalQueue.of(_queue_of(backend, destination_arn)) if destination_arn else None
    origins = {
        queue.queue_arn: LocalQueue.of(queue)
        for queue in backend.queues.values()
        if queue.redrive_policy and queue.redrive_policy["deadLetterTargetArn"] == source.queue_arn
    }
    if not origins:
        raise InvalidParameterValue("Source queue must be configured as a Dead Letter Queue.")

    def target_of(message: StoredMessage) -> FifoQueue | None:
        target = destination or origins.get(message.dead_letter_source or "")
        return target.engine if target is not None else None

    local = LocalQueue.of(source)
    with LOCK:
        moved = local.engine.move_visible(target_of)
        for target in (destination, *origins.values()):
            if target is not None:
                target.wake()
        local.move_tasks.insert(0, _task(source, destination_arn, moved))
    handle = str(uuid.uuid4())
    local.move_handles.add(handle)
    return {"TaskHandle": handle}


def cancel(backend: SQSBackend, parameters: dict[str, Any]) -> dict[str, Any]:
    """
    Refuse: a task has ended before you have its handle.

    # AWS: only a running task can be cancelled (CancelMessageMoveTask API page).
    """
    handle = parameters["TaskHandle"]
    queues = (LocalQueue.of(queue) for queue in backend.queues.values() if queue.fifo_queue)
    if any(handle in queue.move_handles for queue in queues):
        raise SQSException(
            "AWS.SimpleQueueService.UnsupportedOperation", "Only active tasks can be cancelled."
        )
    raise SQSException("ResourceNotFoundException", "Task does not exist.")


def list_tasks(backend: SQSBackend, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the latest tasks of a dead-letter queue, newest first."""
    wanted = min(parameters.get("MaxResults", 1), _MAXIMUM_RESULTS)
    return {"Results": LocalQueue.of(_queue_of(backend, parameters["SourceArn"])).move_tasks[:wanted]}


def _queue_of(backend: SQSBackend, arn: str) -> Queue:
    queue = backend.queues.get(arn.rpartition(":")[2])
    if queue is None or queue.queue_arn != arn:
        raise SQSException("ResourceNotFoundException", "The resource that you specified doesn't exist.")
    if not queue.fifo_queue:
        raise SQSException(
            "AWS.SimpleQueueService.UnsupportedOperation", "Only FIFO queues can be redriven locally."
        )
    return queue


def _task(source: Queue, destination_arn: str | None, moved: int) -> dict[str, Any]:
    task = {
        "Status": "COMPLETED",
        "SourceArn": source.queue_arn,
        "ApproximateNumberOfMessagesMoved": moved,
        "ApproximateNumberOfMessagesToMove": moved,
        "StartedTimestamp": int(read_clock() * 1000),
    }
    if destination_arn:
        task["DestinationArn"] = destination_arn
    return task
