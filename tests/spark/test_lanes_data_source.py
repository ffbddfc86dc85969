"""Tables written with format("lanes") arrive as messages, each once, or the job fails with the reason."""

import time

import pytest
from pyspark import TaskContext
from pyspark.errors import AnalysisException, PythonException

from spark_jobs.source import LanesDataSource, LanesWriter

pytestmark = pytest.mark.xdist_group("spark")


def test_rows_arrive_in_their_lane_with_group_and_id(spark, lanes):
    """Each column ends where it belongs: kind, data and priority in the event, the group beside it."""
    table = spark.createDataFrame(
        [
            ("payment.captured", '{"n": 1}', 7, "one", 60),
            ("order.placed", '{"n": 2}', 8, "two", 0),
            (None, '{"n": 3}', 9, "three", None),
        ],
        "kind string, data string, group int, id string, priority int",
    )

    lanes.write(table)

    arrived = {
        lane: [
            (group, event["type"], event["id"], event["data"], event["priority"])
            for group, event in lanes.take(lane)
        ]
        for lane in ("HIGH", "MEDIUM", "MAIN")
    }
    assert arrived == {
        "HIGH": [("7", "payment.captured", "one", {"n": 1}, 60)],
        "MEDIUM": [("8", "order.placed", "two", {"n": 2}, 0)],
        "MAIN": [("9", "a.kind", "three", {"n": 3}, -100)],
    }


def test_structs_and_maps_arrive_as_json(spark, lanes):
    """Values of Spark reach the handler in the form that JSON has for them."""
    table = spark.sql(
        """
        SELECT struct(
            named_struct('much', CAST(12.30 AS DECIMAL(8,2)), 'none', CAST(NULL AS STRING)) AS inner,
            array(map('key', DATE'2026-01-02')) AS days,
            TIMESTAMP'2026-01-02 12:00:00' AS at
        ) AS data
        """
    )

    lanes.write(table)

    ((_, event),) = lanes.take("MAIN")
    assert event["data"] == {
        "inner": {"much": 12.3, "none": None},
        "days": [{"key": "2026-01-02"}],
        "at": "2026-01-02T12:00:00+00:00",
    }


def test_order_within_a_group_is_that_of_the_partition(spark, lanes):
    """Rows of one group that stand in one partition are sent in their order."""
    table = spark.range(60, numPartitions=1).selectExpr(
        "to_json(struct(id AS n)) AS data", "concat('g', id % 3) AS group"
    )

    lanes.write(table)

    arrived = lanes.take("MAIN")
    for group in ("g0", "g1", "g2"):
        numbers = [event["data"]["n"] for name, event in arrived if name == group]
        assert numbers == sorted(numbers)
        assert len(numbers) == 20


def test_a_table_written_twice_arrives_once(spark, lanes):
    """Ids follow from the rows, so SQS drops what a second run sends again, however it is partitioned."""
    table = spark.range(50).selectExpr("struct(id AS n) AS data")

    lanes.write(table.repartition(2))
    lanes.write(table.repartition(3), priority="LOW")

    assert lanes.waiting() == 50


def test_a_task_that_is_tried_again_sends_nothing_twice(spark, aws, lanes):
    """A task that dies after it has sent its rows sends them again, and each row is in the queue once."""

    class DyingWriter(LanesWriter):
        def write(self, iterator):
            sent = super().write(iterator)
            if TaskContext.get().attemptNumber() == 0:
                raise RuntimeError("the first try ends here")
            return sent

    class DyingDataSource(LanesDataSource):
        @classmethod
        def name(cls):
            return "dying"

        def writer(self, schema, overwrite):
            writer = super().writer(schema, overwrite)
            writer.__class__ = DyingWriter
            return writer

    spark.dataSource.register(DyingDataSource)
    aws.calls(reset=True)

    lanes.write(spark.range(100, numPartitions=2).selectExpr("struct(id AS n) AS data"), "dying")

    calls = sum(counted.get("sqs.SendMessageBatch", 0) for counted in aws.calls().values())
    assert calls == 20
    assert sorted(event["data"]["n"] for _, event in lanes.take("MAIN")) == list(range(100))


def test_rows_without_a_group_are_spread_over_shards(spark, lanes):
    """A table without a natural group uses as many groups as asked for."""
    lanes.write(spark.range(60).selectExpr("struct(id AS n) AS data"), shards="3")

    assert {group for group, _ in lanes.take("MAIN")} == {"a.kind:0", "a.kind:1", "a.kind:2"}


def test_the_lanes_of_a_stack_are_found_by_its_name(spark, lanes):
    """The driver reads where the lanes are from the stack's parameter."""
    options = {"stack": lanes.add_stack(), "endpointUrl": lanes.endpoint_url, "kind": "a.kind"}

    spark.sql("SELECT '1' AS data").write.format("lanes").mode("append").options(**options).save()

    assert lanes.waiting() == 1


@pytest.mark.parametrize(
    ("columns", "options", "named"),
    [
        ("id", {"priority": "urgent", "shard": "3"}, ["priority is 'urgent'", "did you mean 'shards'?"]),
        ("id", {}, ["column 'data' is missing"]),
        ("'1' AS data, id AS grp", {}, ["unknown column 'grp'; did you mean 'group'?"]),
        ("CAST(id AS double) AS group, '1' AS data", {}, ["column 'group' is double"]),
    ],
)
def test_bad_options_and_columns_fail_on_the_driver(spark, lanes, columns, options, named):
    """What can't work is refused before any task starts, with the name and what is allowed."""
    with pytest.raises(AnalysisException) as caught:
        lanes.write(spark.range(3).selectExpr(*columns.split(", ")), **options)

    assert [text for text in named if text not in str(caught.value)] == []
    assert lanes.waiting() == 0


def test_a_stack_that_is_not_there_fails_on_the_driver(spark, lanes):
    """A wrong stack name is an error of the driver, not of every task."""
    options = {"stack": "nothing-here", "endpointUrl": lanes.endpoint_url, "kind": "a.kind"}

    with pytest.raises(AnalysisException, match="no parameter /lanes/nothing-here"):
        spark.sql("SELECT '1' AS data").write.format("lanes").mode("append").options(**options).save()


def test_overwriting_is_refused(spark, lanes):
    """A lane can't be replaced by a table."""
    writer = spark.sql("SELECT '1' AS data").write.format("lanes").mode("overwrite")

    with pytest.raises(AnalysisException, match="messages can only be added"):
        writer.option("deployment", lanes.deployment.to_json()).save()


def test_a_row_that_cannot_be_sent_fails_the_job(spark, lanes):
    """The error names the row and the rule that it breaks."""
    table = spark.range(1, 6, numPartitions=1).selectExpr(
        "'1' AS data", "if(id = 4, 'two words', 'fine') AS group", "id"
    )

    with pytest.raises(PythonException, match=r"row 4 of partition 0 .*group is 'two words'"):
        lanes.write(table)

    assert lanes.waiting() == 0


def test_the_rate_holds_for_all_tasks_together(spark, lanes):
    """Two tasks at once send no faster than the rate of the job."""
    started = time.monotonic()

    lanes.write(spark.range(40, numPartitions=4).selectExpr("struct(id AS n) AS data"), maxSendRate="20")

    assert time.monotonic() - started >= 2.0
    assert lanes.waiting() == 40
