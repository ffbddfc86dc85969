"""Queues, table and parameter of a deployment, made without the CDK, and dead letters as the consumer leaves them."""

from __future__ import annotations

import json

import boto3

from lanes.config import LanesConfig
from lanes.config.deployment import Deployment
from lanes.message import Message
from lanes.testing.on_moto import create_bell, create_ledger, create_queues

STACK = "PriorityLanes"


def make_deployment(client, *, stack=STACK, config=None, prefix="", bell=False, outbox=None):
    """
    Make the queues, table and parameter of a stack; `client` returns a client by service.

    Names of queues begin with the prefix. The bell's queue is made on request, the outbox's table never.
    """
    config = config or LanesConfig()
    deployment = Deployment(
        config=config,
        queues={lane.name: create_queues(client("sqs"), lane, prefix=prefix) for lane in config.lanes},
        table=f"{stack}-ledger",
        bell=create_bell(client("sqs"), prefix=prefix) if bell else None,
        outbox=outbox,
    )
    create_ledger(client("dynamodb"), deployment.table)
    client("dynamodb").update_time_to_live(
        TableName=deployment.table, TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires_at"}
    )
    client("ssm").put_parameter(
        Name=f"/lanes/{stack}", Value=deployment.to_json(), Type="String", Overwrite=True
    )
    return deployment


def put_dead_letters(sqs, deployment, lane, count, *, groups, kind="order.placed", **note):
    """Put numbered messages into a lane's dead-letter queue, spread over groups in turn; return their ids."""
    ids = [f"{kind}-{number}" for number in range(count)]
    for start in range(0, count, 10):
        sqs.send_message_batch(
            QueueUrl=deployment.queues[lane].dead_letter_url,
            Entries=[
                _entry(place, ids[place], kind, f"group-{place % groups}", {"lane": lane, **note})
                for place in range(start, min(start + 10, count))
            ],
        )
    return ids


def _entry(number, message_id, kind, group, note):
    described = {
        "reason": "attempts exhausted",
        "error": "RuntimeError: no",
        "attempts": 5,
        "yields": 0,
        "receives": 5,
        "message_id": f"original-{number}",
        "dead_lettered_at": 1_800_000_000.0 + number,
        **note,
    }
    return {
        "Id": str(number),
        "MessageBody": Message(kind=kind, data={"number": number}, id=message_id).to_body(),
        "MessageGroupId": group,
        "MessageDeduplicationId": f"dead-{message_id}",
        "MessageAttributes": {
            "lanes.dead_letter": {"DataType": "String", "StringValue": json.dumps(described)},
            "tenant": {"DataType": "String", "StringValue": "acme"},
        },
    }


class QueueMappings:
    """Mappings of the bell; none of another function unless `of_others` has some."""

    def __init__(self, *of_bell, of_others=()):
        self._bell = of_bell
        self._others = of_others

    def of_bell(self):
        return self._bell

    def others(self, _lane):
        return self._others

    def of_function(self, arn):
        return [one for one in self._bell if one.function_arn == arn]


def drain(sqs, url):
    """Take every message out of a queue, in the order in which it gives them."""
    taken = []
    while found := sqs.receive_message(
        QueueUrl=url,
        MaxNumberOfMessages=10,
        MessageSystemAttributeNames=["All"],
        MessageAttributeNames=["All"],
    ).get("Messages"):
        taken += found
        sqs.delete_message_batch(
            QueueUrl=url,
            Entries=[
                {"Id": str(place), "ReceiptHandle": message["ReceiptHandle"]}
                for place, message in enumerate(found)
            ],
        )
    return taken


class Trail:
    """An audit trail that keeps what was written, as it was then."""

    def __init__(self):
        self.written = []

    def who(self):
        return "ops"

    def write(self, entry):
        self.written.append((entry.action, entry.target, entry.outcome, dict(entry.details)))


TABLE = "ledger"


def create_table() -> None:
    """Create the table with its sparse index."""
    create_ledger(boto3.client("dynamodb"), TABLE)
