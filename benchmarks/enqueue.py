"""
The speed of bulk sending beside boto3 and the tutorials' loop: `python -m benchmarks.enqueue`.

All send the same rows over plain HTTP to an endpoint in a process of its own. First it answers at once, and the figures
are CPU time of the sending process. Then each answer takes 10 ms, without a limit and with one beyond which it
throttles as SQS does, and the figures are by the clock, over boto3 with eight threads and its default retries. The
senders take turns, and medians are compared. The peak memory is that of a process that only sends one partition.

In Spark, 200 partitions of ten rows take turns with 200 of Spark's own Python tasks that read their rows, and 8 and 40
partitions send at a limited rate, both by the clock from the start of the job to its end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import boto3
import pyarrow as pa
from botocore.exceptions import ClientError

from benchmarks.figures import Row, least, most, show
from lanes.aws.batch_calls import open_calls
from lanes.aws.clients import Clients
from lanes.config import LanesConfig
from lanes.config.deployment import Deployment, LaneQueues
from spark_jobs.arrow import rows_of_batches
from spark_jobs.pace import SendPace
from spark_jobs.rows import RowReader
from spark_jobs.sending import CONCURRENCY, SendingTask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from mypy_boto3_sqs import SQSClient
    from pyspark.sql import DataFrame, SparkSession

    Table = Iterable[pa.RecordBatch]
    Sender = Callable[[Table, str], None]

KIND, REGION, THREADS, BATCH_ROWS = "customer.loyalty_tier", "eu-central-1", 8, 10_000
QUEUE_URL = f"https://sqs.{REGION}.amazonaws.com/123456789012/PriorityLanes-MAIN.fifo"
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "AKIDBENCHMARK", "AWS_SECRET_ACCESS_KEY": "x" * 40}
LATENCY, LIMIT = 0.01, 60.0
"""Seconds of a call within a region, and calls a second beyond which it is throttled."""

MEGABYTES, WORKER_ROWS = 200, 200_000
PARTITIONS, ROWS_EACH, RATE, RATED_PARTITIONS = 200, 10, 500, (8, 40)


def deployment() -> Deployment:
    """Return lanes with one queue."""
    config = LanesConfig.from_dict({})
    queues = {lane.name: LaneQueues(url=QUEUE_URL, dead_letter_url=QUEUE_URL) for lane in config.lanes}
    return Deployment(config=config, queues=queues, table="ledger")


def lanes_writer(table: Table, endpoint_url: str) -> None:
    """Send as a task of the writer does, with its defaults."""
    clients = Clients(region=REGION, endpoint_url=endpoint_url)
    calls = open_calls(clients, concurrency=CONCURRENCY, deployment=deployment())
    task = SendingTask(
        partition=0,
        reader=RowReader(kind=KIND, priority=-100),
        deployment=deployment(),
        calls=calls,
        pace=SendPace(),
    )
    task.send(rows_of_batches(iter(table)))
    calls.close()


def boto3_batch(table: Table, endpoint_url: str) -> None:
    """Send full batches of ten through boto3's client, one call after the other."""
    client = _client(endpoint_url)
    for rows in _tens(table):
        _send_batch(client, rows)


def boto3_threads(table: Table, endpoint_url: str) -> None:
    """Send full batches of ten through boto3's client in eight threads; a batch that was given up is sent again."""
    client = _client(endpoint_url)

    def send(rows: list[dict[str, Any]]) -> None:
        while True:
            try:
                return _send_batch(client, rows)
            except ClientError as error:
                if error.response["Error"]["Code"] != "RequestThrottled":
                    raise

    with ThreadPoolExecutor(THREADS) as threads:
        list(threads.map(send, _tens(table)))


