"""A CDK app with this repository's constructs whose consumer is traced by X-Ray."""

import sys
from pathlib import Path

import aws_cdk

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[2]))

from cdk import PriorityLanesStack  # noqa: E402 - found by the line above
from lanes.config import LanesConfig  # noqa: E402

app = aws_cdk.App()
PriorityLanesStack(
    app,
    "Traced",
    config=LanesConfig.from_dict({"consumer": {"tracing": "xray"}}),
    function_folder=HERE / "function",
)
app.synth()
