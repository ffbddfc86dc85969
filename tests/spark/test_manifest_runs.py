"""Runs with a manifest, streams, and the form of the writer for Spark 3.5."""

import json
import threading
import time

import boto3
import pytest
from pyspark.errors import AnalysisException, PythonException

from lanes.errors import ConfigurationError
from spark_jobs import PartitionWriter, write_partitions

pytestmark = pytest.mark.xdist_group("spark")
# Spark leaves the socket of an RDD's results to the garbage collector.
SPARKS_SOCKETS = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)


def numbered(spark, count, *, partitions=2):
    """Make a table with ids 0, 1, 2 and so on."""
    return spark.range(count, numPartitions=partitions).selectExpr("struct(id AS n) AS data", "id")


def files(folder):
    """Give the contents of all files below a folder, by name."""
    return {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*.json*")}


def test_a_rerun_sends_only_what_is_missing(spark, lanes, more_lanes, tmp_path):
    """Partitioned in another way and to queues that know of nothing, rows that were sent stay away."""
    run = {"runId": "spring", "manifestPath": str(tmp_path)}

    lanes.write(numbered(spark, 50), **run)
    more_lanes.write(numbered(spark, 80, partitions=3), **run)

    assert sorted(event["data"]["n"] for _, event in lanes.take("MAIN")) == list(range(50))
    assert sorted(event["data"]["n"] for _, event in more_lanes.take("MAIN")) == list(range(50, 80))
    sessions = [json.loads(text) for name, text in files(tmp_path).items() if "/sessions/" in name]
    assert sorted((one["messages"], one["skipped"]) for one in sessions) == [(30, 50), (50, 0)]


def test_another_run_knows_nothing_of_the_first(spark, lanes, more_lanes, tmp_path):
    """A manifest belongs to its run."""
    lanes.write(numbered(spark, 20), runId="spring", manifestPath=str(tmp_path))
    more_lanes.write(numbered(spark, 20), runId="summer", manifestPath=str(tmp_path))

    assert more_lanes.waiting() == 20


def test_manifests_can_be_in_s3(spark, aws, lanes, more_lanes):
    """Workers need nothing of Hadoop for it."""
    boto3.client("s3", endpoint_url=aws.endpoint_url).create_bucket(
        Bucket="manifests", CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
    )
    run = {"runId": "spring", "manifestPath": "s3://manifests/of/jobs"}

    lanes.write(numbered(spark, 20), **run)
    more_lanes.write(numbered(spark, 30), **run)

    assert (lanes.waiting(), more_lanes.waiting()) == (20, 10)


def test_rows_that_cannot_be_sent_are_put_aside_with_reasons(spark, lanes, tmp_path):
    """The others are sent, and the account says how many were not."""
    table = spark.range(20, numPartitions=2).selectExpr(
        "struct(id AS n) AS data", "id", "if(id % 7 = 3, 'two words', 'fine') AS group"
    )

    lanes.write(table, runId="spring", manifestPath=str(tmp_path), onError="quarantine")

    kept = files(tmp_path)
    aside = [
        json.loads(line)
        for name, text in kept.items()
        if "/quarantine/" in name
        for line in text.splitlines()
    ]
    (session,) = [json.loads(text) for name, text in kept.items() if "/sessions/" in name]
    assert sorted(one["row"]["id"] for one in aside) == [3, 10, 17]
    assert all("group is 'two words'" in one["reason"] for one in aside)
    assert (session["messages"], session["quarantined"]) == (17, 3)
    assert lanes.waiting() == 17


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"runId": "spring"}, "options runId and manifestPath belong together"),
        ({"onError": "quarantine"}, "manifestPath is needed"),
        ({"onError": "ignore"}, "one of fail, quarantine is needed"),
        ({"ordering": "total"}, "one of group, none is needed"),
        ({"concurrency": "65"}, "option concurrency is '65'"),
        ({"maxBacklog": "0"}, "option maxBacklog is '0'"),
        ({"runId": "../up", "manifestPath": "x"}, "option runId is '../up'"),
        ({"runId": "r", "manifestPath": "hdfs://x/y"}, "option manifestPath is 'hdfs://x/y'"),
    ],
)
def test_options_that_cannot_work_are_refused_on_the_driver(spark, lanes, options, named):
    """The error names the option and what is allowed."""
    with pytest.raises(AnalysisException) as caught:
        lanes.write(numbered(spark, 1), **options)

    assert named in str(caught.value)


def test_few_groups_fill_batches_when_rows_are_independent(spark, aws, lanes):
    """With ordering `none` ten rows of one group go in one call."""
    aws.calls(reset=True)

    lanes.write(numbered(spark, 100), shards="2", ordering="none")

    calls = sum(counted.get("sqs.SendMessageBatch", 0) for counted in aws.calls().values())
    assert calls == 10
    assert lanes.waiting() == 100


