"""
The function of `lanes probe run`: holds a slot, measures calls, or runs until it is killed, and records events.

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
# Between two looks at a count, and before the timeout of a function that is to be killed.
_PAUSE = 0.05
# Writes without a pause would keep a small table, and each other, busy.
_BETWEEN_SIGNS = 0.01
# Messages behind the one in flight of their group.
BLOCKED = 2
_ENVIRONMENT = uuid.uuid4().hex[:8]


def lambda_handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Do the task of the one record."""
    at = time.time()
    record = event["Records"][0]
    task = json.loads(record["body"])
    attributes = record["attributes"]
    about = {
        "environment": _ENVIRONMENT,
        "cold": _is_first(),
        "queue": task["queue"],
        "group": attributes["MessageGroupId"],
        "sent": int(attributes["SentTimestamp"]) / 1000,
        "received": int(attributes["ApproximateFirstReceiveTimestamp"]) / 1000,
        "receives": int(attributes["ApproximateReceiveCount"]),
        "number": task["number"],
        "role": task.get("role", ""),
    }
    recorder = Recorder(task["run"], about)
    try:
        _TASKS[task["task"]](task, recorder, at, context)
    except Exception as error:  # noqa: BLE001 - the border of the function; the command reports it
        recorder.write("error", text=f"{type(error).__name__}: {error}")
    return {"batchItemFailures": []}


class Recorder:
    """Writes the events of one message to the table."""

    def __init__(self, run: str, about: Event) -> None:
        self._run = run
        self._about = about

    @property
    def receives(self) -> int:
        """How often the message has been received."""
        return int(self._about["receives"])

    def age(self, at: float) -> float:
        """Return the age of the message in seconds."""
        return at - float(self._about["sent"])

    def write(self, event: str, *, at: float | None = None, **more: Any) -> None:
        """Write an event, by default of now."""
        moment = time.time() if at is None else at
        entry = {"event": event, "at": moment, **self._about, **more}
        _client("dynamodb").put_item(
            TableName=os.environ["TABLE"],
            Item={
                "run": {"S": self._run},
                "id": {"S": f"{moment:.6f}-{uuid.uuid4().hex[:8]}"},
                "event": {"S": json.dumps(entry)},
            },
        )

    def update(self) -> None:
        """Make the smallest update of an item."""
        _client("dynamodb").update_item(
            TableName=os.environ["TABLE"],
            Key={"run": {"S": "updates"}, "id": {"S": _ENVIRONMENT}},
            UpdateExpression="SET n = :n",
            ExpressionAttributeValues={":n": {"N": "1"}},
        )


_invocations = itertools.count()


def _is_first() -> bool:
    """Whether this is the first invocation of the environment."""
    return next(_invocations) == 0


@cache
def _client(service: str) -> Any:
    # Late: thirteen environments that start at once compile it at once, and their start is measured.
    import boto3

    clients: Any = boto3
    return clients.client(service)


def hold(task: Event, recorder: Recorder, at: float, _context: Any) -> None:
    """Keep the slot for a time, or not at all if the message is older than its `within`."""
    if recorder.age(at) > task.get("within", float("inf")):
        recorder.write("late", at=at)
        return
    end = at + task["seconds"]
    # Somebody waits for the start, or for the slot, which a write at the end would keep; other starts at the same
    # moment would wait for a write at the start.
    if task.get("announce"):
        recorder.write("start", at=at)
        recorder.write("end", at=end)
    time.sleep(max(0.0, end - time.time()))
    if not task.get("announce"):
        recorder.write("start", at=at)
        recorder.write("end", at=end)


def run_until_killed(_task: Event, recorder: Recorder, at: float, context: Any) -> None:
    """Write how far the timeout is behind, until the process is killed; a second receive ends at once."""
    if recorder.receives > 1:
        recorder.write("end", at=at)
        return
    # The context says 0 once the time is over.
    deadline = time.time() + context.get_remaining_time_in_millis() / 1000
    recorder.write("start", at=at)
    while True:
        left = deadline - time.time()
        if left < _PAUSE:
            recorder.write("alive", late=-left)
            time.sleep(_BETWEEN_SIGNS)
        else:
            time.sleep(min(left - _PAUSE, 1.0))


def measure_calls(task: Event, recorder: Recorder, _at: float, _context: Any) -> None:
    """Time calls, one of each in turn, as the consumer makes them."""
    sqs, url = _client("sqs"), task["url"]
    times: dict[str, list[float]] = {
        name: [] for name in ("receive", "delete", "get_queue_attributes", "update_item")
    }
    for number in range(task["count"]):
        _send(url, group=f"g{number}")
        messages: list[Event] = []
        while not messages:
            # A poll that misses is not a receive with messages.
            began = time.perf_counter()
            messages = sqs.receive_message(QueueUrl=url).get("Messages", [])
        received = time.perf_counter()
        sqs.delete_message(QueueUrl=url, ReceiptHandle=messages[0]["ReceiptHandle"])
        deleted = time.perf_counter()
        _counts(url)
        counted = time.perf_counter()
        recorder.update()
        updated = time.perf_counter()
        moments = (began, received, deleted, counted, updated)
        for name, one, then in zip(times, moments, moments[1:], strict=False):
            times[name].append(then - one)
    # The first ones open the connections.
    measured: Any = {name: values[1:] for name, values in times.items()}
    recorder.write("calls", **measured)


