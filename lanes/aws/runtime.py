"""The runtime of a deployed consumer, from the environment that the stack gave its function."""

from __future__ import annotations

import os
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, cast

from lanes.aws.bell import BellQueue
from lanes.aws.clients import Clients, consumer_config, deployment_from_env, receiver_config
from lanes.aws.lean_client import LeanClient
from lanes.aws.ledger import DynamoDBLedger
from lanes.aws.overrides import DynamoDBOverrides
from lanes.aws.queues import LaneQueueCalls
from lanes.aws.slots import DynamoDBPauses, DynamoDBSlots
from lanes.aws.telemetry import PowertoolsTelemetry
from lanes.consumer.runtime import Runtime
from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient

    from lanes.runs import RunTable

CONCURRENCY_VARIABLE = "AWS_LAMBDA_MAX_CONCURRENCY"


def runtime_from_env(environ: Mapping[str, str] | None = None) -> Runtime:
    """
    Build the runtime of a function.

    Raises:
        ConfigurationError: `LANES_DEPLOYMENT` is missing or wrong, or Lambda runs several invocations here at once.
        AwsError: the parameter that it names can't be read.

    """
    environ = os.environ if environ is None else environ
    _refuse_shared_environment(environ)
    deployment = deployment_from_env(environ)
    clients, table = Clients(config=consumer_config()), deployment.table
    near = next(iter(deployment.queues.values())).url
    # A client of boto3 would be a sixth of a cold start, and most functions need none.
    sqs = cast("SQSClient", LeanClient(clients, near=near))
    database = cast("DynamoDBClient", LeanClient(clients, "dynamodb", near=near))
    # With one slot the invocation that would read the slot table runs alone
    # (docs/decisions.md#a-slot-table).
    has_peers = deployment.config.consumer.reserved_concurrency > 1
    return Runtime(
        deployment=deployment,
        queues=LaneQueueCalls(
            deployment=deployment,
            client=sqs,
            receiver=_receiver(clients, near) if deployment.config.receives else None,
        ),
        ledger=DynamoDBLedger(table=table, client=database),
        presence=DynamoDBSlots(table=table, client=database) if has_peers else None,
        telemetry=PowertoolsTelemetry(environ=environ),
        overrides=DynamoDBOverrides(table=table, client=database),
        pauses=DynamoDBPauses(table=table, client=database),
        runs=partial(run_table, table, database),
        bell=None if deployment.bell is None else BellQueue(deployment.bell, deployment.config, sqs),
    )


def run_table(table: str, client: DynamoDBClient) -> RunTable:
    """Return the runs in a table; their module is loaded with the first one that is followed."""
    from lanes.aws.runs import DynamoDBRuns

    return DynamoDBRuns(table=table, client=client)


def _refuse_shared_environment(environ: Mapping[str, str]) -> None:
    # Set by Lambda where an environment runs several invocations (Developer Guide, "Python runtime for Lambda Managed
    # Instances"): one process each, by default 16 a vCPU.
    concurrency = environ.get(CONCURRENCY_VARIABLE, "1")
    if concurrency != "1":
        problem = (
            f"{CONCURRENCY_VARIABLE} is {concurrency!r}: Lambda Managed Instances run so many invocations in one "
            "environment, more handlers than there are slots; deploy the function without a capacity provider"
        )
        raise ConfigurationError([problem], source="Lambda")


def _receiver(clients: Clients, near: str) -> SQSClient:
    """Return the client for receives, whose answers take as long as a poll."""
    from lanes.consumer.engines.looks import POLL

    polling = clients.with_config(receiver_config(longest_wait=timedelta(seconds=POLL)))
    return cast("SQSClient", LeanClient(polling, near=near))
