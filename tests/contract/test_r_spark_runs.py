"""R1 to R4 of a Spark job: its members are the messages that its manifest names, whichever task has sent them."""

import sys
from importlib import import_module

import boto3
import pytest
from pyspark.errors import StreamingQueryException

import spark_jobs
from lanes.aws.runs import DynamoDBRuns
from lanes.message import RUN, Message
from lanes.runs import End, Ends, Mark, State
from spark_jobs.partitions import WriteFailedError, write_partitions

OVER = "spring.over"


class Told:
    """The table of runs of these lanes, and a consumer that is done with every message."""

    def __init__(self, lanes):
        client = boto3.client("dynamodb", endpoint_url=lanes.endpoint_url)
        self.runs = DynamoDBRuns(table=lanes.deployment.table, client=client)
        self._lanes = lanes
        self.told = []
        self.handled = []

    def work(self):
        """Record the end of each message in MAIN, and delete it."""
        ends = Ends(table=self.runs, announce=self.told.append)
        url = self._lanes.deployment.queues["MAIN"].url
        while True:
            found = self._lanes.sqs.receive_message(
                QueueUrl=url, MaxNumberOfMessages=10, MessageAttributeNames=["All"]
            ).get("Messages", [])
            if not found:
                return
            for one in found:
                mark = Mark.parse(one["MessageAttributes"][RUN]["StringValue"])
                self.handled.append(Message.from_body(one["Body"]).id)
                ends.record(mark, Message.from_body(one["Body"]).identity, End.DONE)
                self._lanes.sqs.delete_message(QueueUrl=url, ReceiptHandle=one["ReceiptHandle"])


@pytest.fixture
def told(lanes):
    """Give the table and the consumer."""
    return Told(lanes)


@pytest.fixture
def follow(tmp_path):
    """Give the options of a run that is followed."""
    return {"runId": "spring", "manifestPath": str(tmp_path / "runs"), "follow": "true", "onComplete": OVER}


def numbered(spark, count, *, partitions=2):
    """Make a table with ids 0, 1, 2 and so on."""
    return spark.range(count, numPartitions=partitions).selectExpr("struct(id AS n) AS data", "id")


def test_the_end_of_a_table_is_told(spark, lanes, told, follow):
    """Equal rows of two partitions are one member; a rerun of the ended run sends nothing, and is a success."""
    table = numbered(spark, 30).union(numbered(spark, 5))

    write_partitions(table, lanes.options(**follow), count=80)

    head = told.runs.head("spring")
    assert (head.state, head.total, head.chunks) == (State.SEALED, 30, 2)
    told.work()
    assert [(one.kind, one.data["total"], one.data["done"], one.priority) for one in told.told] == [
        (OVER, 30, 30, -100)
    ]
    again = write_partitions(table, lanes.options(**follow))
    assert (again["messages"], again["skipped"], again["members"], lanes.waiting()) == (0, 35, 30, 0)


def test_a_rerun_seals_what_a_failed_session_has_sent(spark, lanes, told, follow):
    """The session fails for a row, and the rerun finds it mended."""
    table = numbered(spark, 60, partitions=3)
    bad = table.selectExpr("data", "id", "if(id = 59, 'two words', null) AS group")

    with pytest.raises(WriteFailedError, match="two words"):
        write_partitions(bad, lanes.options(**follow))
    told.work()
    assert (told.runs.head("spring").state, told.told) == (State.OPEN, [])

    mended = bad.selectExpr("data", "id", "replace(group, ' ') AS group")
    write_partitions(mended, lanes.options(**follow))

    told.work()
    assert [one.data["total"] for one in told.told] == [60]
    assert sorted(map(int, told.handled)) == list(range(60))


def test_the_rows_of_a_followed_write_are_counted(spark, lanes, told, follow):
    """A run of forty members has one chunk, and one of ten times as many as expected would cost five times as much."""
    write_partitions(numbered(spark, 45), lanes.options(**follow))

    assert told.runs.head("spring").chunks == 2


def test_the_example_sends_a_table_of_statements(spark, lanes, told, tmp_path, monkeypatch):
    """Word for word as on its page."""
    monkeypatch.setitem(sys.modules, "lanes_spark", spark_jobs)
    send_table = import_module("examples.statements_table").send_table
    customers = spark.range(12).selectExpr("concat('c-', id) AS customer")
    place = {name: text for name, text in lanes.options().items() if name != "kind"}

    send_table(customers, "2026-11", {**place, "manifestPath": str(tmp_path / "runs")})

    told.work()
    assert told.runs.head("statements-2026-11").chunks == 1
    assert [(one.kind, one.data["done"]) for one in told.told] == [("statements.sent", 12)]


def test_a_stream_is_refused(spark, lanes, told, follow, tmp_path):
    """By both of its writers: it has no end."""
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "1.json").write_text('{"n": 1}\n')
    table = spark.readStream.schema("n INT").json(str(tmp_path / "source")).selectExpr("struct(n) AS data")
    options = lanes.options(**follow)

    def start(writer, name):
        place = str(tmp_path / name)
        writer.option("checkpointLocation", place).trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(StreamingQueryException, match="a stream has no"):
        start(table.writeStream.format("lanes").options(**options), "one")
    with pytest.raises(StreamingQueryException, match="a stream has no"):
        start(table.writeStream.foreachBatch(lambda batch, _: lanes.write(batch, **follow)), "two")
    with pytest.raises(StreamingQueryException, match="a stream has no"):
        start(table.writeStream.foreachBatch(lambda batch, _: write_partitions(batch, options)), "three")
    assert lanes.waiting() == 0