def measure_counts(task: Event, recorder: Recorder, _at: float, _context: Any) -> None:
    """Time until counts show a send and a receive, and read whether they include blocked messages."""
    url, longest = task["url"], task["longest"]
    visible, hidden = _counts(url)
    for _ in range(BLOCKED + 1):
        _send(url, group=f"c{task['number']}")
    _record_age(recorder, "sent", lambda: _counts(url)[0] > visible + BLOCKED, longest)
    messages = _receive(url)
    if _record_age(recorder, "received", lambda: _counts(url)[1] > hidden, longest):
        time.sleep(task["settle"])
        recorder.write("blocked", counted=_counts(url)[0] - visible, blocked=BLOCKED)
    _empty(url, messages)
    _wait(lambda: _counts(url) == (visible, hidden), longest)


def _record_age(recorder: Recorder, change: str, is_shown: Callable[[], bool], longest: float) -> bool:
    """Write how long the counts took to show a change; return whether they did."""
    since = time.time()
    shown = _wait(is_shown, longest)
    recorder.write("counted", change=change, age=None if shown is None else shown - since)
    return shown is not None


def measure_polls(task: Event, recorder: Recorder, _at: float, _context: Any) -> None:
    """Poll shortly while a few messages wait, and count the polls that find none."""
    sqs, url = _client("sqs"), task["url"]
    for number in range(task["waiting"]):
        _send(url, group=f"w{number}")
    # Messages that a later poll misses were there: a poll that waits has found one of them.
    _receive(url, visibility=0)
    polls: list[list[Any]] = []
    for number in range(task["count"]):
        began = time.time()
        found = sqs.receive_message(QueueUrl=url, WaitTimeSeconds=0).get("Messages", [])
        polls.append([began, bool(found)])
        for message in found:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            _send(url, group=f"p{number}")
    recorder.write("polled", polls=polls, waiting=task["waiting"])
    _empty(url, [])


def measure_order(task: Event, recorder: Recorder, _at: float, _context: Any) -> None:
    """Receive a message, give its group back, and see which group comes next."""
    sqs, url = _client("sqs"), task["url"]
    for number in range(task["count"]):
        groups = [f"r{number}g{place}" for place in range(task["groups"])]
        # Both of a group are older than those of the next, so that the oldest message names one group.
        for group in groups:
            for _ in range(2):
                _send(url, group=group)
        for how in ("visibility", "delete"):
            (first,) = _receive(url)
            if how == "delete":
                sqs.delete_message(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"])
            else:
                sqs.change_message_visibility(
                    QueueUrl=url, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=0
                )
            (then,) = _receive(url)
            order = [_group(first), _group(then)]
            recorder.write(
                "order", how=how, order=[groups.index(group) for group in order], groups=len(groups)
            )
            sqs.change_message_visibility(
                QueueUrl=url, ReceiptHandle=then["ReceiptHandle"], VisibilityTimeout=0
            )
        _empty(url, [])


_TASKS: Mapping[str, Callable[[Event, Recorder, float, Any], None]] = {
    "hold": hold,
    "kill": run_until_killed,
    "calls": measure_calls,
    "counts": measure_counts,
    "polls": measure_polls,
    "order": measure_order,
}


def _send(url: str, *, group: str) -> None:
    _client("sqs").send_message(
        QueueUrl=url, MessageBody="{}", MessageGroupId=group, MessageDeduplicationId=uuid.uuid4().hex
    )


def _counts(url: str) -> tuple[int, int]:
    """Return the counts of visible messages and of those in flight."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = _client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return int(found[names[0]]), int(found[names[1]])


def _receive(url: str, *, visibility: int | None = None) -> list[Event]:
    """Receive one message by a poll that waits."""
    more = {} if visibility is None else {"VisibilityTimeout": visibility}
    while True:
        answer = _client("sqs").receive_message(
            QueueUrl=url, WaitTimeSeconds=5, MessageSystemAttributeNames=["MessageGroupId"], **more
        )
        if answer.get("Messages"):
            messages: list[Event] = answer["Messages"]
            return messages


def _group(message: Event) -> str:
    return str(message["Attributes"]["MessageGroupId"])


def _empty(url: str, messages: list[Event]) -> None:
    """Delete these messages and all others; a poll that waits finds none."""
    sqs = _client("sqs")
    while True:
        for message in messages:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        messages = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1).get(
            "Messages", []
        )
        if not messages:
            return


def _wait(is_so: Callable[[], bool], longest: float) -> float | None:
    """Return when it was so first, or None after the longest time."""
    until = time.time() + longest
    while (now := time.time()) < until:
        if is_so():
            return now
        time.sleep(_PAUSE)
    return None
