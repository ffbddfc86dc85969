"""
The CDK app: a stack of priority lanes, configured by `lanes.toml` and a stage, and one of bulk jobs if you ask for it.

Run `lanes cdk deploy`, with `-c stage=demo` or `-c removal=destroy` as you need; with bulk jobs it is
`lanes cdk deploy --all -c bulk=on`. Enable the outbox in `lanes.toml`.
"""

import json
import sys
from pathlib import Path

from aws_cdk import App, CfnOutput, Stack
from aws_cdk import aws_s3 as s3
from constructs import Construct

from cdk.bulk.enqueue import BulkEnqueue
from cdk.stack import PriorityLanesStack
from cdk.stage import StageSettings
from lanes.config import LanesConfig
from lanes.errors import ConfigurationError

ROOT = Path(__file__).parent


def add_stacks(app: App) -> PriorityLanesStack:
    """Add the stacks of the stage in the app's context and return that of the lanes."""
    settings = StageSettings.from_context(app.node)
    stack = PriorityLanesStack(
        app,
        settings.stack_name,
        config=LanesConfig.load(ROOT / "lanes.toml", stage=settings.stage),
        function_folder=ROOT / "lambdas" / "consumer",
        alarm_topic=settings.alarm_topic,
        runbook=settings.runbook,
        removal_policy=settings.removal_policy,
    )
    _publish_for_bulk_jobs(stack)
    if settings.bulk_jobs:
        _add_bulk_stack(app, stack, settings)
    return stack


def _publish_for_bulk_jobs(lanes: PriorityLanesStack) -> None:
    """
    Keep the outputs that a stack of bulk jobs reads, also in a deployment without ``-c bulk=on``.

    Otherwise such a deployment would remove them, and the next update of the deployed bulk jobs would fail.
    """
    read = [lanes.queues.lane(lanes.queues.config.last_lane.name).queue.queue_arn]
    read.append(lanes.ledger.table.table_arn)
    if lanes.queues.bell is not None:
        read.append(lanes.queues.bell.queue.queue_arn)
    # Under the names that the CDK gives the outputs of weak references, so that it finds these.
    scope = Construct(lanes, "Publish")
    for arn in read:
        CfnOutput(scope, f"Output{json.dumps(lanes.resolve(arn), separators=(',', ':'))}", value=arn)


def _add_bulk_stack(app: App, lanes: PriorityLanesStack, settings: StageSettings) -> None:
    stack = Stack(
        app, settings.bulk_stack_name, description="Bulk jobs for priority lanes, on EMR Serverless"
    )
    BulkEnqueue(
        stack,
        "Bulk",
        queues=lanes.queues,
        ledger=lanes.ledger,
        follow=True,
        inputs=[s3.Bucket.from_bucket_name(stack, f"Input-{name}", name) for name in settings.bulk_inputs],
        databases=settings.bulk_databases,
        zones=settings.bulk_zones,
        removal_policy=settings.removal_policy,
    )


if __name__ == "__main__":
    lanes_app = App()
    try:
        add_stacks(lanes_app).compare_with_deployed()
    except ConfigurationError as error:
        sys.exit(f"{error}")
    lanes_app.synth()
