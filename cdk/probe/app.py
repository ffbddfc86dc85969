"""
The CDK app of `lanes probe run`, a program of its own: nothing of the library is in its stack.

Context: `stack`, its name, and `plan`, a JSON object with the times of the plan in seconds.
"""

import json
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

FUNCTION = Path(__file__).resolve().parent / "function"
UNMAPPED = ("order", "polls", "calls")
"""Queues that the instrument uses by calls; no mapping takes their messages."""
# The least that AWS allows: one batch holds the slot, and one more is throttled.
ONE_MORE = 2
MEMORY_MB = 512


class ProbeStack(cdk.Stack):
    """
    Two functions with one code: `single` has one slot, `many` has no limit.

    Every resource goes with the stack.
    """

    def __init__(self, scope: Construct, name: str, *, plan: dict[str, float]) -> None:
        super().__init__(
            scope, name, description="lanes probe run: measures AWS, and is destroyed after that"
        )
        self._table = dynamodb.Table(
            self,
            "Events",
            partition_key=dynamodb.Attribute(name="run", type=dynamodb.AttributeType.STRING),
            sort_key=dynamodb.Attribute(name="id", type=dynamodb.AttributeType.STRING),
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        self._queues: dict[str, sqs.Queue] = {}
        single = self._function("Single", timeout=plan["single_timeout"], reserved_concurrency=1)
        many = self._function("Many", timeout=plan["many_timeout"])
        self._map("single", single, visibility=plan["single_visibility"], concurrency=ONE_MORE)
        self._map("control", many, visibility=plan["many_timeout"], concurrency=2)
        self._map("bell", many, visibility=plan["many_timeout"], concurrency=int(plan["bell_groups"]))
        for queue in UNMAPPED:
            self._queue(queue, visibility=plan["many_timeout"]).grant_send_messages(many)
            self._queues[queue].grant_consume_messages(many)
        urls = {name: queue.queue_url for name, queue in self._queues.items()}
        cdk.CfnOutput(self, "Queues", value=self.to_json_string(urls))
        cdk.CfnOutput(self, "Table", value=self._table.table_name)

    def _function(
        self, name: str, *, timeout: float, reserved_concurrency: int | None = None
    ) -> lambda_.Function:
        function = lambda_.Function(
            self,
            name,
            runtime=lambda_.Runtime.PYTHON_3_14,
            architecture=lambda_.Architecture.ARM_64,
            handler="handler.lambda_handler",
            code=lambda_.Code.from_asset(str(FUNCTION)),
            timeout=cdk.Duration.seconds(int(timeout)),
            memory_size=MEMORY_MB,
            reserved_concurrent_executions=reserved_concurrency,
            environment={"TABLE": self._table.table_name},
            # Lambda would create one that outlives the stack.
            log_group=logs.LogGroup(
                self,
                f"{name}Log",
                retention=logs.RetentionDays.ONE_DAY,
                removal_policy=cdk.RemovalPolicy.DESTROY,
            ),
        )
        self._table.grant_write_data(function)
        return function

    def _queue(self, name: str, *, visibility: float) -> sqs.Queue:
        self._queues[name] = sqs.Queue(
            self,
            f"Queue-{name}",
            fifo=True,
            deduplication_scope=sqs.DeduplicationScope.MESSAGE_GROUP,
            fifo_throughput_limit=sqs.FifoThroughputLimit.PER_MESSAGE_GROUP_ID,
            visibility_timeout=cdk.Duration.seconds(int(visibility)),
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        return self._queues[name]

    def _map(self, name: str, function: lambda_.Function, *, visibility: float, concurrency: int) -> None:
        queue = self._queue(name, visibility=visibility)
        queue.grant_consume_messages(function)
        lambda_.EventSourceMapping(
            self,
            f"Mapping-{name}",
            target=function,
            event_source_arn=queue.queue_arn,
            batch_size=1,
            max_concurrency=concurrency,
            report_batch_item_failures=True,
        )


app = cdk.App()
ProbeStack(app, app.node.get_context("stack"), plan=json.loads(app.node.get_context("plan")))
app.synth()
