"""A shop's queue and function as they were before, and the lanes of `examples/adopt` beside them."""

import sys
from pathlib import Path

from aws_cdk import App, Duration, Stack
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from lanes import LanesConfig

sys.path.append(str(Path(__file__).parents[3]))

from examples.adopt.app import add_lanes

CODE = """
import json
import time

def handle(event, context):
    for record in event["Records"]:
        time.sleep(0.05)
        print("old", json.loads(record["body"])["number"], flush=True)
    return {"batchItemFailures": []}
"""


class ShopStack(Stack):
    """A FIFO queue that programs send JSON to by its name, and its function."""

    def __init__(self, scope: Construct, name: str) -> None:
        super().__init__(scope, name)
        said = self.node.get_context
        prepared = said("prepared") == "yes"
        dead = sqs.Queue(self, "Dead", queue_name="orders-dead.fifo", fifo=True)
        queue = sqs.Queue(
            self,
            "Orders",
            queue_name="orders.fifo",
            fifo=True,
            content_based_deduplication=True,
            visibility_timeout=Duration.seconds(180 if prepared else 30),
            dead_letter_queue=sqs.DeadLetterQueue(queue=dead, max_receive_count=1000 if prepared else 3),
        )
        function = lambda_.Function(
            self,
            "Worker",
            runtime=lambda_.Runtime.PYTHON_3_14,
            handler="index.handle",
            code=lambda_.Code.from_inline(CODE),
            timeout=Duration.seconds(5),
            reserved_concurrent_executions=int(said("old_slots")),
        )
        queue.grant_consume_messages(function)
        if said("old_is_mapped") == "yes":
            lambda_.EventSourceMapping(
                self,
                "Mapping",
                target=function,
                event_source_arn=queue.queue_arn,
                batch_size=10,
                max_concurrency=2,
                report_batch_item_failures=True,
            )


app = App()
ShopStack(app, "Shop")
raw = {
    "consumer": {"reserved_concurrency": int(app.node.get_context("slots"))},
    "lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MAIN"}],
}
add_lanes(app, LanesConfig.from_dict(raw))
app.synth()
