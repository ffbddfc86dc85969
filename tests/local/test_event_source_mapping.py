"""The emulated mapping over a queue in memory and a function that is a Python callable."""

import base64
import json
import threading
from collections import deque
from dataclasses import replace
from datetime import timedelta

import pytest

from lanes.mapping.rules import MappingSettings, Scaling, ThrottleBackoff
from local import event_source_mapping
from local.environment import Invocation
from local.event_source_mapping import EventSourceMappingEmulator
from local.polled_queue import PolledMessage, PollError, QueueMapping
from tests.support.waiting import until

SETTINGS = MappingSettings(maximum_concurrency=2, reports_failures=True)
QUICK = ThrottleBackoff(initial=timedelta(milliseconds=1), longest=timedelta(milliseconds=2), jitter=0)


def _deployed(settings):
    arn = "arn:aws:sqs:eu-central-1:123456789012:jobs.fifo"
    return QueueMapping(uuid="u", queue_arn=arn, function_arn="f", settings=settings)


class _ListQueue:
    """Hands out what was put, once, and remembers what was deleted."""

    def __init__(self):
        self._waiting = deque()
        self._changed = threading.Condition()
        self.deleted = []
        self.largest_receive = 0
        self.broken = 0

    def put(self, *identifiers):
        with self._changed:
            self._waiting.extend(
                PolledMessage({"MessageId": one, "ReceiptHandle": one, "Body": "{}", "MD5OfBody": ""})
                for one in identifiers
            )
            self._changed.notify_all()

    def receive(self, *, limit, wait):
        with self._changed:
            if self.broken:
                self.broken -= 1
                raise PollError("the server is being replaced")
            # A short poll: the emulator asks again.
            self._changed.wait_for(lambda: self._waiting, timeout=0.02)
            taken = [self._waiting.popleft() for _ in range(min(limit, len(self._waiting)))]
            self.largest_receive = max(self.largest_receive, len(taken))
            return taken

    def delete(self, messages):
        with self._changed:
            self.deleted += [one.message_id for one in messages]
            self._changed.notify_all()
        return 0

    def give_back(self, messages):
        self.put(*(one.message_id for one in messages))
        return len(messages)

    def close(self):
        self.closed = True

    def wait_for_deleted(self, number):
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.deleted) >= number, timeout=60), self.deleted


class _ScriptedFunction:
    """Answers each invocation by calling `answer(message ids)`; counts how many run at once."""

    def __init__(self, answer):
        self._answer = answer
        self._lock = threading.Lock()
        self.batches = []
        self.at_once = 0
        self.most_at_once = 0

    def invoke(self, payload, wait=None):
        identifiers = [record["messageId"] for record in json.loads(payload)["Records"]]
        with self._lock:
            self.batches.append(identifiers)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            return self._answer(identifiers)
        finally:
            with self._lock:
                self.at_once -= 1


def _returns(answer):
    return Invocation(payload=json.dumps(answer).encode())


@pytest.fixture
def run():
    """Start a mapping over a queue and a function; stop all of them at the end."""
    started = []

    def start(queue, function, settings=SETTINGS, visibility_timeout=timedelta(seconds=30), scaling=None):
        mapping = EventSourceMappingEmulator(
            _deployed(settings),
            queue=queue,
            function=function,
            visibility_timeout=visibility_timeout,
            backoff=QUICK,
            scaling=scaling,
        )
        mapping.start()
        started.append(mapping)
        return mapping

    yield start
    for mapping in started:
        mapping.stop()
        mapping.join()


def _wait_for(mapping, **expected):
    """Wait until the mapping's counters reach the numbers, by its own condition."""
    with mapping._changed:
        reached = mapping._changed.wait_for(
            lambda: all(getattr(mapping._counters, name) >= number for name, number in expected.items()), 60
        )
    assert reached, mapping.counters()


def test_handled_messages_are_deleted_and_reported_ones_are_not(run):
    """Only what the partial batch response leaves out goes."""
    queue = _ListQueue()
    queue.put("m1", "m2", "m3")
    answer = {"batchItemFailures": [{"itemIdentifier": "m2"}]}

    mapping = run(queue, _ScriptedFunction(lambda _ids: _returns(answer)))

    _wait_for(mapping, deleted=2)
    assert queue.deleted == ["m1", "m3"]
    assert mapping.counters()["partial"] == 1