def tutorial_loop(table: Table, endpoint_url: str) -> None:
    """Send each row by a call of its own, as `foreach` with `send_message` does."""
    client = _client(endpoint_url)
    for rows in _tens(table):
        for row in rows:
            client.send_message(
                QueueUrl=QUEUE_URL,
                MessageBody=cloud_event(row),
                MessageGroupId=row["group"],
                MessageDeduplicationId=row["id"],
            )


def _client(endpoint_url: str) -> SQSClient:
    return boto3.client("sqs", region_name=REGION, endpoint_url=endpoint_url)


def _tens(table: Table) -> list[list[dict[str, Any]]]:
    rows = [row for batch in table for row in batch.to_pylist()]
    return [rows[start : start + 10] for start in range(0, len(rows), 10)]


def _send_batch(client: SQSClient, rows: list[dict[str, Any]]) -> None:
    entries: Any = [
        {
            "Id": str(place),
            "MessageBody": cloud_event(row),
            "MessageGroupId": row["group"],
            "MessageDeduplicationId": row["id"],
        }
        for place, row in enumerate(rows)
    ]
    answer = client.send_message_batch(QueueUrl=QUEUE_URL, Entries=entries)
    if len(answer["Successful"]) != len(entries):
        raise RuntimeError(json.dumps(answer, default=str))


def record_batches(rows: int) -> Iterator[pa.RecordBatch]:
    """Yield so many rows as Spark hands them to a writer: an id, a group each, a struct of about 300 bytes."""
    for start in range(0, rows, BATCH_ROWS):
        customers = [f"c-{number:09d}" for number in range(start, min(rows, start + BATCH_ROWS))]
        data = [
            {"customer_id": one, "tier": "gold", "orders": 12, "spent_cents": 98_765, "note": "x" * 180}
            for one in customers
        ]
        columns = {"data": data, "id": [f"spring:{one}" for one in customers], "group": customers}
        yield pa.RecordBatch.from_pydict(columns)


def cloud_event(row: dict[str, Any]) -> str:
    """Write the body that a hand-made loop would send for a row."""
    return json.dumps(
        {
            "specversion": "1.0",
            "id": row["id"],
            "source": "spark",
            "type": KIND,
            "time": "2026-01-02T03:04:05.678901+00:00",
            "datacontenttype": "application/json",
            "data": row["data"],
            "priority": -100,
        },
        separators=(",", ":"),
    )


def rates(
    senders: Mapping[Sender, int],
    url: str,
    *,
    turns: int,
    clock: Callable[[], float],
) -> dict[str, list[float]]:
    """Return the messages a second of each turn by sender; each sends so many rows."""
    found: dict[str, list[float]] = {}
    for send in senders:
        send(record_batches(100), url)
    for _ in range(turns):
        for send, rows in senders.items():
            table = list(record_batches(rows))
            began = clock()
            send(table, url)
            found.setdefault(send.__name__, []).append(rows / (clock() - began))
    return found


def over(found: dict[str, list[float]], other: str) -> float:
    """Return the median ratio of the writer to another sender."""
    pairs = zip(found["lanes_writer"], found[other], strict=True)
    return statistics.median(ours / theirs for ours, theirs in pairs)


