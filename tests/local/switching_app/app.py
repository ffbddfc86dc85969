"""Lanes and the sample function; engine, slots, lanes, timeout and code are in the context."""

import json
from pathlib import Path

from aws_cdk import App
from lanes_cdk import PriorityLanesStack

from lanes import LanesConfig

CHECKOUT = Path(__file__).parents[3]

app = App()
consumer = {
    "engine": app.node.get_context("engine"),
    "reserved_concurrency": int(app.node.get_context("slots")),
    "function_timeout": app.node.get_context("function_timeout"),
}
lanes = json.loads(app.node.get_context("lanes"))
stack = PriorityLanesStack(
    app,
    "Switching",
    config=LanesConfig.from_dict({"consumer": consumer, "lanes": lanes}),
    function_folder=CHECKOUT / app.node.get_context("function_folder"),
)
# Slow enough that a deploy falls into the middle of a flood of moderate size.
stack.consumer.function.add_environment("RESOURCE_SECONDS", "0.1")
app.synth()
