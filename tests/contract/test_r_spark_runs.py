"""R1 to R4 of a Spark job: its members are the messages that its manifest names, whichever task has sent them."""

import os
import signal

import boto3
import pytest
from pyspark import TaskContext
from pyspark.errors import PythonException, StreamingQueryException

from examples.statements_table import send_table
from lanes.aws.table.runs import DynamoDBRuns
from lanes.errors import RunError
from lanes.message import RUN, Message
from lanes.runs import End, Ends, Mark, State
from spark_jobs import following
from spark_jobs.enqueue import parser, run
from spark_jobs.failures import WriteFailedError
from spark_jobs.following import SharedSeal
from spark_jobs.partitions import PartitionWriter, write_partitions
from spark_jobs.source import LanesDataSource, LanesWriter

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

    lanes.write(table, **follow | {"expected": "80"})

    head = told.runs.head("spring")
    assert (head.state, head.total, head.chunks) == (State.SEALED, 30, 2)
    told.work()
    assert [(one.kind, one.data["total"], one.data["done"], one.priority) for one in told.told] == [
        (OVER, 30, 30, -100)
    ]
    again = write_partitions(table, lanes.options(**follow))
    assert (again["messages"], again["skipped"], again["members"], lanes.waiting()) == (0, 35, 30, 0)


class KilledWriter(LanesWriter):
    """Its first task is killed at its first attempt, when SQS has messages that the manifest does not name."""

    def write(self, iterator):
        """Send the rows."""
        context = TaskContext.get()
        first = context.partitionId() == context.attemptNumber() == 0
        return super().write(self._then_die(iterator) if first else iterator)

    @staticmethod
    def _then_die(batches):
        for batch in batches:
            yield batch.slice(0, 10)
            os.kill(os.getpid(), signal.SIGKILL)


class KilledDataSource(LanesDataSource):
    """The data source with this writer."""

    @classmethod
    def name(cls):
        """Give its name."""
        return "killed"

    def writer(self, schema, overwrite):
        """Give the writer."""
        writer = super().writer(schema, overwrite)
        writer.__class__ = KilledWriter
        return writer


def test_a_rerun_seals_what_killed_tasks_and_a_failed_session_have_sent(spark, lanes, told, follow):
    """A task that was killed is tried again; the session fails for a row, and the rerun finds it mended."""
    spark.dataSource.register(KilledDataSource)
    follow["expected"] = "80"
    table = numbered(spark, 60, partitions=3)
    bad = table.selectExpr("data", "id", "if(id = 59, 'two words', null) AS group")

    with pytest.raises(PythonException, match="two words"):
        lanes.write(bad, "killed", **follow)
    told.work()
    assert (told.runs.head("spring").state, told.told) == (State.OPEN, [])

    lanes.write(bad.selectExpr("data", "id", "replace(group, ' ') AS group"), "killed", **follow)

    told.work()
    assert [one.data["total"] for one in told.told] == [60]
    assert sorted(map(int, told.handled)) == list(range(60))


def test_a_table_in_parts_is_one_run(spark, lanes, told, tmp_path, monkeypatch):
    """Its members are those of all parts, and it is sealed after the last."""
    path = tmp_path / "rows.json"
    path.write_text("n\n" + "".join(f"{number}\n" for number in range(45)))
    monkeypatch.setattr("spark_jobs.ranges.ROWS_PER_PART", 20)
    where = ["--deployment", lanes.deployment.to_json(), "--endpoint-url", lanes.endpoint_url]
    of_run = ["--run", "parts", "--manifest", str(tmp_path / "runs"), "--follow", "--on-complete", OVER]
    asked = ["--table", str(path), "--format", "csv", "--kind", "a.kind", "--id", "n"]

    done = run(spark, parser().parse_args([*asked, *where, *of_run, "--split-by", "n"]))

    assert (done["parts"], done["members"]) == (3, 45)
    assert told.runs.head("parts").chunks == 2
    told.work()
    assert [one.data["done"] for one in told.told] == [45]


def test_the_rows_of_a_followed_write_are_counted(spark, lanes, told, follow):
    """A run of forty members has one chunk, and one of ten times as many as expected would cost five times as much."""
    write_partitions(numbered(spark, 45), lanes.options(**follow))

    assert told.runs.head("spring").chunks == 2