def measure(turns: int, rows: int) -> Iterator[Row]:
    """Take all turns and yield the rows of the table."""
    with endpoint() as url:
        senders: dict[Sender, int] = {lanes_writer: rows, boto3_batch: rows // 5, tutorial_loop: rows // 40}
        found = rates(senders, url, turns=turns, clock=time.process_time)
        yield _row("CPU, over boto3's full batches", found, least(over(found, "boto3_batch"), 5))
        yield _row("CPU, over the tutorials' loop", found, least(over(found, "tutorial_loop"), 25))
        yield {"case": f"MB of {WORKER_ROWS:,} rows", "figure": most(worker_peak_mb(url), MEGABYTES)}
    by_clock: dict[Sender, int] = {lanes_writer: 2 * rows, boto3_threads: 2 * rows}
    with endpoint(latency=LATENCY) as url:
        found = rates(by_clock, url, turns=turns, clock=time.perf_counter)
        yield _row("clock at 10 ms, over boto3's 8 threads", found, least(over(found, "boto3_threads"), 3))
    with endpoint(latency=LATENCY, limit=LIMIT) as url:
        # A turn is longer than the pauses of its retries.
        throttled = dict.fromkeys(by_clock, int(LIMIT * 100 * min(1.0, rows / 20_000)))
        found = rates(throttled, url, turns=turns, clock=time.perf_counter)
        yield _row("clock, throttled, over boto3's 8 threads", found, least(over(found, "boto3_threads"), 1))
    with endpoint() as url:
        yield from spark_rows(url, turns, rated=rows // 2)


def _row(case: str, found: dict[str, list[float]], figure: Any) -> Row:
    return {
        "case": case,
        "messages a second": round(statistics.median(found["lanes_writer"])),
        "figure": figure,
    }


def worker_peak_mb(url: str) -> float:
    """Return the peak memory of a process that sends one partition."""
    command = [sys.executable, "-m", "benchmarks.enqueue", "--worker", url]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return float(done.stdout.splitlines()[-1])


def spark_rows(url: str, turns: int, *, rated: int) -> Iterator[Row]:
    """Yield the rows of tasks in Spark: their fixed cost over Spark's own, and the mean of a limited rate."""
    from spark_jobs import LanesDataSource
    from spark_jobs.session import open_session

    spark = open_session("benchmark")
    try:
        spark.dataSource.register(LanesDataSource)
        table = _table(spark, PARTITIONS * ROWS_EACH, PARTITIONS)
        ratios = []
        for _ in range(turns + 1):
            ours = _seconds(lambda: _send(table, url))
            ratios.append(ours / _seconds(lambda: table.rdd.foreachPartition(_read)))
        # The first turn starts the workers.
        yield {"case": "Spark's tasks, over empty ones", "figure": most(statistics.median(ratios[1:]), 1.3)}
        for partitions in RATED_PARTITIONS:
            send = partial(_send, _table(spark, rated, partitions), url, maxSendRate=str(RATE))
            mean = rated / _seconds(send) / RATE
            case = f"Spark, {partitions} partitions, of their rate"
            yield {"case": case, "figure": least(mean, 0.9), "at most": most(mean, 1.0)}
    finally:
        spark.stop()


def _read(rows: Iterable[object]) -> None:
    for _ in rows:
        pass


def _seconds(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def _table(spark: SparkSession, rows: int, partitions: int) -> DataFrame:
    return spark.range(rows, numPartitions=partitions).selectExpr("struct(id AS n) AS data", "id")


def _send(table: DataFrame, url: str, **more: Any) -> None:
    options = {"deployment": deployment().to_json(), "region": REGION, "endpointUrl": url}
    table.write.format("lanes").mode("append").options(**options, kind="a.kind", **more).save()


@contextmanager
def endpoint(*, latency: float = 0.0, limit: float = 0.0) -> Iterator[str]:
    """Run the endpoint in a process of its own; each answer takes some seconds, of at most so many calls a second."""
    command = [sys.executable, "-m", "benchmarks.enqueue", "--serve", str(latency), str(limit)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None  # noqa: S101 - asked for above
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def _response(body: dict[str, object], status: str = "200 OK") -> bytes:
    text = json.dumps(body).encode()
    head = (
        f"HTTP/1.1 {status}\r\nx-amzn-RequestId: 5f4bb2a1-3c52-5b6e-8e0f-e0b8b8a1a6aa\r\n"
        "Date: Fri, 02 Jan 2026 03:04:05 GMT\r\nContent-Type: application/x-amz-json-1.0\r\n"
        f"Content-Length: {len(text)}\r\nconnection: keep-alive\r\n\r\n"
    )
    return head.encode() + text


SENT = {
    "MessageId": "219f8380-5770-4cc2-8c3e-5c715e145f5e",
    "MD5OfMessageBody": "5d41402abc4b2a76b9719d911017c592",
    "SequenceNumber": "18849496460467696128",
}
ONE = _response(dict(SENT))
# AWS: a call beyond the quota of a queue (Amazon SQS API Reference, "Common Errors").
THROTTLED = _response(
    {"__type": "com.amazonaws.sqs#RequestThrottled", "message": "Request is throttled."}, "400 Bad Request"
)
# Quotation marks inside of a body are escaped, so nothing there looks like this.
ENTRY_ID = re.compile(rb'"Id": "([^"]*)"')
LENGTH = re.compile(rb"content-length:\s*(\d+)")


@cache
def _sent_batch(size: int, id_bytes: int) -> tuple[bytes, ...]:
    """Return the answer to a batch in the pieces between its ids, which are all of one length."""
    mark = "?" * id_bytes
    return tuple(_response({"Successful": [{"Id": mark, **SENT}] * size}).split(mark.encode()))


def _answer(ids: list[bytes]) -> bytes:
    first, *others = _sent_batch(len(ids), len(ids[0]))
    return first + b"".join(one + piece for one, piece in zip(ids, others, strict=True))


class Calls(asyncio.Protocol):
    """Answers the calls of one connection; of a limit, a tenth of a second's calls may come at once."""

    left, at = 0.0, 0.0

    def __init__(self, latency: float, limit: float) -> None:
        self._buffer = bytearray()
        self._latency = latency
        self._limit = limit

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep where answers go."""
        assert isinstance(transport, asyncio.WriteTransport)  # noqa: S101 - a connection is one
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer the requests received in full."""
        self._buffer += data
        while (end := self._buffer.find(b"\r\n\r\n") + 4) > 3:  # noqa: PLR2004 - found
            head = bytes(self._buffer[:end]).lower()
            found = LENGTH.search(head)
            whole = end + int(found[1] if found else 0)
            if len(self._buffer) < whole:
                return
            body = bytes(self._buffer[end:whole])
            del self._buffer[:whole]
            answer = _answer(ENTRY_ID.findall(body)) if b"sendmessagebatch" in head else ONE
            answer = answer if self._allows() else THROTTLED
            if self._latency:
                asyncio.get_running_loop().call_later(self._latency, self._transport.write, answer)
            else:
                self._transport.write(answer)

    def _allows(self) -> bool:
        """Count a call of any connection; return whether it is within the limit."""
        if not self._limit:
            return True
        now = time.monotonic()
        Calls.left = min(self._limit / 10, Calls.left + (now - Calls.at) * self._limit)
        Calls.at = now
        is_within = Calls.left >= 1
        Calls.left -= is_within
        return is_within


async def serve(latency: float, limit: float) -> None:
    """Serve until the process ends; the port is the first line printed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Calls(latency, limit), "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


def main() -> None:
    """Measure and print; or serve, or send one partition and print the peak memory."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.enqueue", description="The speed of bulk sending."
    )
    parser.add_argument("--json", action="store_true", help="print the JSON line only")
    parser.add_argument("--turns", type=int, default=7, help="turns of each sender (default 7)")
    parser.add_argument("--rows", type=int, default=20_000, help="rows of a turn (default 20000)")
    parser.add_argument("--serve", nargs=2, type=float, help=argparse.SUPPRESS)
    parser.add_argument("--worker", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    os.environ.update(CREDENTIALS)
    if options.serve:
        asyncio.run(serve(*options.serve))
    elif options.worker:
        lanes_writer(record_batches(WORKER_ROWS), options.worker)
        # Linux counts in KiB, macOS in bytes.
        unit = 2**20 if sys.platform == "darwin" else 2**10
        sys.stdout.write(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit:.1f}\n")
    else:
        show("enqueue", list(measure(options.turns, options.rows)), only_json=options.json)


if __name__ == "__main__":
    main()
