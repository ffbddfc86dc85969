"""Lanes on moto's mock of AWS: the boto3 producer and the consumer over queues and a table in this process."""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from lanes.aws.clients import Clients, parameter_name
from lanes.aws.runtime import runtime_from_env
from lanes.config import EngineName
from lanes.config.deployment import Deployment, LaneQueues
from lanes.errors import ConfigurationError
from lanes.mapping.event import polled_record
from lanes.outbox.dynamodb.table import create_table
from lanes.producer import Producer
from lanes.testing.assertions import message_of
from lanes.testing.function import Environment
from lanes.testing.queues import BELL
from lanes.testing.world import LAST_RESORT

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.literals import QueueAttributeNameType

    from lanes.config import Lane, LanesConfig
    from lanes.consumer import Consumer
    from lanes.consumer.records import PartialBatchResponse
    from lanes.message import Message
    from lanes.testing.function import EntryPoint

STACK, REGION = "PriorityLanes", "eu-central-1"
LEDGER, OUTBOX = "lanes-ledger", "lanes-outbox"

FIFO: Mapping[QueueAttributeNameType, str] = {
    "FifoQueue": "true",
    "DeduplicationScope": "messageGroup",
    "FifoThroughputLimit": "perMessageGroupId",
    "MessageRetentionPeriod": "1209600",
    "SqsManagedSseEnabled": "true",
}
"""Attributes of the queues of lanes, as the stack sets them."""

ENVIRONMENT = {
    "AWS_DEFAULT_REGION": REGION,
    "AWS_REGION": REGION,
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
"""The required environment variables; credentials are moto's own."""

HARMLESS = ("AWS_LAMBDA_", "AWS_XRAY_", "AWS_EXECUTION_ENV", "AWS_SAM_LOCAL")
"""Beginnings of variables of AWS that a test may set: they describe a function and lead to no account or address."""

ANOTHER_MODE = ("TEST_SERVER_MODE", "TEST_SERVER_MODE_ENDPOINT", "TEST_PROXY_MODE")
"""Variables that send moto's calls to a server."""


class MotoLanes:
    """
    Lanes on moto, found by `Producer.from_env()`, `Producer.from_stack("PriorityLanes")` and `Consumer()` as on AWS.

    moto hands out messages of a FIFO group out of order once they return after a visibility timeout, so test order,
    redelivery and priorities with `InMemoryLanes`, and here that code and AWS's API fit together.

    Attributes:
        config: the lanes.
        deployment: where they are; with an outbox where the configuration enables one.
        producer: sends to them through boto3.

    """

    def __init__(self, deployment: Deployment) -> None:
        self.config = deployment.config
        self.deployment = deployment
        self.producer = Producer.from_deployment(deployment, region=REGION)
        self._sqs = Clients(region=REGION).sqs()

    def receive(self, lane: str) -> dict[str, Any]:
        """
        Receive a batch of a lane and return it as the event that Lambda gives to the function.

        Raises:
            KeyError: there is no such lane.

        """
        settings = self.config.lane(lane)
        url = self.deployment.queues[lane].url
        answer = self._sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=settings.batch_size,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        arn = f"arn:aws:sqs:{REGION}:123456789012:{url.rpartition('/')[2]}"
        return {"Records": [polled_record(message, queue_arn=arn) for message in answer.get("Messages", [])]}

    def deliver(
        self, lane: str, consumer: Consumer, *, entry_point: EntryPoint | None = None
    ) -> PartialBatchResponse:
        """
        Hand one batch of a lane to the consumer in a new process and delete the finished records, as a mapping does.

        The pull engine handles a batch too, as after a change of engine. With an `entry_point`, your `lambda_handler`
        around this consumer, the batch goes through it.

        Returns:
            The consumer's answer; with an empty list also if the lane was empty.

        Raises:
            KeyError: there is no such lane.
            TypeError: the entry point returned nothing.

        """
        event = self.receive(lane)
        if not event["Records"]:
            return {"batchItemFailures": []}
        environment = Environment(consumer.within(runtime_from_env()), entry_point, consumer)
        answer: PartialBatchResponse = environment.handle(event, None)
        kept = {failure["itemIdentifier"] for failure in answer["batchItemFailures"]}
        for record in event["Records"]:
            if record["messageId"] not in kept:
                self._sqs.delete_message(
                    QueueUrl=self.deployment.queues[lane].url, ReceiptHandle=record["receiptHandle"]
                )
        return answer

    def dead_letters(self, lane: str) -> list[Message]:
        """
        Return up to ten messages of a lane's dead-letter queue, which stay there.

        Raises:
            KeyError: there is no such lane.

        """
        url = self.deployment.queues[self.config.lane(lane).name].dead_letter_url
        answer = self._sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, VisibilityTimeout=0, MessageSystemAttributeNames=["All"]
        )
        return [
            message_of(
                message["Body"],
                group=message["Attributes"]["MessageGroupId"],
                message_id=message["MessageId"],
            )
            for message in answer.get("Messages", [])
        ]


