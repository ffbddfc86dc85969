"""The rules of the event source mapping, without queue, function or clock."""

import base64
import json
import random
from datetime import timedelta

import pytest

from local.model.mapping import (
    LARGEST_EVENT_BYTES,
    MappingSettings,
    Outcome,
    batches,
    judge,
    lambda_record,
    start_order,
    without_groups,
)
from simulator.backoff import ThrottleBackoff

QUEUE_ARN = "arn:aws:sqs:eu-central-1:123456789012:jobs.fifo"
SETTINGS = MappingSettings(uuid="u", queue_arn=QUEUE_ARN, function_arn="f", reports_failures=True)
IDS = ("m1", "m2", "m3")


def _message(identifier, *, group="g", body="{}"):
    attributes = {
        "ApproximateReceiveCount": "1",
        "SentTimestamp": "1763672400000",
        "SequenceNumber": "18850000000000000000",
        "MessageGroupId": group,
        "SenderId": "AIDAEXAMPLE",
        "MessageDeduplicationId": identifier,
        "ApproximateFirstReceiveTimestamp": "1763672400001",
    }
    return {
        "MessageId": identifier,
        "ReceiptHandle": f"handle-{identifier}",
        "Body": body,
        "MD5OfBody": "99914b932bd37a50b983c5e7c90ae93b",
        "Attributes": attributes,
    }


def _chance(seed):
    return random.Random(seed)


def _verdict(answer, *, function_error=None, reports_failures=True):
    payload = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    return judge(payload, message_ids=IDS, function_error=function_error, reports_failures=reports_failures)


def test_a_record_has_the_shape_of_a_lambda_event():
    """Every key of the documented event is there, attributes unchanged."""
    record = lambda_record(_message("m1"), SETTINGS)

    assert record == {
        "messageId": "m1",
        "receiptHandle": "handle-m1",
        "body": "{}",
        "attributes": _message("m1")["Attributes"],
        "messageAttributes": {},
        "md5OfBody": "99914b932bd37a50b983c5e7c90ae93b",
        "eventSource": "aws:sqs",
        "eventSourceARN": QUEUE_ARN,
        "awsRegion": "eu-central-1",
    }


def test_message_attributes_change_to_camel_case():
    """Text stays text and binary becomes base64."""
    received = _message("m1") | {
        "MessageAttributes": {
            "trace": {"DataType": "String", "StringValue": "abc"},
            "blob": {"DataType": "Binary", "BinaryValue": b"\x00\x01"},
        }
    }

    attributes = lambda_record(received, SETTINGS)["messageAttributes"]

    empty = {"stringListValues": [], "binaryListValues": []}
    assert attributes["trace"] == {**empty, "dataType": "String", "stringValue": "abc"}
    blob = base64.b64encode(b"\x00\x01").decode()
    assert attributes["blob"] == {**empty, "dataType": "Binary", "binaryValue": blob}


def test_one_receive_is_one_event_with_its_groups_mixed_and_in_order():
    """Ten messages of several groups travel together, in the order of the receive."""
    received = [_message(f"m{number}", group=f"g{number % 3}") for number in range(10)]

    (batch,) = batches(received, SETTINGS)

    records = json.loads(batch.event)["Records"]
    assert [record["messageId"] for record in records] == [f"m{number}" for number in range(10)]


def test_a_receive_beyond_the_payload_limit_travels_in_several_events():
    """Each event stays under the limit of an invocation and no message is lost."""
    received = [_message(f"m{number}", body="x" * 1_000_000) for number in range(10)]

    made = batches(received, SETTINGS)

    assert len(made) == 2
    assert all(len(batch.event) <= LARGEST_EVENT_BYTES for batch in made)
    assert [one["MessageId"] for batch in made for one in batch.messages] == [f"m{n}" for n in range(10)]


def test_the_rest_of_a_receive_goes_on_without_the_groups_that_failed():
    """A later message of a failed group must not overtake the failed one."""
    (batch,) = batches([_message("a1", group="a"), _message("b1", group="b")], SETTINGS)

    assert without_groups(batch, (), SETTINGS) is batch
    assert [one["MessageId"] for one in without_groups(batch, {"a"}, SETTINGS).messages] == ["b1"]
    assert without_groups(batch, {"a", "b"}, SETTINGS) is None


