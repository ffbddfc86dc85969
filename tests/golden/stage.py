"""
Where golden files come from: the real consumer between SQS in memory and DynamoDB in moto, under a clock that stands.

Everything that knows how the product is put together is in this file; the scenes use its public methods alone.
"""

from __future__ import annotations

import io
import itertools
import json
import re
from datetime import UTC, datetime, timedelta
from random import Random

import boto3
from botocore.exceptions import ClientError

from lanes import Consumer, DeadLetter, Message, Producer, Retry
from lanes.aws.queues.batch_calls import ClientCalls
from lanes.aws.queues.lane_queue import LaneQueueCalls
from lanes.aws.queues.sending import SqsSender
from lanes.aws.table.holds import DynamoDBHolds
from lanes.aws.table.ledger import DynamoDBLedger
from lanes.aws.table.overrides import DynamoDBOverrides
from lanes.aws.table.slots import DynamoDBSlots
from lanes.aws.telemetry.outbox import PowertoolsRelayTelemetry
from lanes.aws.telemetry.powertools import PowertoolsTelemetry
from lanes.config import LanesConfig
from lanes.config.deployment import Deployment, LaneQueues
from lanes.consumer.runtime import Runtime
from lanes.holds import Holds
from lanes.message_filter import MessageFilter
from lanes.outbox import Outbox
from lanes.outbox.dynamodb.store import DynamoDBOutboxStore
from lanes.outbox.dynamodb.table import create_table
from lanes.outbox.entry import Positions
from lanes.outbox.relay import Relay, RelayContext
from lanes.overrides import Action, Override
from lanes.producer import Pacing
from lanes.testing import FakeClock
from lanes.testing.event import sqs_event
from lanes.testing.fifo.errors import FifoQueueError
from lanes.testing.fifo.queue import FifoQueue
from lanes.testing.fifo.settings import FifoSettings
from lanes.testing.on_moto import create_ledger
from lanes.testing.pulled import InLine
from spark_jobs.rows.reader import RowReader
from spark_jobs.sending.calls import LaneCalls
from spark_jobs.sending.pace import SendPace
from spark_jobs.sending.task import SendingTask

TABLE, OUTBOX = "ledger", "outbox"
KNOWN_TO_ALL = 6
"""Seconds after which every environment knows what was written to the overrides."""