def test_a_job_holds_back_while_enough_waits(spark, lanes):
    """It stops at about the bound and goes on when the lane has emptied."""
    taken, seen = [], []
    ended = threading.Event()

    def consume():
        while not ended.wait(0.2):
            seen.append(lanes.waiting())
            if seen[-1] >= 30:
                taken.extend(lanes.take("MAIN"))

    consumer = threading.Thread(target=consume)
    consumer.start()
    try:
        lanes.write(numbered(spark, 60), maxBacklog="30", maxTasks="2")
    finally:
        ended.set()
        consumer.join()

    taken += lanes.take("MAIN")
    assert max(seen) <= 50
    assert len(taken) == 60


def test_a_stream_is_written_batch_by_batch(spark, lanes, more_lanes, tmp_path):
    """Rows that come later are sent later, and a batch that is tried again sends only what is missing."""
    source = tmp_path / "source"
    source.mkdir()

    def stream(target):
        table = spark.readStream.schema("n INT").json(str(source))
        query = (
            table.selectExpr("struct(n) AS data", "n AS id")
            .writeStream.format("lanes")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .options(
                deployment=target.deployment.to_json(),
                endpointUrl=target.endpoint_url,
                kind="a.kind",
                runId="stream",
                manifestPath=str(tmp_path / "runs"),
            )
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    (source / "1.json").write_text('{"n": 1}\n{"n": 2}\n')
    stream(lanes)
    (source / "2.json").write_text('{"n": 3}\n')
    stream(lanes)
    # As after a crash between the last row and Spark's note of the batch.
    (tmp_path / "checkpoint" / "commits" / "1").unlink()
    (tmp_path / "checkpoint" / "commits" / ".1.crc").unlink(missing_ok=True)
    stream(more_lanes)

    assert sorted(event["data"]["n"] for _, event in lanes.take("MAIN")) == [1, 2, 3]
    assert more_lanes.waiting() == 0


@SPARKS_SOCKETS
def test_the_form_for_older_sparks_does_the_same(spark, lanes, more_lanes, tmp_path):
    """Ids, counts, manifest and skipping are those of the data source."""
    table = spark.range(50, numPartitions=2).selectExpr(
        "struct(id AS n, timestamp_seconds(id) AS at) AS data"
    )
    run = {"kind": "a.kind", "runId": "spring", "manifestPath": str(tmp_path)}
    where = {"deployment": more_lanes.deployment.to_json(), "endpointUrl": more_lanes.endpoint_url}

    lanes.write(table.where("data.n < 40"), **run)
    done = [write_partitions(table, run | where) for _ in range(2)]

    assert [(one["messages"], one["skipped"]) for one in done] == [(10, 40), (0, 50)]
    assert (lanes.waiting(), more_lanes.waiting()) == (40, 10)


@SPARKS_SOCKETS
def test_the_form_for_older_sparks_keeps_to_the_rate(spark, lanes):
    """The share of each task is found on the driver, since tasks do not see all settings."""
    options = {"deployment": lanes.deployment.to_json(), "endpointUrl": lanes.endpoint_url, "kind": "a.kind"}
    started = time.monotonic()

    write_partitions(numbered(spark, 40, partitions=4), options | {"maxSendRate": "20"})

    assert time.monotonic() - started >= 2.0
    assert lanes.waiting() == 40


@SPARKS_SOCKETS
def test_the_form_for_older_sparks_is_a_function_for_each_partition(spark, lanes):
    """It is made on the driver, where wrong options fail, and travels to the tasks."""
    table = spark.range(3).selectExpr("named_struct('n', id, 'on', array(named_struct('k', 1))) AS data")
    options = {"deployment": lanes.deployment.to_json(), "endpointUrl": lanes.endpoint_url, "kind": "a.kind"}

    table.foreachPartition(PartitionWriter.plan(table.schema, options))

    assert sorted(event["data"]["n"] for _, event in lanes.take("MAIN")) == [0, 1, 2]
    with pytest.raises(ConfigurationError, match="unknown option 'kin'"):
        PartitionWriter.plan(table.schema, {"deployment": lanes.deployment.to_json(), "kin": "a"})


def test_a_lane_that_is_not_there_fails_the_job_with_its_reason(spark, lanes):
    """The error names rows and the code of AWS."""
    deployment = json.loads(lanes.deployment.to_json())
    deployment["queues"]["MAIN"]["url"] += "-gone.fifo"

    with pytest.raises(
        PythonException, match=r"rows of partition \d could not be sent(.|\n)*NonExistentQueue|DoesNotExist"
    ):
        lanes.write(numbered(spark, 5), deployment=json.dumps(deployment))