def test_a_function_error_deletes_nothing_and_the_mapping_goes_on(run):
    """The next batch is polled at once."""
    queue = _ListQueue()
    queue.put("bad")
    answers = {"bad": Invocation(function_error="Unhandled"), "good": _returns({})}
    mapping = run(queue, _ScriptedFunction(lambda ids: answers[ids[0]]))
    _wait_for(mapping, errors=1)

    queue.put("good")

    queue.wait_for_deleted(1)
    assert queue.deleted == ["good"]


def test_a_receive_is_no_larger_than_the_batch_size(run):
    """Batch size 4 never gives a larger event."""
    queue = _ListQueue()
    queue.put(*(f"m{number}" for number in range(40)))
    settings = replace(SETTINGS, batch_size=4)

    run(queue, _ScriptedFunction(lambda _ids: _returns({})), settings)

    queue.wait_for_deleted(40)
    assert queue.largest_receive == 4


def test_maximum_concurrency_bounds_the_batches_that_run_at_once(run):
    """The third batch waits for a slot; the poller does not take it before."""
    queue = _ListQueue()
    queue.put(*(f"m{number}" for number in range(40)))
    together = threading.Barrier(2, timeout=60)

    function = _ScriptedFunction(lambda _ids: (together.wait(), _returns({}))[1])
    run(queue, function)

    queue.wait_for_deleted(40)
    assert function.most_at_once == 2


def test_a_throttled_batch_is_tried_again_until_the_function_takes_it(run):
    """Nothing is lost or reported as failed on the way."""
    queue = _ListQueue()
    queue.put("m1")
    answers = iter([Invocation(throttled=True)] * 5)
    function = _ScriptedFunction(lambda _ids: next(answers, _returns({})))

    mapping = run(queue, function)

    queue.wait_for_deleted(1)
    counters = mapping.counters()
    assert (counters["throttles"], counters["invokes"], counters["dropped"]) == (5, 1, 0)


def test_a_batch_that_stays_throttled_is_dropped_when_its_visibility_timeout_ends(run):
    """The slot is free again and the message was not deleted."""
    queue = _ListQueue()
    queue.put("m1")
    function = _ScriptedFunction(lambda _ids: Invocation(throttled=True))

    mapping = run(queue, function, visibility_timeout=timedelta(milliseconds=30))

    _wait_for(mapping, dropped=1)
    counters = mapping.counters()
    assert counters["invokes"] == counters["errors"] == counters["deleted"] == 0


def test_a_disabled_mapping_polls_nothing_until_it_is_enabled(run):
    """Enabling it by a deploy starts it where it stood."""
    queue = _ListQueue()
    queue.put("m1")
    off = replace(SETTINGS, enabled=False)
    mapping = run(queue, _ScriptedFunction(lambda _ids: _returns({})), off)

    assert mapping.counters()["polls"] == 0
    mapping.update(_deployed(SETTINGS), visibility_timeout=timedelta(seconds=30))

    queue.wait_for_deleted(1)


def test_a_failing_poll_is_repeated(run):
    """The mapping outlives a queue that cannot be reached for a while."""
    queue = _ListQueue()
    queue.broken = 1
    queue.put("m1")

    mapping = run(queue, _ScriptedFunction(lambda _ids: _returns({})))

    queue.wait_for_deleted(1)
    assert mapping.counters()["poll_errors"] == 1


def test_a_mapping_may_start_small_and_grow(run, monkeypatch):
    """As long as all of its concurrency is at work."""
    monkeypatch.setattr(event_source_mapping, "_SCALE_EVERY", 0.01)
    queue, all_run = _ListQueue(), threading.Barrier(4)
    queue.put("m1", "m2", "m3", "m4")

    def answer(_ids):
        all_run.wait(60)
        return _returns({})

    settings = replace(SETTINGS, maximum_concurrency=4, batch_size=1)
    mapping = run(queue, _ScriptedFunction(answer), settings, scaling=Scaling(first=1, per_second=100))

    _wait_for(mapping, deleted=4)


def test_a_mapping_that_does_not_grow_stays_small(run, monkeypatch):
    """One batch at a time of four."""
    monkeypatch.setattr(event_source_mapping, "_SCALE_EVERY", 0.01)
    queue, function = _ListQueue(), _ScriptedFunction(lambda _ids: _returns({}))
    queue.put("m1", "m2", "m3", "m4")

    settings = replace(SETTINGS, maximum_concurrency=4, batch_size=1)
    mapping = run(queue, function, settings, scaling=Scaling(first=1, per_second=0))

    _wait_for(mapping, deleted=4)
    assert function.most_at_once == 1


