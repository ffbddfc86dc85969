"""Where golden files come from: parts of the product on DynamoDB in moto and a client of SQS that keeps its calls."""

from __future__ import annotations

import io
import itertools
import json
import re

import boto3
from botocore.exceptions import ClientError

from lanes import Producer
from lanes.aws.outbox_telemetry import PowertoolsRelayTelemetry
from lanes.aws.sending import SqsSender
from lanes.config import LanesConfig
from lanes.config.deployment import Deployment, LaneQueues
from lanes.outbox import DynamoOutbox
from lanes.outbox.dynamodb.store import DynamoDBOutboxStore
from lanes.outbox.dynamodb.table import create_table
from lanes.outbox.entry import Positions
from lanes.outbox.relay import Relay
from lanes.producer import Pacing
from lanes.producer.sending import ThreadedCalls
from spark_jobs.pace import SendPace
from spark_jobs.rows import RowReader
from spark_jobs.sending import SendingTask

TABLE, OUTBOX = "ledger", "outbox"
CONFIG = LanesConfig()
LANES = {
    lane.name: LaneQueues(
        url=f"https://sqs/1/{lane.name}.fifo", dead_letter_url=f"https://sqs/1/{lane.name}-dead.fifo"
    )
    for lane in CONFIG.lanes
}
DEPLOYMENT = Deployment(config=CONFIG, queues=LANES, table=TABLE, outbox=OUTBOX)


class Sqs:
    """A client of SQS that takes everything in, unless `broken`, and keeps the calls."""

    def __init__(self):
        self.calls = []
        self.broken = False
        self._numbers = itertools.count(1)

    def send_message_batch(self, **wire):
        """Take in up to ten."""
        if self.broken:
            error = {"Code": "InternalError", "Message": "broken by the test"}
            raise ClientError({"Error": error}, "SendMessageBatch")
        self.calls.append(("SendMessageBatch", wire))
        numbers = {entry["Id"]: next(self._numbers) for entry in wire["Entries"]}
        taken = [
            {"Id": name, "MessageId": f"sqs-{number}", "SequenceNumber": str(number)}
            for name, number in numbers.items()
        ]
        return {"Successful": taken, "Failed": []}


def producer_of(sqs, clock):
    """Return a producer that sends with a client."""
    pacing = Pacing(clock=clock, pause=clock.advance, jitter=lambda: 0.5)
    return Producer(deployment=DEPLOYMENT, sqs=SqsSender(sqs), pacing=pacing)


def publish_from_outbox(sqs, clock, entries):
    """Write entries to an outbox in DynamoDB and publish them; return its items before and after, and the log."""
    client = boto3.client("dynamodb")
    create_table(client, OUTBOX)
    outbox = DynamoOutbox(OUTBOX, config=CONFIG, source="shop", positions=Positions(clock))
    client.transact_write_items(
        TransactItems=[action for entry in entries for action in outbox.entry(**entry)]
    )
    before = items_in(client, OUTBOX)
    printed = io.BytesIO()
    telemetry = PowertoolsRelayTelemetry(environ={}, stream=printed)
    relay = Relay(
        store=DynamoDBOutboxStore(table=OUTBOX, client=client, concurrency=1),
        producer=producer_of(sqs, clock),
        config=CONFIG,
        clock=clock,
        chance=lambda: 0.5,
        telemetry=telemetry,
    )
    clock.advance(1)
    relay.run_once()
    telemetry.flush()
    return {
        "written": before,
        "published": items_in(client, OUTBOX),
        "log": [_line_form(json.loads(line)) for line in printed.getvalue().splitlines()],
    }


def rows_sent_by_spark(sqs, rows):
    """Send the rows of one partition as a Spark task does."""
    calls = ThreadedCalls(SqsSender(sqs), concurrency=1)
    SendingTask(
        partition=0,
        reader=RowReader(kind="customer.loyalty_tier", priority=-100),
        deployment=DEPLOYMENT,
        calls=calls,
        pace=SendPace(rate=None),
    ).send([rows])
    calls.close()


def without_times(value):
    """Replace the times of events, which are those of the machine."""
    return json.loads(re.sub(r'(\\*"time\\*": ?\\*")[^"\\]*', r"\1TIME", json.dumps(value)))


def items_in(client, table):
    """Return a table's items, with the type of each attribute in front of its value."""
    items = client.scan(TableName=table)["Items"]
    return {
        item["pk"]["S"]: {name: _value_form(item[name]) for name in item if name != "pk"} for item in items
    }


def _value_form(value):
    ((kind, content),) = value.items()
    if kind == "M":
        return {name: _value_form(inner) for name, inner in content.items()}
    if kind == "BS":
        content = sorted(one.hex() for one in content)
    return f"{kind} {str(content).lower() if kind == 'BOOL' else content}"


def _line_form(line):
    """Replace the times and durations of a log line that no clock of a test decides."""
    line["service"] = "orders"
    if "_aws" in line:
        line["_aws"]["Timestamp"] = 0
        for directive in line["_aws"]["CloudWatchMetrics"]:
            directive["Metrics"].sort(key=lambda metric: metric["Name"])
        return line
    line["timestamp"] = re.sub(r"[-+](\d{4})$", r"+\1", re.sub(r"\d", "9", line["timestamp"]))
    if "exception" in line:
        line["exception"] = f"... {line['exception'].splitlines()[-1]}"
    return line
