"""
The CDK app: one stack of priority lanes, as `lanes.toml` and the stage describe it.

`cdk deploy`, `cdk deploy -c stage=demo`, `cdk deploy -c removal=destroy`.
"""

import sys
from pathlib import Path

from aws_cdk import App

from cdk.stack import PriorityLanesStack
from cdk.stage_settings import StageSettings
from lanes.config import LanesConfig
from lanes.errors import ConfigurationError

ROOT = Path(__file__).parent


def build_app() -> App:
    """Build the app with the stack of the stage that the context names."""
    app = App()
    settings = StageSettings.from_context(app.node)
    PriorityLanesStack(
        app,
        settings.stack_name,
        config=LanesConfig.load(ROOT / "lanes.toml", stage=settings.stage),
        function_folder=ROOT / "lambdas" / "consumer",
        removal_policy=settings.removal_policy,
    )
    return app


if __name__ == "__main__":
    try:
        build_app().synth()
    except ConfigurationError as error:
        sys.exit(f"{error}")