class Stage:
    """
    One deployment, with one or more execution environments.

    Each `step` is one invocation of one lane; it is added to `steps` with everything that left the function.
    """

    def __init__(self, raw=None, *, environments=1, name="ledger"):
        self.table = name
        self.config = LanesConfig.from_dict(raw or {})
        self.clock = FakeClock()
        self.sqs = MemorySqs(self.config, self.clock)
        self.dynamodb = boto3.client("dynamodb")
        create_ledger(self.dynamodb, name)
        self.overrides = DynamoDBOverrides(table=self.table, client=self.dynamodb, clock=self.clock)
        self.holds = Holds(DynamoDBHolds(table=self.table, client=self.dynamodb))
        self.during = {}
        """What happens while the message of an id is handled, by the id."""
        self.steps = []
        self._requests = itertools.count(1)
        self._names = {}
        self._items = {}
        self._broken = set()
        self.dynamodb.meta.events.register("before-call.dynamodb", self._perhaps_break)
        self._environments = [Environment(self, number) for number in range(1, environments + 1)]

    def consumer(self, *, telemetry, seed):
        """Return a consumer whose handlers are not registered yet."""
        deployment = deployment_of(self.sqs)
        alone = self.config.consumer.reserved_concurrency == 1
        return Consumer(
            Runtime(
                deployment=deployment,
                queues=LaneQueueCalls(deployment=deployment, client=self.sqs),
                ledger=DynamoDBLedger(table=self.table, client=self.dynamodb, clock=self.clock),
                presence=None if alone else DynamoDBSlots(table=self.table, client=self.dynamodb),
                telemetry=telemetry,
                overrides=self.overrides,
                holds=self.holds,
                beside=InLine(),
                clock=self.clock,
                monotonic=self.clock,
                random=Halves(seed),
            )
        )

    def override(self, action, *, id, priority=0, **wanted):
        """Write an override and let time pass until every environment knows it."""
        override = Override(
            id=id,
            action=Action(action),
            wanted=MessageFilter(**wanted),
            created_at=self.clock.now,
            expires_at=self.clock.now + 3600,
            who="arn:aws:sts::1:assumed-role/ops/alice",
            why="as asked",
            priority=priority,
        )
        self.overrides.add(override)
        self.clock.advance(KNOWN_TO_ALL)

    def send(self, lane, id, *does, group="g", kind="work"):
        """Send a message; `does` says for each attempt how it ends."""
        now = datetime.fromtimestamp(self.clock.now, UTC)
        message = Message(kind=kind, data={"does": does}, group=group, id=id, time=now, source="shop")
        self.send_body(lane, message.to_body(), group=group, deduplication_id=f"{id}-{self.clock.now:.0f}")

    def send_body(self, lane, body, *, group="raw", deduplication_id="raw"):
        """Send any body."""
        self.sqs.live[lane].send(body, group=group, deduplication_id=deduplication_id)

    def receive(self, lane, most=None):
        """Take a batch out as the mapping does, for an invocation that Lambda throttles."""
        return self.sqs.live[lane].receive(most or self.config.lane(lane).batch_size)

    def step(self, title, lane, *, most=None, environment=1, seconds=None, messages=None):
        """Receive a batch, invoke the function and delete what it does not keep; note what left the function."""
        messages = self.receive(lane, most) if messages is None else messages
        before = len(self.sqs.calls)
        answer, lines = self._environments[environment - 1].invoke(
            lane, messages, seconds=seconds, request=f"request-{next(self._requests)}"
        )
        kept = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
        calls = self.sqs.calls[before:]
        for message in messages:
            if message.message_id not in kept:
                self.sqs.live[lane].delete(message.receipt_handle)
        self.steps.append(
            {
                "step": title,
                "batch": [
                    f"{message.message_id} receive {message.receive_count}: {_id_of(message.body)}"
                    for message in messages
                ],
                "answer": answer,
                "log": [line for line in lines if "_aws" not in line],
                "metrics": [line for line in lines if "_aws" in line],
                "hidden": {name: value for name, value in calls if name != "SendMessage"},
                "sent": [value for name, value in calls if name == "SendMessage"],
                "items": self.changed_items(),
            }
        )

    def note(self, title):
        """Add what has changed in the table without an invocation."""
        self.steps.append({"step": title, "items": self.changed_items()})

    def changed_items(self):
        """Return what became of the table's items since this was asked last; None stands for a deleted one."""
        now = {item["pk"]["S"]: item for item in self.dynamodb.scan(TableName=self.table)["Items"]}
        items = {key: self._item_form(item) for key, item in now.items()}
        changed = {key: item for key, item in items.items() if self._items.get(key) != item}
        changed |= dict.fromkeys(self._items.keys() - items.keys())
        self._items = items
        return changed

    def is_empty(self):
        """Whether no message is left in a lane."""
        counts = [queue.counts() for queue in self.sqs.live.values()]
        return not any(count.visible or count.not_visible for count in counts)

    def advance(self, seconds):
        """Let time pass."""
        self.clock.advance(seconds)

    def fail(self, *operations):
        """Let these operations of AWS fail from now on, and no others."""
        self._broken = self.sqs.broken = set(operations)

    def _perhaps_break(self, model, **_):
        if model.name in self._broken:
            raise _error(model.name)

    def _item_form(self, item):
        form = {}
        for name, value in item.items():
            if name != "pk":
                form[self._named(name)] = _value_form(value)
        return form

    def _named(self, attribute):
        """Replace the name of an environment, which chance gives."""
        start, line, environment = attribute.partition("line#")
        if not line:
            return attribute
        return f"{start}line#{self._names.setdefault(environment, f'environment-{len(self._names) + 1}')}"


