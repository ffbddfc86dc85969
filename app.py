"""
The CDK app: one stack of priority lanes, configured by `lanes.toml` and a stage.

Run `cdk deploy`, with `-c stage=demo`, `-c removal=destroy`, `-c bulk=on` or `-c intake=on` as you need.
Enable the outbox in `lanes.toml`.
"""

import sys
from pathlib import Path

from aws_cdk import App, CfnOutput

from cdk.bulk.enqueue import BulkEnqueue
from cdk.function.code import consumer_code
from cdk.intake import Intake
from cdk.stack import PriorityLanesStack
from cdk.stage import StageSettings
from lanes.config import LanesConfig
from lanes.errors import ConfigurationError

ROOT = Path(__file__).parent


def add_stack(app: App) -> PriorityLanesStack:
    """Add the stack of the stage in the app's context."""
    settings = StageSettings.from_context(app.node)
    stack = PriorityLanesStack(
        app,
        settings.stack_name,
        config=LanesConfig.load(ROOT / "lanes.toml", stage=settings.stage),
        function_folder=ROOT / "lambdas" / "consumer",
        removal_policy=settings.removal_policy,
    )
    if settings.bulk_jobs:
        BulkEnqueue(
            stack,
            "Bulk",
            queues=stack.queues,
            ledger=stack.ledger,
            removal_policy=settings.removal_policy,
        )
    if settings.intake:
        intake = Intake(
            stack,
            "Intake",
            queues=stack.queues,
            ledger=stack.ledger,
            code=consumer_code(ROOT / "lambdas" / "intake"),
            removal_policy=settings.removal_policy,
        )
        CfnOutput(stack, "IntakeQueueUrl", value=intake.queue.queue_url)
    return stack


if __name__ == "__main__":
    lanes_app = App()
    try:
        add_stack(lanes_app)
    except ConfigurationError as error:
        sys.exit(f"{error}")
    lanes_app.synth()
