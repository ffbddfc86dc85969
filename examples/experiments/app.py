"""The first experiments as a CDK app: each has a stack with the plain pattern and a stack with lanes."""

import sys
from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_lambda, aws_lambda_event_sources, aws_sqs
from constructs import Construct

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from cdk import LaneQueues, LanesParameter, Ledger, PriorityConsumer, consumer_code  # noqa: E402
from simulator.experiments import EXPERIMENTS, Experiment  # noqa: E402

TIMEOUT = cdk.Duration.seconds(5)
VISIBILITY = cdk.Duration.seconds(6)
"""Short, because the plain pattern waits this long after each yield."""


class PlainStack(cdk.Stack):
    """Queues, all mapped to one function that checks the higher ones."""

    def __init__(self, scope: Construct, name: str, *, experiment: Experiment) -> None:
        super().__init__(scope, name)
        queues = [self._queue(lane, experiment) for lane in experiment.lanes]
        higher = {
            queue.queue_arn: [above.queue_url for above in queues[:place]] if experiment.checks else []
            for place, queue in enumerate(queues)
        }
        function = aws_lambda.Function(
            self,
            "Function",
            runtime=aws_lambda.Runtime.PYTHON_3_14,
            handler="handler.lambda_handler",
            code=aws_lambda.Code.from_asset(str(HERE / "plain")),
            timeout=TIMEOUT,
            reserved_concurrent_executions=experiment.slots,
            environment={"HIGHER": self.to_json_string(higher)},
        )
        for lane, queue in zip(experiment.lanes, queues, strict=True):
            function.add_event_source(
                aws_lambda_event_sources.SqsEventSource(
                    queue,
                    batch_size=1,
                    max_concurrency=max(2, experiment.slots),
                    report_batch_item_failures=True,
                )
            )
            cdk.CfnOutput(self, f"Queue{lane}", value=queue.queue_url)
        cdk.CfnOutput(self, "FunctionName", value=function.function_name)

    def _queue(self, lane: str, experiment: Experiment) -> aws_sqs.Queue:
        fifo = None if experiment.standard else True
        return aws_sqs.Queue(
            self,
            lane,
            fifo=fifo,
            visibility_timeout=VISIBILITY,
            dead_letter_queue=aws_sqs.DeadLetterQueue(
                queue=aws_sqs.Queue(self, f"{lane}Dead", fifo=fifo), max_receive_count=5
            ),
        )


class OursStack(cdk.Stack):
    """The lanes of the experiment and their function."""

    def __init__(self, scope: Construct, name: str, *, experiment: Experiment) -> None:
        super().__init__(scope, name)
        queues = LaneQueues(self, "Lanes", config=experiment.config)
        ledger = Ledger(self, "Ledger")
        consumer = PriorityConsumer(
            self, "Consumer", queues=queues, ledger=ledger, code=consumer_code(HERE / "ours")
        )
        LanesParameter(self, "Parameter", queues=queues, ledger=ledger)
        cdk.CfnOutput(self, "FunctionName", value=consumer.function.function_name)


app = cdk.App()
wanted = app.node.try_get_context("experiment") or "all"
for one in EXPERIMENTS:
    if wanted in ("all", one.name):
        PlainStack(app, f"plain-{one.name}", experiment=one)
        OursStack(app, f"ours-{one.name}", experiment=one)
app.synth()