def leading_elsewhere(environ: Iterable[str]) -> list[str]:
    """Return the variables that could lead a client of boto3 to another AWS than moto's in this process."""
    return [
        name
        for name in environ
        if (name.startswith("AWS_") and not name.startswith(HARMLESS)) or name in ANOTHER_MODE
    ]


@contextmanager
def lanes_on_moto(config: LanesConfig) -> Iterator[MotoLanes]:
    """
    Make queues, table, outbox and parameter of a stack on moto for the length of a block.

    The variables of `ENVIRONMENT` have to be set before, those of `leading_elsewhere` unset, and LANES_DEPLOYMENT set
    inside.

    Raises:
        ConfigurationError: a setting leads to another AWS; nothing was made there.
        ImportError: moto is not installed.

    """
    from moto import mock_aws

    with mock_aws():
        clients = Clients(region=REGION)
        sqs, database = clients.sqs(), clients.dynamodb()
        _refuse_another_aws(sqs.meta.endpoint_url, database.meta.endpoint_url)
        create_ledger(database, LEDGER)
        if config.outbox.enabled:
            create_table(database, OUTBOX)
        deployment = Deployment(
            config=config,
            queues={lane.name: create_queues(sqs, lane) for lane in config.lanes},
            table=LEDGER,
            outbox=OUTBOX if config.outbox.enabled else None,
            bell=create_bell(sqs) if config.consumer.engine is EngineName.PULL else None,
        )
        clients.ssm().put_parameter(Name=parameter_name(STACK), Value=deployment.to_json(), Type="String")
        yield MotoLanes(deployment)


def _refuse_another_aws(*addresses: str) -> None:
    """Refuse what moto does not answer: it takes calls to AWS's own addresses alone, others reach a running AWS."""
    for address in addresses:
        if not (urlsplit(address).hostname or "").endswith(".amazonaws.com"):
            problem = f"the clients of boto3 call {address} instead of moto: unset that address in the tests"
            raise ConfigurationError([problem], source="lanes_on_moto")


def create_ledger(client: DynamoDBClient, table: str) -> None:
    """Make the consumer's table with its sparse index, as the stack does."""
    client.create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[
            {"AttributeName": name, "AttributeType": "S"} for name in ("pk", "parked_lane", "parked_until")
        ],
        GlobalSecondaryIndexes=[
            {
                "IndexName": "parked",
                "KeySchema": [
                    {"AttributeName": "parked_lane", "KeyType": "HASH"},
                    {"AttributeName": "parked_until", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
    )


def create_queues(client: SQSClient, lane: Lane, *, prefix: str = "") -> LaneQueues:
    """Make the queues of a lane, as the stack does; their names begin with the prefix."""
    dead = client.create_queue(QueueName=f"{prefix}{lane.name}-dead.fifo", Attributes=FIFO)["QueueUrl"]
    arn = client.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    url = client.create_queue(
        QueueName=f"{prefix}{lane.name}.fifo",
        Attributes={
            **FIFO,
            "VisibilityTimeout": str(int(lane.visibility_timeout.total_seconds())),
            "RedrivePolicy": json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": LAST_RESORT}),
        },
    )["QueueUrl"]
    return LaneQueues(url=url, dead_letter_url=dead)


def create_bell(client: SQSClient, *, prefix: str = "") -> str:
    """Make the bell's queue, and return its address."""
    return client.create_queue(
        QueueName=f"{prefix}{BELL}.fifo",
        Attributes={"FifoQueue": "true", "ContentBasedDeduplication": "true"},
    )["QueueUrl"]