def test_a_function_for_each_partition_is_sealed_by_its_block(spark, lanes, told, follow):
    """After success alone."""
    table = numbered(spark, 8)

    def send(then=lambda: None):
        with PartitionWriter.plan(table.schema, lanes.options(**follow | {"expected": "8"})) as write:
            table.foreachPartition(write)
            then()

    with pytest.raises(ZeroDivisionError):
        send(lambda: 1 / 0)
    assert told.runs.head("spring").state is State.OPEN

    send()

    told.work()
    assert [one.data["done"] for one in told.told] == [8]


def test_the_example_sends_a_table_of_statements(spark, lanes, told, tmp_path):
    """Word for word as on its page."""
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

    with pytest.raises(StreamingQueryException, match="a stream has no end"):
        start(table.writeStream.format("lanes").options(**options), "one")
    with pytest.raises(StreamingQueryException, match="a stream has no end"):
        start(table.writeStream.foreachBatch(lambda batch, _: lanes.write(batch, **follow)), "two")
    with pytest.raises(StreamingQueryException, match="a stream has no end"):
        start(table.writeStream.foreachBatch(lambda batch, _: write_partitions(batch, options)), "three")
    assert lanes.waiting() == 0


class KilledSeal(SharedSeal):
    """Each of its tasks is killed at its first attempt, when it has sealed two chunks."""

    def write(self, share, lists, counted):
        """Write the members of a share."""
        if TaskContext.get().attemptNumber() == 0:
            everything = following.chunks_of

            def two_of(members, indexes):
                yield from list(everything(members, indexes))[:2]
                os.kill(os.getpid(), signal.SIGKILL)

            following.chunks_of = two_of
        super().write(share, lists, counted)


class RefusedSeal(SharedSeal):
    """The tasks of its second share fail whenever they are tried."""

    def write(self, share, lists, counted):
        """Write the members of a share."""
        if share == 1:
            raise RunError("no answer")
        super().write(share, lists, counted)


@pytest.fixture
def shared(monkeypatch, spark, lanes, follow):
    """
    Write sixty messages in three partitions, whose seal tasks share: twenty each, in 40 chunks, some without a member.

    `by` is the class of the seal; None leaves it to the driver.
    """

    def write(by=SharedSeal):
        monkeypatch.setattr(following, "SHARED_FROM", 10**9 if by is None else 1)
        monkeypatch.setattr(following, "SHARE", 20)
        monkeypatch.setattr(following, "SharedSeal", by)
        table = numbered(spark, 60, partitions=3)
        return write_partitions(table, lanes.options(**follow | {"expected": "1600"}))

    return write


@pytest.mark.parametrize("seal", [SharedSeal, KilledSeal])
def test_tasks_share_the_seal(told, shared, seal):
    """Each has a range of the chunks; one that is killed is tried again."""
    assert shared(seal)["members"] == 60

    head = told.runs.head("spring")
    assert (head.state, head.total, head.chunks) == (State.SEALED, 60, 40)
    told.work()
    assert [(one.kind, one.data["done"]) for one in told.told] == [(OVER, 60)]


def test_a_task_that_finds_all_members_ended_announces_the_end(told, lanes, shared, monkeypatch):
    """It sends the message itself."""
    write = SharedSeal._write

    def late(self, *given):
        told.work()
        write(self, *given)

    monkeypatch.setattr(SharedSeal, "_write", late)

    shared()

    head = told.runs.head("spring")
    assert head.state is State.ENDED
    assert head.announced_at
    assert (told.told, lanes.waiting()) == ([], 1)


@pytest.mark.parametrize("rerun", [None, SharedSeal])
def test_a_seal_whose_task_fails_is_not_ended_and_a_rerun_finishes_it(told, shared, rerun):
    """By tasks again or by the driver: both find the same members."""
    with pytest.raises(WriteFailedError, match="no answer"):
        shared(RefusedSeal)
    told.work()
    head = told.runs.head("spring")
    assert (head.state, head.total, told.told) == (State.SEALING, 60, [])

    assert shared(rerun)["skipped"] == 60

    assert told.runs.head("spring").state is State.ENDED


def test_a_driver_that_dies_during_a_shared_seal_is_followed_by_a_rerun(told, shared, monkeypatch):
    """Whatever it had reached: nothing of it is harmful twice."""
    for step in ("fix_members", "end_seal"):
        with monkeypatch.context() as dying:
            dying.setattr(following, step, lambda *_, **__: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                shared()
        assert told.runs.head("spring").sealed_at == 0

    shared()

    told.work()
    assert [one.data["done"] for one in told.told] == [60]
