"""Rules of a mapping on a table's stream."""

import json
from datetime import timedelta

import pytest

from local.stream_mapping import StreamMappingSettings, failure_note, passes, retry_wait, stream_event

SETTINGS = StreamMappingSettings(
    uuid="1",
    stream_arn="arn:aws:dynamodb:eu-central-1:123456789012:table/Entries/stream/2026-01-01T00:00:00.000",
    function_arn="arn:aws:lambda:eu-central-1:123456789012:function:relay",
    maximum_retries=2,
    maximum_age=timedelta(minutes=5),
)
INSERTS = json.dumps(
    {
        "eventName": ["INSERT"],
        "dynamodb": {"Keys": {"pk": {"S": [{"prefix": "entry#"}, {"prefix": "group#"}]}}},
    }
)


def record(pk="entry#1", event_name="INSERT", number="1"):
    return {
        "eventName": event_name,
        "dynamodb": {"Keys": {"pk": {"S": pk}}, "SequenceNumber": number},
    }


@pytest.mark.parametrize(
    ("pk", "event_name", "expected"),
    [
        ("entry#1", "INSERT", True),
        ("group#g", "INSERT", True),
        ("audit", "INSERT", False),
        ("entry#1", "MODIFY", False),
    ],
)
def test_all_conditions_of_a_filter_must_hold(pk, event_name, expected):
    """Any value of a list may match."""
    assert passes(record(pk, event_name), [INSERTS]) is expected


def test_one_of_several_filters_is_enough_and_none_lets_everything_pass():
    """As AWS documents it."""
    assert passes(record(event_name="REMOVE"), ['{"eventName": ["REMOVE"]}', INSERTS])
    assert passes(record(event_name="REMOVE"), [])


@pytest.mark.parametrize(
    ("rule", "expected"),
    [([{"exists": True}], True), ([{"exists": False}], False), ([{"anything-but": ["INSERT"]}], False)],
)
def test_comparisons_of_one_value(rule, expected):
    """Presence and absence."""
    assert passes(record(), [json.dumps({"eventName": rule})]) is expected


def test_an_unknown_comparison_is_refused_rather_than_guessed():
    """Nothing here would be worse than a filter that lets everything pass."""
    with pytest.raises(ValueError, match="numeric"):
        passes(record(), ['{"eventName": [{"numeric": ["=", 1]}]}'])


def test_the_event_names_its_stream():
    """Source and region are the mapping's."""
    (told,) = json.loads(stream_event([record()], SETTINGS))["Records"]

    assert told["eventSourceARN"] == SETTINGS.stream_arn
    assert (told["awsRegion"], told["eventSource"]) == ("eu-central-1", "aws:dynamodb")


def test_a_failed_batch_is_tried_as_often_as_the_mapping_says():
    """Two retries after the first try, unless the records get too old before."""
    young = timedelta(seconds=1)

    assert [retry_wait(tries, age=young, settings=SETTINGS) is not None for tries in (1, 2, 3)] == [
        True,
        True,
        False,
    ]
    assert retry_wait(1, age=timedelta(minutes=5), settings=SETTINGS) is None


def test_the_failure_destination_learns_where_the_batch_is():
    """Not what was in it."""
    note = json.loads(failure_note([record(), record(number="9")], tries=3, shard="s", settings=SETTINGS))

    assert note["requestContext"]["approximateInvokeCount"] == 3
    assert note["DDBStreamBatchInfo"]["startSequenceNumber"] == "1"
    assert note["DDBStreamBatchInfo"]["endSequenceNumber"] == "9"


def test_settings_are_those_of_the_deployed_mapping():
    """As ListEventSourceMappings tells them."""
    settings = StreamMappingSettings.from_api(
        {
            "UUID": "1",
            "EventSourceArn": SETTINGS.stream_arn,
            "FunctionArn": "f",
            "State": "Enabled",
            "BatchSize": 1000,
            "MaximumRetryAttempts": 2,
            "MaximumRecordAgeInSeconds": 300,
            "FilterCriteria": {"Filters": [{"Pattern": INSERTS}]},
            "DestinationConfig": {"OnFailure": {"Destination": "arn:aws:sqs:eu-central-1:1:failures"}},
        }
    )

    assert (settings.table_name, settings.batch_size, settings.enabled) == ("Entries", 1000, True)
    assert settings.patterns == (INSERTS,)
    assert settings.failure_destination == "arn:aws:sqs:eu-central-1:1:failures"
    assert settings.maximum_age == timedelta(minutes=5)
