"""
The CDK app: one stack of priority lanes, as `lanes.toml` and the stage describe it.

`cdk deploy`, `cdk deploy -c stage=demo`, `cdk deploy -c removal=destroy`, `cdk deploy -c bulk=on`.
The outbox is a setting of `lanes.toml`.
"""

import sys
from pathlib import Path

from aws_cdk import App

from cdk.bulk_enqueue import BulkEnqueue
from cdk.stack import PriorityLanesStack
from cdk.stage_settings import StageSettings
from lanes.config import LanesConfig
from lanes.errors import ConfigurationError

ROOT = Path(__file__).parent


def add_stack(app: App) -> PriorityLanesStack:
    """Add the stack of the stage that the app's context names."""
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
    return stack


if __name__ == "__main__":
    lanes_app = App()
    try:
        add_stack(lanes_app)
    except ConfigurationError as error:
        sys.exit(f"{error}")
    lanes_app.synth()
