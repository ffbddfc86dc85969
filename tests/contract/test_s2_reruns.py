"""
S2, reruns.

Ids are derived from the row, so a task or job that runs again produces the same ones: SQS drops the repeat within five
minutes, the consumer's idempotency after that. A manifest in the output path records what each partition sent; a job
that runs again with the same run id skips what is recorded. A row that can't be sent fails the job, or with
`onError=quarantine` is written beside the manifest and counted.
"""

import json

import boto3
import pytest
from pyspark import TaskContext
from pyspark.errors import PythonException

from spark_jobs.manifest.run import RunManifest
from spark_jobs.options import WriterOptions
from spark_jobs.partitions import WriteFailedError, write_partitions
from spark_jobs.source import LanesDataSource, LanesWriter


def counts_of(options):
    """Give the counts of a run."""
    read = WriterOptions.from_options(options)
    return RunManifest(storage=read.storage(), run_id=read.run_id, session="").counts()


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


@pytest.mark.deep
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


def test_a_stream_is_written_batch_by_batch(spark, lanes, more_lanes, tmp_path):
    """New rows are sent when they arrive, and a retried batch sends only its missing rows."""
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


@pytest.mark.deep
def test_a_stream_with_a_new_checkpoint_sends_its_rows_again(spark, lanes, more_lanes, tmp_path):
    """The numbers of its batches restart, and none of them is taken for a batch of the old checkpoint."""
    source = tmp_path / "source"
    source.mkdir()
    run = {"runId": "stream", "manifestPath": str(tmp_path / "runs")}

    def stream(target, checkpoint):
        table = spark.readStream.schema("n INT").json(str(source)).selectExpr("struct(n) AS data", "n AS id")
        writer = table.writeStream.format("lanes").options(**target.options(**run))
        writer = writer.option("checkpointLocation", str(tmp_path / checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()

    for number in (1, 2):
        (source / f"{number}.json").write_text(f'{{"n": {number}}}\n')
        stream(lanes, "old")
    (source / "3.json").write_text('{"n": 3}\n')
    stream(more_lanes, "new")

    assert sorted(event["data"]["n"] for _, event in lanes.take("MAIN")) == [1, 2]
    assert sorted(event["data"]["n"] for _, event in more_lanes.take("MAIN")) == [1, 2, 3]
    assert counts_of(lanes.options(**run)).sent == 5


def test_a_batch_of_a_stream_can_be_written_by_a_function(spark, lanes, tmp_path):
    """It takes no session: a query that was killed in a batch restarts by itself."""
    source = tmp_path / "source"
    source.mkdir()
    options = lanes.options(runId="stream", manifestPath=str(tmp_path / "runs"))
    table = spark.readStream.schema("n INT").json(str(source)).selectExpr("struct(n) AS data", "n AS id")
    writer = table.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer = writer.foreachBatch(lambda batch, _: write_partitions(batch, options))

    for number in (1, 2):
        (source / f"{number}.json").write_text(f'{{"n": {number}}}\n')
        writer.trigger(availableNow=True).start().awaitTermination()

    assert sorted(event["data"]["n"] for _, event in lanes.take("MAIN")) == [1, 2]
    assert counts_of(options).sent == 2
    assert not list((tmp_path / "runs").rglob("begun"))


def test_a_lane_that_is_not_there_fails_the_job_with_its_reason(spark, lanes):
    """The error names rows and the code of AWS."""
    deployment = json.loads(lanes.deployment.to_json())
    deployment["queues"]["MAIN"]["url"] += "-gone.fifo"

    with pytest.raises(
        PythonException, match=r"rows of partition \d could not be sent(.|\n)*NonExistentQueue|DoesNotExist"
    ):
        lanes.write(numbered(spark, 5), deployment=json.dumps(deployment))


def test_a_table_written_twice_arrives_once(spark, lanes):
    """Ids are derived from the rows, so SQS drops the repeats of a second run, however it is partitioned."""
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


def test_a_row_that_cannot_be_sent_fails_the_job(spark, lanes):
    """The error names the row and the rule that it breaks."""
    table = spark.range(1, 6, numPartitions=1).selectExpr(
        "'1' AS data", "if(id = 4, 'two words', 'fine') AS group", "id"
    )

    with pytest.raises(PythonException, match=r"row 4 of partition 0 .*group is 'two words'"):
        lanes.write(table)

    assert lanes.waiting() == 0


@pytest.mark.deep
def test_the_function_for_older_sparks_fails_with_the_reason_in_python(spark, lanes, tmp_path):
    """Not with Java's trace; the manifest has the reason too, and the next session may begin."""
    table = spark.range(1, 6, numPartitions=1).selectExpr(
        "'1' AS data", "if(id = 4, 'two words', 'fine') AS group", "id"
    )
    options = lanes.options(runId="spring", manifestPath=str(tmp_path))

    for _ in range(2):
        with pytest.raises(WriteFailedError, match=r"row 4 of partition 0 .*group is 'two words'") as failed:
            write_partitions(table, options)

    assert "\tat " not in str(failed.value)
    sessions = [json.loads(text) for name, text in files(tmp_path).items() if "/sessions/" in name]
    assert len(sessions) == 2
    assert failed.value.summary in sessions
    for one in sessions:
        assert "group is 'two words'" in one["reason"]
        assert (one["messages"], one["skipped"], one["quarantined"]) == (0, 0, 0)
        assert one["bad_row"]["row"] == {"data": "1", "group": "two words", "id": 4}


@pytest.mark.deep
def test_a_failed_session_has_the_counts_of_all_its_tries(spark, lanes, tmp_path):
    """Also those of partitions that ended well; the bad row is named."""
    table = spark.range(2000, numPartitions=2).selectExpr("if(id = 1900, 'NaN', '1') AS data", "id")
    run = {"runId": "spring", "manifestPath": str(tmp_path)}
    lanes.write(table.where("id < 5"), **run)

    with pytest.raises(PythonException):
        lanes.write(table, **run)

    (failed,) = [
        one for text in files(tmp_path / "spring/sessions").values() if "reason" in (one := json.loads(text))
    ]
    assert failed["messages"] == lanes.waiting() - 5 > 0
    assert (failed["skipped"], failed["quarantined"]) == (5, 0)
    assert (failed["bad_row"]["partition"], failed["bad_row"]["row"]["id"]) == (1, 1900)


@pytest.mark.deep
def test_a_row_set_aside_in_each_start_counts_once_until_it_is_mended(spark, lanes, tmp_path):
    """A try that failed has set it aside too."""
    run = {"runId": "spring", "manifestPath": str(tmp_path), "onError": "quarantine"}

    def counts(expression):
        lanes.write(spark.range(30, numPartitions=2).selectExpr(f"{expression} AS data", "id"), **run)
        return counts_of(lanes.options(**run))

    assert [counts("if(id % 10 = 3, '{', '1')") for _ in range(3)] == [(27, 3)] * 3
    assert counts("'1'") == (30, 0)
