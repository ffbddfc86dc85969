"""
S1, the data source.

`df.write.format("lanes")` (Spark 4) and the same writer as a function (Spark 3.5). Columns: kind, data, group, id,
priority. A bad option or a missing column fails on the driver, before any task.
"""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException

from lanes.errors import ConfigurationError
from spark_jobs import write_partitions
from spark_jobs.options import WriterOptions


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


def test_decimals_without_a_fraction_are_whole_numbers(spark, lanes):
    """Many databases have them as keys, and a handler whose data has an int takes no 7.0."""
    lanes.write(
        spark.sql("SELECT struct(CAST(7 AS DECIMAL(10, 0)) AS a, CAST(1e37 AS DECIMAL(38, 0)) AS b) AS data")
    )

    ((_, event),) = lanes.take("MAIN")
    assert [type(value) for value in event["data"].values()] == [int, int]
    assert event["data"]["b"] == 10**37


def test_order_within_a_group_is_that_of_the_partition(spark, lanes):
    """Rows of one group in one partition are sent in order."""
    table = spark.range(60, numPartitions=1).selectExpr(
        "to_json(struct(id AS n)) AS data", "concat('g', id % 3) AS group"
    )

    lanes.write(table)

    arrived = lanes.take("MAIN")
    for group in ("g0", "g1", "g2"):
        numbers = [event["data"]["n"] for name, event in arrived if name == group]
        assert numbers == sorted(numbers)
        assert len(numbers) == 20


def test_the_lanes_of_a_stack_are_found_by_its_name(spark, lanes):
    """The driver reads where the lanes are from the stack's parameter."""
    options = {"stack": lanes.stack, "endpointUrl": lanes.endpoint_url, "kind": "a.kind"}

    spark.sql("SELECT '1' AS data").write.format("lanes").mode("append").options(**options).save()

    assert lanes.waiting() == 1


@pytest.mark.parametrize(
    ("columns", "options", "named"),
    [
        ("id", {"priority": "urgent", "sorce": "3"}, ["priority is 'urgent'", "did you mean 'source'?"]),
        ("id", {}, ["column 'data' is missing"]),
        ("'1' AS data, id AS grp", {}, ["unknown column 'grp'; did you mean 'group'?"]),
        ("CAST(id AS double) AS group, '1' AS data", {}, ["column 'group' is double"]),
    ],
)
def test_bad_options_and_columns_fail_on_the_driver(spark, lanes, columns, options, named):
    """They are refused before any task starts, with the name and the allowed values."""
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

    with pytest.raises(AnalysisException, match="messages can only be appended"):
        writer.option("deployment", lanes.deployment.to_json()).save()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"runId": "spring"}, "options runId and manifestPath belong together"),
        ({"onError": "quarantine"}, "which needs manifestPath"),
        ({"onError": "ignore"}, "one of fail, quarantine is needed"),
        ({"ordering": "total"}, "one of group, none is needed"),
        ({"maxBacklog": "0"}, "option maxBacklog is '0'"),
        ({"runId": "../up", "manifestPath": "x"}, "option runId is '../up'"),
        ({"runId": "r", "manifestPath": "hdfs://x/y"}, "option manifestPath is 'hdfs://x/y'"),
    ],
)
def test_options_that_cannot_work_are_refused_before_any_task(options, named):
    """The error names the option and the allowed values."""
    with pytest.raises(ConfigurationError) as caught:
        WriterOptions.from_options({"stack": "Shop", **options})

    assert named in str(caught.value)


def test_few_groups_fill_batches_when_rows_are_independent(spark, aws, lanes):
    """With ordering `none` ten rows of one group go in one call."""
    aws.calls(reset=True)

    lanes.write(
        spark.range(100, numPartitions=2).selectExpr("struct(id AS n) AS data", "id", "id % 2 AS group"),
        ordering="none",
    )

    calls = sum(counted.get("sqs.SendMessageBatch", 0) for counted in aws.calls().values())
    assert calls == 10
    assert lanes.waiting() == 100


UNREADABLE = """
    SELECT id,
           named_struct(
               'on', if(id = 'date', DATE'9999-12-31' + 1, DATE'2026-01-02'),
               'at', if(id = 'time', TIMESTAMP'9999-12-31 23:59:59 America/New_York', TIMESTAMP'2026-01-02 12:00:00'),
               'text', if(id = 'text', CAST(X'61FF' AS STRING), 'x'),
               'real', CAST(0.1 AS FLOAT),
               'names', if(id = 'map', names, map('a', 1))
           ) AS data
    FROM unreadable
"""


@pytest.mark.parametrize("writer", ["data source", "write_partitions"])
def test_a_row_that_python_cannot_hold_is_quarantined_and_the_others_are_sent(spark, lanes, tmp_path, writer):
    """Both writers read the same batches, row by row where one cannot be read as a whole."""
    ids = ["first", "date", "time", "text", "map", "last"]
    names = pa.array([[("a", 1), ("a", 2)]] * len(ids), pa.map_(pa.string(), pa.int32()))
    pq.write_table(pa.table({"id": ids, "names": names}), tmp_path / "table.parquet")
    spark.read.parquet(str(tmp_path / "table.parquet")).createOrReplaceTempView("unreadable")
    options = lanes.options(onError="quarantine", runId="r", manifestPath=str(tmp_path / "runs"))

    if writer == "data source":
        spark.sql(UNREADABLE).write.format("lanes").mode("append").options(**options).save()
    else:
        done = write_partitions(spark.sql(UNREADABLE), options)
        assert (done["messages"], done["quarantined"]) == (2, 4)

    sent = {event["id"]: event["data"] for _, event in lanes.take("MAIN")}
    good = {
        "on": "2026-01-02",
        "at": "2026-01-02T12:00:00+00:00",
        "text": "x",
        "real": 0.1,
        "names": {"a": 1},
    }
    assert sent == {"first": good, "last": good}
    aside = [
        json.loads(line)
        for file in (tmp_path / "runs/r/quarantine").rglob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    assert {one["row"]["id"] for one in aside} == {"date", "time", "text", "map"}
    assert all("column 'data' has a value that Python cannot hold" in one["reason"] for one in aside)


def test_the_form_for_older_sparks_does_the_same(spark, lanes, more_lanes, tmp_path):
    """Ids, counts, manifest and skipping are those of the data source."""
    table = spark.range(50, numPartitions=2).selectExpr(
        "struct(id AS n, timestamp_seconds(id) AS at) AS data"
    )
    run = {"kind": "a.kind", "runId": "spring", "manifestPath": str(tmp_path)}

    lanes.write(table.where("data.n < 40"), **run)
    done = [write_partitions(table, more_lanes.options(**run)) for _ in range(2)]

    assert [(one["messages"], one["skipped"]) for one in done] == [(10, 40), (0, 50)]
    assert (lanes.waiting(), more_lanes.waiting()) == (40, 10)