class Environment:
    """One execution environment of the function."""

    def __init__(self, stage, number):
        self._stage = stage
        self._printed = io.BytesIO()
        telemetry = PowertoolsTelemetry(environ={}, stream=self._printed)
        self._consumer = stage.consumer(telemetry=telemetry, seed=number)
        self._consumer.handler("work")(self._work)
        self._consumer.handler("work.held")(self._work)
        self._consumer.raw_handler(lambda _: stage.advance(0.25))

    def _work(self, message, context):
        does = message.data["does"]
        word = does[context.attempt - 1] if context.attempt <= len(does) else "succeed"
        self._stage.advance(0.25)
        if message.id in self._stage.during:
            self._stage.during.pop(message.id)()
        if word == "checkpoint":
            context.checkpoint()
        elif word == "retry":
            raise Retry(after=timedelta(seconds=42), reason="busy")
        elif word == "dead":
            raise DeadLetter("not wanted")
        elif word == "fail":
            raise ValueError("wrong")

    def invoke(self, lane, messages, *, seconds, request):
        """Return the function's answer and the objects that it printed."""
        place = self._printed.seek(0, io.SEEK_END)
        seconds = seconds or self._stage.config.consumer.function_timeout.total_seconds()
        context = LambdaContext(self._stage.clock, seconds=seconds, request=request)
        event = sqs_event(f"arn:aws:sqs:eu-central-1:1:{lane}.fifo", messages)
        answer = self._consumer.handle(event, context)
        self._printed.seek(place)
        return answer, [_line_form(json.loads(line)) for line in self._printed.read().splitlines()]


def deployment_of(sqs):
    """Return a deployment whose queues are in memory."""
    return Deployment(config=sqs.config, queues=sqs.lanes, table=TABLE, outbox=OUTBOX)


def producer_of(sqs, clock):
    """Return a producer that sends to the queues in memory."""
    sender = SqsSender(sqs)
    deployment = deployment_of(sqs)
    pacing = Pacing(clock=clock, pause=clock.advance, jitter=lambda: 0.5)
    return Producer(deployment=deployment, sqs=sender, pacing=pacing)


def publish_from_outbox(sqs, clock, entries):
    """Write entries to an outbox in DynamoDB and publish them; return its items before and after, and the log."""
    client = boto3.client("dynamodb")
    create_table(client, OUTBOX)
    outbox = Outbox(config=sqs.config, table=OUTBOX, source="shop", positions=Positions(clock))
    client.transact_write_items(TransactItems=[outbox.entry(**entry) for entry in entries])
    before = client.scan(TableName=OUTBOX)["Items"]
    printed = io.BytesIO()
    telemetry = PowertoolsRelayTelemetry(environ={}, stream=printed)
    relay = Relay(
        store=DynamoDBOutboxStore(table=OUTBOX, client=client, concurrency=1),
        producer=producer_of(sqs, clock),
        config=sqs.config,
        context=RelayContext(clock=clock, chance=lambda: 0.5, telemetry=telemetry),
    )
    clock.advance(1)
    relay.run_once()
    telemetry.flush()
    return {
        "written": _items_form(before),
        "published": _items_form(client.scan(TableName=OUTBOX)["Items"]),
        "log": [_line_form(json.loads(line)) for line in printed.getvalue().splitlines()],
    }


def _items_form(items):
    return {item["pk"]["S"]: {name: _value_form(value) for name, value in item.items()} for item in items}


def rows_sent_by_spark(sqs, rows):
    """Send the rows of one partition as a Spark task does."""
    calls = ClientCalls(SqsSender(sqs), concurrency=1)
    SendingTask(
        partition=0,
        reader=RowReader(kind="customer.loyalty_tier", priority=-100),
        calls=LaneCalls(deployment_of(sqs), calls),
        pace=SendPace(rate=None),
    ).send([rows])
    calls.close()


def without_times(value):
    """Replace the times of events, which are those of the machine."""
    return json.loads(re.sub(r'(\\*"time\\*": ?\\*")[^"\\]*', r"\1TIME", json.dumps(value)))


class LambdaContext:
    """Lambda's context under the stage's clock."""

    def __init__(self, clock, *, seconds, request):
        self.aws_request_id = request
        self._clock = clock
        self._deadline = clock() + seconds

    def get_remaining_time_in_millis(self):
        """Return the time that is left."""
        return (self._deadline - self._clock()) * 1000


