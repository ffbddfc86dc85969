"""Ways to enqueue the same rows: this product's writer, boto3 with full batches, and the tutorials' loop."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import boto3
import pyarrow as pa
from botocore.exceptions import ClientError

from lanes.aws.clients import Clients
from lanes.aws.queues.batch_calls import open_calls
from lanes.config import LanesConfig
from lanes.config.deployment import Deployment, LaneQueues
from spark_jobs.rows.arrow import rows_of_batches
from spark_jobs.rows.reader import RowReader
from spark_jobs.sending.pace import SendPace
from spark_jobs.sending.task import SendingTask
from spark_jobs.sending.window import CONCURRENCY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from mypy_boto3_sqs import SQSClient

THREADS = 8
REGION = "eu-central-1"
QUEUE_URL = f"https://sqs.{REGION}.amazonaws.com/123456789012/PriorityLanes-MAIN.fifo"
LANES = {"lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MEDIUM", "threshold": 0}, {"name": "MAIN"}]}
BATCH_ROWS = 10_000


def deployment() -> Deployment:
    """Describe lanes with one queue."""
    config = LanesConfig.from_dict(LANES)
    queues = {lane.name: LaneQueues(url=QUEUE_URL, dead_letter_url=QUEUE_URL) for lane in config.lanes}
    return Deployment(config=config, queues=queues, table="ledger")


def lanes_writer(batches: Iterable[pa.RecordBatch], endpoint_url: str) -> int:
    """Send as a task of the writer does, with its defaults, and give the number of messages."""
    clients = Clients(region=REGION, endpoint_url=endpoint_url)
    calls = open_calls(clients, concurrency=CONCURRENCY, deployment=deployment())
    task = SendingTask(
        partition=0,
        reader=RowReader(kind="customer.loyalty_tier", priority=-100),
        deployment=deployment(),
        calls=calls,
        pace=SendPace(),
    )
    sent = task.send(rows_of_batches(iter(batches))).lanes.total()
    calls.close()
    return sent


def boto3_batch(batches: Iterable[pa.RecordBatch], endpoint_url: str) -> int:
    """Send full batches of ten through boto3's client, one call after the other."""
    client = boto3.client("sqs", region_name=REGION, endpoint_url=endpoint_url)
    return sum(_send_batch(client, rows) for rows in _tens(batches))


def boto3_threads(batches: Iterable[pa.RecordBatch], endpoint_url: str) -> int:
    """Send full batches of ten through boto3's client in eight threads; a batch that was given up is sent again."""
    client = boto3.client("sqs", region_name=REGION, endpoint_url=endpoint_url)

    def send(rows: list[dict[str, Any]]) -> int:
        while True:
            try:
                return _send_batch(client, rows)
            except ClientError as error:
                if error.response["Error"]["Code"] != "RequestThrottled":
                    raise

    with ThreadPoolExecutor(THREADS) as threads:
        return sum(threads.map(send, _tens(batches)))


def _tens(batches: Iterable[pa.RecordBatch]) -> list[list[dict[str, Any]]]:
    table = list(_rows(batches))
    return [table[start : start + 10] for start in range(0, len(table), 10)]


def _send_batch(client: SQSClient, rows: list[dict[str, Any]]) -> int:
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
    return len(entries)


def tutorial_loop(batches: Iterable[pa.RecordBatch], endpoint_url: str) -> int:
    """Send each row by a call of its own, as `foreach` with `send_message` does."""
    client = boto3.client("sqs", region_name=REGION, endpoint_url=endpoint_url)
    sent = 0
    for sent, row in enumerate(_rows(batches), start=1):  # noqa: B007 - the last number is the count
        client.send_message(
            QueueUrl=QUEUE_URL,
            MessageBody=cloud_event(row),
            MessageGroupId=row["group"],
            MessageDeduplicationId=row["id"],
        )
    return sent


def _rows(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    for batch in batches:
        yield from batch.to_pylist()


def record_batches(rows: int) -> Iterator[pa.RecordBatch]:
    """Give so many rows as Spark hands them to a writer: an id, a group each, a struct of about 300 bytes."""
    for start in range(0, rows, BATCH_ROWS):
        numbers = range(start, min(rows, start + BATCH_ROWS))
        customers = [f"c-{number:09d}" for number in numbers]
        data = [
            {"customer_id": one, "tier": "gold", "orders": 12, "spent_cents": 98_765, "note": "x" * 180}
            for one in customers
        ]
        yield pa.RecordBatch.from_pydict(
            {"data": data, "id": [f"spring:{one}" for one in customers], "group": customers}
        )


def cloud_event(row: dict[str, Any]) -> str:
    """Write the body that a hand-made loop would send for a row."""
    return json.dumps(
        {
            "specversion": "1.0",
            "id": row["id"],
            "source": "spark",
            "type": "customer.loyalty_tier",
            "time": "2026-01-02T03:04:05.678901+00:00",
            "datacontenttype": "application/json",
            "data": row["data"],
            "priority": -100,
        },
        separators=(",", ":"),
    )
