"""
S4, dead letters as a table.

`spark.read.format("lanes")` gives the dead letters of the lanes, to be joined with the table that they came from, and
consumes nothing.
"""

import json
from datetime import UTC, datetime

import pytest
from pyspark.errors import AnalysisException

from lanes.aws.queues import NOTE_ATTRIBUTE
from spark_jobs.source import SCHEMA

DIED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SENT = datetime(2026, 1, 1, tzinfo=UTC)


def bury(lanes, lane, body, *, group, note=None):
    """Put a message into the dead-letter queue of a lane, as the consumer does."""
    attributes = {NOTE_ATTRIBUTE: {"DataType": "String", "StringValue": json.dumps(note)}} if note else {}
    lanes.sqs.send_message(
        QueueUrl=lanes.deployment.queues[lane].dead_letter_url,
        MessageBody=body,
        MessageGroupId=group,
        MessageDeduplicationId=f"dead-{group}-{hash(body)}",
        MessageAttributes=attributes,
    )


def bury_rows(lanes, lane, numbers, *, group=None):
    """Dead-letter the messages of these rows."""
    for number in numbers:
        note = {
            "reason": "attempts exhausted",
            "error": f"TimeoutError: {number}",
            "attempts": 3,
            "sent_at": SENT.timestamp(),
            "first_received_at": SENT.timestamp() + 60,
            "dead_lettered_at": DIED.timestamp(),
        }
        event = {
            "specversion": "1.0",
            "type": "customer.remind",
            "id": f"row-{number}",
            "data": {"n": number},
        }
        bury(lanes, lane, json.dumps(event), group=group or f"g-{number}", note=note)


def read(spark, lanes, **options):
    """Read the dead letters of these lanes."""
    where = {"deployment": lanes.deployment.to_json(), "endpointUrl": lanes.endpoint_url}
    return spark.read.format("lanes").options(**where, **options).load()


@pytest.mark.deep
def test_dead_letters_are_joined_with_their_table(spark, lanes):
    """Id, kind, group, data, reason, error, attempts, times and lane are columns."""
    bury_rows(lanes, "MAIN", [3, 5])
    table = spark.range(10).selectExpr("id AS n", "concat('row-', id) AS id", "concat('c', id) AS customer")

    joined = table.join(read(spark, lanes), "id").orderBy("n").collect()

    assert [(row.customer, row.lane, row.kind, row.group, json.loads(row.data)) for row in joined] == [
        (f"c{number}", "MAIN", "customer.remind", f"g-{number}", {"n": number}) for number in (3, 5)
    ]
    first = joined[0]
    assert (first.reason, first.error, first.attempts) == ("attempts exhausted", "TimeoutError: 3", 3)
    times = (first.sent_at, first.first_received_at, first.dead_lettered_at)
    assert [time.astimezone(UTC).timestamp() for time in times] == [
        SENT.timestamp(),
        SENT.timestamp() + 60,
        DIED.timestamp(),
    ]


def test_reading_consumes_nothing(spark, lanes):
    """Two reads give the same rows, and afterwards each dead letter is visible, in the order of its group."""
    bury_rows(lanes, "MAIN", range(23))
    bury_rows(lanes, "HIGH", range(4), group="one")

    counts = [read(spark, lanes).groupBy("lane").count().collect() for _ in range(2)]

    assert [dict(map(tuple, one)) for one in counts] == [{"MAIN": 23, "HIGH": 4}] * 2
    url = lanes.deployment.queues["HIGH"].dead_letter_url
    again = lanes.sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10)["Messages"]
    assert [json.loads(message["Body"])["id"] for message in again] == [
        f"row-{number}" for number in range(4)
    ]


def test_each_lane_is_a_partition_and_the_options_choose_and_limit(spark, lanes):
    """A lane that was not chosen is not received from."""
    bury_rows(lanes, "MAIN", range(14))
    bury_rows(lanes, "HIGH", range(3))

    assert read(spark, lanes).rdd.getNumPartitions() == 3
    assert {row.lane for row in read(spark, lanes, lane="HIGH").collect()} == {"HIGH"}
    assert read(spark, lanes, lane="MAIN", limit="12").count() == 12


def test_a_body_that_is_no_event_is_a_row_too(spark, lanes):
    """Another program sent it there, so it has no note; the body is there as it is."""
    bury(lanes, "MAIN", "not an event", group="raw")

    (row,) = read(spark, lanes).collect()

    assert (row.id, row.kind, row.data, row.attempts, row.first_received_at) == (None,) * 5
    assert row.body == "not an event"
    assert row.reason.startswith(
        "unknown: the consumer's note did not fit beside the body, or another program"
    )
    assert row.asDict().keys() == {column.split()[0] for column in SCHEMA.split(", ")}


def test_ten_of_a_group_are_read(spark, lanes):
    """SQS delivers no more of a group while they are in flight; the documentation says so."""
    bury_rows(lanes, "MAIN", range(13), group="one")

    assert [row.id for row in read(spark, lanes).collect()] == [f"row-{number}" for number in range(10)]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"lane": "LOW"}, "option lane is 'LOW'; one of HIGH, MEDIUM, MAIN is needed"),
        ({"limit": "0"}, "option limit is '0'; a whole number from 1 to 100000 is needed"),
        ({"shards": "3"}, "unknown option 'shards'"),
        ({"stack": "Shop"}, "exactly one of the options stack and deployment"),
    ],
)
def test_wrong_options_of_a_read_fail_on_the_driver(spark, lanes, options, named):
    """With the name and the allowed values."""
    with pytest.raises(AnalysisException) as caught:
        read(spark, lanes, **options).collect()

    assert named in str(caught.value)