class Halves(Random):
    """Chance that always takes the middle, however often it is asked and in whatever order."""

    def random(self):
        """Return the middle."""
        return 0.5


class MemorySqs:
    """The calls of boto3's client that the product makes, on queues in memory with fixed message ids."""

    def __init__(self, config, clock):
        numbers = itertools.count(1)
        self.config = config

        def queue(name, **more):
            return FifoQueue(
                clock,
                name=name,
                handle_prefix=f"{name}-",
                new_message_id=lambda: f"sqs-{next(numbers)}",
                settings=FifoSettings(deduplicate_by_group=True, **more),
            )

        self.live = {
            lane.name: queue(lane.name, visibility_timeout=lane.visibility_timeout) for lane in config.lanes
        }
        self.dead = {lane.name: queue(f"{lane.name}-dead") for lane in config.lanes}
        self.lanes = {
            name: LaneQueues(
                url=f"https://sqs/1/{name}.fifo", dead_letter_url=f"https://sqs/1/{name}-dead.fifo"
            )
            for name in self.live
        }
        self._by_url = {lane.url: self.live[name] for name, lane in self.lanes.items()}
        self._by_url |= {lane.dead_letter_url: self.dead[name] for name, lane in self.lanes.items()}
        self.broken = set()
        self.calls = []

    def get_queue_attributes(self, *, QueueUrl, AttributeNames):  # noqa: N803 - SQS's own names, here and below
        """Return exact counts."""
        self._perhaps_break("GetQueueAttributes")
        counts = self._by_url[QueueUrl].counts()
        return {
            "Attributes": {
                "ApproximateNumberOfMessages": str(counts.visible),
                "ApproximateNumberOfMessagesNotVisible": str(counts.not_visible),
            }
        }

    def change_message_visibility_batch(self, *, QueueUrl, Entries):  # noqa: N803
        """Change what can be changed."""
        self._perhaps_break("ChangeMessageVisibilityBatch")
        failed = []
        for entry in Entries:
            seconds = entry["VisibilityTimeout"]
            self.calls.append((entry["ReceiptHandle"], seconds))
            try:
                self._by_url[QueueUrl].change_visibility(entry["ReceiptHandle"], timedelta(seconds=seconds))
            except FifoQueueError:
                failed.append({"Id": entry["Id"]})
        return {"Failed": failed}

    def send_message(self, **wire):
        """Take in one message."""
        self._perhaps_break("SendMessage")
        self.calls.append(("SendMessage", wire))
        return self._take_in(wire["QueueUrl"], wire)

    def send_message_batch(self, **wire):
        """Take in up to ten."""
        self._perhaps_break("SendMessageBatch")
        self.calls.append(("SendMessageBatch", wire))
        taken = [{"Id": entry["Id"], **self._take_in(wire["QueueUrl"], entry)} for entry in wire["Entries"]]
        return {"Successful": taken, "Failed": []}

    def delete_message(self, *, QueueUrl, ReceiptHandle):  # noqa: N803
        """Delete one."""
        self._perhaps_break("DeleteMessage")
        self._by_url[QueueUrl].delete(ReceiptHandle)
        return {}

    def _take_in(self, url, wire):
        sent = self._by_url[url].send(
            wire["MessageBody"],
            group=wire["MessageGroupId"],
            deduplication_id=wire["MessageDeduplicationId"],
        )
        return {"MessageId": sent.message_id, "SequenceNumber": str(sent.sequence_number)}

    def _perhaps_break(self, operation):
        if operation in self.broken:
            raise _error(operation)


def _error(operation):
    return ClientError({"Error": {"Code": "InternalError", "Message": "broken by the scene"}}, operation)


def _id_of(body):
    try:
        return json.loads(body)["id"]
    except ValueError:
        return "a raw body"


def _value_form(value):
    """Write an attribute as its type and value."""
    ((kind, content),) = value.items()
    if kind == "M":
        return {name: _value_form(inner) for name, inner in content.items()}
    return f"{kind} {str(content).lower() if kind == 'BOOL' else content}"


def _line_form(line):
    """Replace what no clock of the stage decides: times of printing, the service, and lines of tracebacks."""
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
