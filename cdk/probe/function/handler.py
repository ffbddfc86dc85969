"""
The function of `lanes probe run`: holds a slot or measures calls, and records events.

An event is a JSON object with its moment, by the clock of this environment, in epoch seconds.
"""

import itertools
import json
import os
import time
import uuid
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

Event = dict[str, Any]
Write = Callable[..., None]
_invocations = itertools.count()


def lambda_handler(event: Mapping[str, Any], _context: Any) -> dict[str, Any]:
    """Do the task of the one record."""
    at = time.time()
    record = event["Records"][0]
    task = json.loads(record["body"])
    attributes = record["attributes"]
    about = {
        "cold": next(_invocations) == 0,
        "group": attributes["MessageGroupId"],
        "sent": int(attributes["SentTimestamp"]) / 1000,
        "received": int(attributes["ApproximateFirstReceiveTimestamp"]) / 1000,
        "receives": int(attributes["ApproximateReceiveCount"]),
        "number": task["number"],
        "role": task.get("role", ""),
    }

    def write(name: str, *, at: float | None = None, **more: Any) -> None:
        moment = time.time() if at is None else at
        _put(task["run"], {"event": name, "at": moment, **about, **more})

    try:
        _TASKS[task["task"]](task, write, at)
    except Exception as error:  # noqa: BLE001 - the border of the function; the command reports it
        write("error", text=f"{type(error).__name__}: {error}")
    return {"batchItemFailures": []}


def _put(run: str, event: Event) -> None:
    key = {"run": {"S": run}, "id": {"S": f"{event['at']:.6f}-{uuid.uuid4().hex[:8]}"}}
    item = {**key, "event": {"S": json.dumps(event)}}
    _client("dynamodb").put_item(TableName=os.environ["TABLE"], Item=item)


@cache
def _client(service: str) -> Any:
    # Late: environments that start at once compile it at once, and their start is measured.
    import boto3

    clients: Any = boto3
    return clients.client(service)


def hold(task: Event, write: Write, at: float) -> None:
    """Keep the slot for a time."""
    end = at + task["seconds"]
    # Somebody waits for the start, or for the slot, which a write at the end would keep; other starts at the same
    # moment would wait for a write at the start.
    if not task.get("announce"):
        time.sleep(max(0.0, end - time.time()))
    write("start", at=at)
    write("end", at=end)
    time.sleep(max(0.0, end - time.time()))


def measure_calls(task: Event, write: Write, _at: float) -> None:
    """Time calls, one of each in turn, as the consumer makes them."""
    sqs, url = _client("sqs"), task["url"]
    times: dict[str, list[float]] = {}

    def timed(name: str, call: Callable[..., Any], **arguments: Any) -> Any:
        began = time.perf_counter()
        answer = call(**arguments)
        times.setdefault(name, []).append(time.perf_counter() - began)
        return answer

    update: dict[str, Any] = {
        "TableName": os.environ["TABLE"],
        "Key": {"run": {"S": "updates"}, "id": {"S": "0"}},
        "UpdateExpression": "SET n = :n",
        "ExpressionAttributeValues": {":n": {"N": "1"}},
    }
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    for number in range(task["count"]):
        _send(url, group=f"g{number}")
        while not (messages := timed("receive", sqs.receive_message, QueueUrl=url).get("Messages")):
            # A poll that misses is not a receive with messages.
            times["receive"].pop()
        timed("delete", sqs.delete_message, QueueUrl=url, ReceiptHandle=messages[0]["ReceiptHandle"])
        timed("get_queue_attributes", sqs.get_queue_attributes, QueueUrl=url, AttributeNames=names)
        timed("update_item", _client("dynamodb").update_item, **update)
    # The first ones open the connections.
    write("calls", **{name: values[1:] for name, values in times.items()})


def measure_polls(task: Event, write: Write, _at: float) -> None:
    """Poll shortly while a few messages wait, and count the polls that find none."""
    sqs, url = _client("sqs"), task["url"]
    for number in range(task["waiting"]):
        _send(url, group=f"w{number}")
    # Messages that a later poll misses were there: a poll that waits has found one of them.
    _receive(url, VisibilityTimeout=0)
    polls: list[list[Any]] = []
    for number in range(task["count"]):
        began = time.time()
        found = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=0).get("Messages", [])
        polls.append([began, bool(found)])
        for message in found:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            _send(url, group=f"p{number}")
    write("polls", polls=polls, waiting=task["waiting"])
    _empty(url)


def measure_order(task: Event, write: Write, _at: float) -> None:
    """Receive a message, return or delete it, and see which group comes next."""
    sqs, url = _client("sqs"), task["url"]
    groups = [f"r{task['number']}g{place}" for place in range(task["groups"])]
    # Both of a group are older than those of the next, so that the oldest message names one group.
    for group in groups:
        for _ in range(2):
            _send(url, group=group)
    for how in ("visibility", "delete"):
        first, handle = _receive(url)
        if how == "delete":
            sqs.delete_message(QueueUrl=url, ReceiptHandle=handle)
        else:
            sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0)
        then, handle = _receive(url)
        write("order", how=how, order=[groups.index(first), groups.index(then)], groups=len(groups))
        sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0)
    _empty(url)


_TASKS: Mapping[str, Callable[[Event, Write, float], None]] = {
    "hold": hold,
    "calls": measure_calls,
    "polls": measure_polls,
    "order": measure_order,
}


def _send(url: str, *, group: str) -> None:
    _client("sqs").send_message(
        QueueUrl=url, MessageBody="{}", MessageGroupId=group, MessageDeduplicationId=uuid.uuid4().hex
    )


def _receive(url: str, **more: Any) -> tuple[str, str]:
    """Receive one message by a poll that waits; return its group and its receipt handle."""
    wanted = {"WaitTimeSeconds": 5, "MessageSystemAttributeNames": ["MessageGroupId"], **more}
    while not (messages := _client("sqs").receive_message(QueueUrl=url, **wanted).get("Messages")):
        pass
    return str(messages[0]["Attributes"]["MessageGroupId"]), str(messages[0]["ReceiptHandle"])


def _empty(url: str) -> None:
    """Delete all messages; a poll that waits finds none."""
    sqs, wanted = _client("sqs"), {"MaxNumberOfMessages": 10, "WaitTimeSeconds": 1}
    while messages := sqs.receive_message(QueueUrl=url, **wanted).get("Messages"):
        for message in messages:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
