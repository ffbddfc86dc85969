"""Builds what a deployed consumer touches, from the environment that the stack has given its function."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from lanes.aws.clients import Clients, consumer_config
from lanes.aws.holds import DynamoDBHolds
from lanes.aws.lane_queue import LaneQueueCalls
from lanes.aws.ledger import DynamoDBLedger
from lanes.aws.overrides import DynamoDBOverrides
from lanes.aws.slot_register import DynamoDBSlotRegister
from lanes.aws.telemetry import PowertoolsTelemetry
from lanes.config import Tracing as TracingSetting
from lanes.consumer.background import BackgroundThread
from lanes.consumer.consumer import Surroundings
from lanes.consumer.slots import SingleSlot
from lanes.consumer.tracing import Untraced
from lanes.deployment import Deployment

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lanes.consumer.telemetry import Telemetry
    from lanes.consumer.tracing import Tracing


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
    alone = deployment.config.function_concurrency == 1
    telemetry, tracing = _traced(PowertoolsTelemetry(environ=environ), deployment.config.consumer.tracing)
    return Surroundings(
        deployment=deployment,
        queues=LaneQueueCalls(deployment=deployment, client=clients.sqs()),
        ledger=DynamoDBLedger(table=deployment.table, client=database),
        register=SingleSlot() if alone else DynamoDBSlotRegister(table=deployment.table, client=database),
        telemetry=telemetry,
        tracing=tracing,
        background=BackgroundThread(),
        overrides=DynamoDBOverrides(table=deployment.table, client=database),
        holds=DynamoDBHolds(table=deployment.table, client=database),
    )


def _traced(telemetry: Telemetry, setting: TracingSetting) -> tuple[Telemetry, Tracing]:
    """Load the tracer only where it is wanted; without its library the messages are handled all the same."""
    if setting is not TracingSetting.XRAY:
        return telemetry, Untraced()
    try:
        from lanes.aws.tracing import TracedTelemetry, XRayTracing

        tracing = XRayTracing()
    except ImportError:
        logging.getLogger(__name__).warning(
            "tracing is xray and the function has no aws-xray-sdk: nothing is traced", exc_info=True
        )
        return telemetry, Untraced()
    return TracedTelemetry(telemetry, tracing), tracing