@pytest.mark.parametrize(
    "answer",
    [b"", b"null", b"{}", {"batchItemFailures": []}, {"batchItemFailures": None}, {"statusCode": 200}],
)
def test_an_empty_or_null_answer_is_success(answer):
    """Nothing reported means that every message is deleted."""
    assert _verdict(answer).outcome is Outcome.SUCCEEDED
    assert not _verdict(answer).failed_ids


def test_reported_messages_stay_and_the_others_go():
    """A partial batch response keeps exactly what it lists."""
    found = _verdict({"batchItemFailures": [{"itemIdentifier": "m2"}, {"itemIdentifier": "m3"}]})

    assert found.outcome is Outcome.PARTIAL
    assert found.failed_ids == {"m2", "m3"}


@pytest.mark.parametrize(
    "answer",
    [
        b"{not json",
        b'"done"',
        b"[]",
        {"batchItemFailures": "m1"},
        {"batchItemFailures": [{"itemIdentifier": ""}]},
        {"batchItemFailures": [{"itemIdentifier": None}]},
        {"batchItemFailures": [{"messageId": "m1"}]},
        {"batchItemFailures": ["m1"]},
        {"batchItemFailures": [{"itemIdentifier": "m1"}, {"itemIdentifier": "unknown"}]},
    ],
)
def test_an_unusable_answer_fails_the_whole_batch(answer):
    """Malformed JSON, wrong keys and empty, null or unknown ids keep every message."""
    found = _verdict(answer)

    assert found.outcome is Outcome.FAILED
    assert found.failed_ids == set(IDS)


def test_a_function_error_fails_the_whole_batch_whatever_was_answered():
    """An exception or a timeout deletes nothing."""
    assert _verdict({"batchItemFailures": []}, function_error="Unhandled").failed_ids == set(IDS)


def test_without_report_batch_item_failures_any_return_is_success():
    """The answer is not even read."""
    answer = {"batchItemFailures": [{"itemIdentifier": "m1"}]}

    assert _verdict(answer, reports_failures=False).outcome is Outcome.SUCCEEDED


def test_throttle_waits_double_up_to_a_cap():
    """Without jitter: a tenth of a second, doubled, at most the cap."""
    backoff = ThrottleBackoff(longest=timedelta(seconds=1), jitter=0)
    left = timedelta(minutes=1)

    waits = [backoff.wait(tries, left=left, chance=_chance(0)) for tries in (1, 2, 3, 4, 5, 5000)]

    assert [wait.total_seconds() for wait in waits] == [0.1, 0.2, 0.4, 0.8, 1, 1]


def test_throttle_jitter_only_shortens_and_follows_its_seed():
    """The same seed gives the same waits."""
    backoff = ThrottleBackoff(longest=timedelta(seconds=1), jitter=0.5)

    waits = [
        [backoff.wait(5, left=timedelta(minutes=1), chance=chance) for _ in range(20)]
        for chance in (_chance(7), _chance(7))
    ]

    assert waits[0] == waits[1]
    assert all(timedelta(seconds=0.5) <= wait <= timedelta(seconds=1) for wait in waits[0])


def test_a_throttled_batch_is_let_go_when_its_visibility_timeout_would_end_first():
    """There is no wait beyond what is left of the timeout."""
    backoff = ThrottleBackoff(jitter=0)

    assert backoff.wait(1, left=timedelta(milliseconds=50), chance=_chance(0)) is None
    assert backoff.wait(1, left=timedelta(seconds=-1), chance=_chance(0)) is None


def test_settings_are_read_from_the_lambda_api():
    """Batch size, concurrency, answer type and state are those of the deployed mapping."""
    settings = MappingSettings.from_api(
        {
            "UUID": "u",
            "EventSourceArn": QUEUE_ARN,
            "FunctionArn": "f",
            "BatchSize": 4,
            "ScalingConfig": {"MaximumConcurrency": 3},
            "State": "Disabled",
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
        }
    )

    assert (settings.receive_size, settings.slots, settings.queue_name) == (4, 3, "jobs.fifo")
    assert settings.reports_failures
    assert not settings.enabled


def test_the_first_poll_order_follows_the_seed_alone():
    """Every order occurs for some seed, the same one for the same seed."""
    lanes = ["HIGH", "MEDIUM", "MAIN"]

    orders = {tuple(start_order(lanes, seed=seed)) for seed in range(60)}

    assert len(orders) == 6
    assert start_order(lanes, seed=3) == start_order(reversed(lanes), seed=3)
