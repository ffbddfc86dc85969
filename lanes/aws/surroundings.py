"""Builds what a deployed consumer touches, from the environment that the stack has given its function."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lanes.aws.clients import Clients, consumer_config
from lanes.aws.lane_queue import LaneQueueCalls
from lanes.aws.ledger import DynamoDBLedger
from lanes.aws.slot_register import DynamoDBSlotRegister
from lanes.aws.telemetry import PowertoolsTelemetry
from lanes.consumer.consumer import Surroundings
from lanes.consumer.slots import SingleSlot
from lanes.deployment import Deployment

if TYPE_CHECKING:
    from collections.abc import Mapping


def surroundings_from_env(environ: Mapping[str, str] | None = None) -> Surroundings:
    """
    Build the surroundings of a function.

    Raises:
        ConfigurationError: `LANES_DEPLOYMENT` is missing or wrong.

    """
    environ = os.environ if environ is None else environ
    deployment = Deployment.from_env(environ)
    clients = Clients(config=consumer_config())
    database = clients.dynamodb()
    alone = deployment.config.consumer.reserved_concurrency == 1
    return Surroundings(
        deployment=deployment,
        queues=LaneQueueCalls(deployment=deployment, client=clients.sqs()),
        ledger=DynamoDBLedger(table=deployment.table, client=database),
        register=SingleSlot() if alone else DynamoDBSlotRegister(table=deployment.table, client=database),
        telemetry=PowertoolsTelemetry(environ=environ),
    )