@pytest.mark.parametrize(
    ("payload", "settings", "said"),
    [
        (b"null", SETTINGS, 1),
        (b"", SETTINGS, 1),
        (b'{"batchItemFailures": []}', SETTINGS, 0),
        (b"null", replace(SETTINGS, reports_failures=False), 0),
    ],
    ids=["null", "empty", "answer", "no failures reported"],
)
def test_a_dropped_answer_is_said_once(run, caplog, payload, settings, said):
    """Otherwise nothing would show that failed records are deleted too."""
    queue = _ListQueue()
    function = _ScriptedFunction(lambda _: Invocation(payload=payload))
    run(queue, function, settings=settings)
    queue.put("a")
    queue.wait_for_deleted(1)
    queue.put("b")
    queue.wait_for_deleted(2)

    lines = [record.getMessage() for record in caplog.records]
    assert len([line for line in lines if "jobs.fifo returned nothing" in line]) == said


def test_messages_of_a_failed_invocation_return_for_changed_code(run):
    """Once, and only those that are not handled; the others have come back by themselves."""
    queue, broken = _ListQueue(), threading.Event()
    broken.set()
    function = _ScriptedFunction(
        lambda _: Invocation(function_error="Unhandled") if broken.is_set() else _returns({})
    )
    queue.put("a", "b")
    mapping = run(queue, function)
    until(lambda: mapping.counters()["errors"] == 1)
    broken.clear()

    assert mapping.give_back_failed() == 2
    queue.wait_for_deleted(2)
    assert mapping.give_back_failed() == 0


def test_messages_that_are_visible_again_are_not_returned(run):
    """Another receive may have them."""
    queue, function = _ListQueue(), _ScriptedFunction(lambda _: Invocation(function_error="Unhandled"))
    queue.put("a")
    mapping = run(queue, function, visibility_timeout=timedelta(0))
    until(lambda: mapping.counters()["errors"] == 1)

    assert mapping.give_back_failed() == 0


QUEUE_ARN = "arn:aws:sqs:eu-central-1:123456789012:jobs.fifo"
FIELDS = {
    "MessageId": "m1",
    "ReceiptHandle": "handle-m1",
    "Body": "{}",
    "MD5OfBody": "99914b932bd37a50b983c5e7c90ae93b",
    "Attributes": {
        "ApproximateReceiveCount": "1",
        "SentTimestamp": "1763672400000",
        "SequenceNumber": "18850000000000000000",
        "MessageGroupId": "g",
        "SenderId": "AIDAEXAMPLE",
        "MessageDeduplicationId": "m1",
        "ApproximateFirstReceiveTimestamp": "1763672400001",
    },
}


def test_a_mapping_is_read_from_the_lambda_api():
    """Its queue, its function and its settings."""
    mapping = QueueMapping.from_api(
        {"UUID": "u", "EventSourceArn": QUEUE_ARN, "FunctionArn": "f", "BatchSize": 4, "State": "Enabled"}
    )

    assert (mapping.queue_name, mapping.function_arn, mapping.settings.batch_size) == ("jobs.fifo", "f", 4)


def test_a_record_has_the_shape_of_a_lambda_event():
    """Every key of the documented event is there, attributes unchanged."""
    assert PolledMessage(FIELDS).record(QUEUE_ARN) == {
        "messageId": "m1",
        "receiptHandle": "handle-m1",
        "body": "{}",
        "attributes": FIELDS["Attributes"],
        "messageAttributes": {},
        "md5OfBody": "99914b932bd37a50b983c5e7c90ae93b",
        "eventSource": "aws:sqs",
        "eventSourceARN": QUEUE_ARN,
        "awsRegion": "eu-central-1",
    }


def test_message_attributes_change_to_camel_case():
    """Text stays text and binary becomes base64."""
    received = FIELDS | {
        "MessageAttributes": {
            "trace": {"DataType": "String", "StringValue": "abc"},
            "blob": {"DataType": "Binary", "BinaryValue": b"\x00\x01"},
        }
    }

    attributes = PolledMessage(received).record(QUEUE_ARN)["messageAttributes"]

    empty = {"stringListValues": [], "binaryListValues": []}
    assert attributes["trace"] == {**empty, "dataType": "String", "stringValue": "abc"}
    blob = base64.b64encode(b"\x00\x01").decode()
    assert attributes["blob"] == {**empty, "dataType": "Binary", "binaryValue": blob}
