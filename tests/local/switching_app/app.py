"""Lanes and the sample function; engine, slots, lanes, timeout, code and the wish for an intake are in the context."""

import json
from pathlib import Path

from aws_cdk import App, CfnOutput
from lanes_cdk import Intake, PriorityLanesStack, consumer_code

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
if app.node.get_context("intake") == "on":
    code = consumer_code(CHECKOUT / "lambdas" / "intake")
    intake = Intake(stack, "Intake", queues=stack.queues, ledger=stack.ledger, code=code)
    CfnOutput(stack, "IntakeQueueUrl", value=intake.queue.queue_url)
app.synth()
