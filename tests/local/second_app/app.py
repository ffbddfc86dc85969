"""A tiny CDK app that knows nothing of this project: one FIFO queue mapped to one Python function."""

from pathlib import Path

import aws_cdk as cdk
from aws_cdk import aws_dynamodb, aws_lambda, aws_lambda_event_sources, aws_sqs
from constructs import Construct


class JobsStack(cdk.Stack):
    """A queue without a name, its dead-letter queue, a table and the function that handles the jobs."""

    def __init__(self, scope: Construct, name: str, *, stage: str) -> None:
        super().__init__(scope, name)
        dead = aws_sqs.Queue(self, "DeadJobs", fifo=True, enforce_ssl=True)
        queue = aws_sqs.Queue(
            self,
            "Jobs",
            fifo=True,
            enforce_ssl=True,
            visibility_timeout=cdk.Duration.seconds(60 if stage == "first" else 90),
            dead_letter_queue=aws_sqs.DeadLetterQueue(queue=dead, max_receive_count=5),
        )
        table = aws_dynamodb.Table(
            self,
            "Done",
            partition_key=aws_dynamodb.Attribute(name="pk", type=aws_dynamodb.AttributeType.STRING),
            billing_mode=aws_dynamodb.BillingMode.PAY_PER_REQUEST,
            time_to_live_attribute="expires_at",
        )
        function = aws_lambda.Function(
            self,
            "Worker",
            runtime=aws_lambda.Runtime.PYTHON_3_13,
            handler="worker.handle",
            code=aws_lambda.Code.from_asset(str(Path(__file__).parent / "function")),
            timeout=cdk.Duration.seconds(5),
            reserved_concurrent_executions=1 if stage == "first" else 2,
            environment={"STAGE": stage, "TABLE": table.table_name},
        )
        table.grant_write_data(function)
        function.add_event_source(
            aws_lambda_event_sources.SqsEventSource(
                queue, batch_size=10, max_concurrency=2, report_batch_item_failures=True
            )
        )
        cdk.CfnOutput(self, "JobsUrl", value=queue.queue_url)
        cdk.CfnOutput(self, "TableName", value=table.table_name)
        cdk.CfnOutput(self, "FunctionName", value=function.function_name)


app = cdk.App()
JobsStack(app, "SecondApp", stage=app.node.get_context("stage"))
app.synth()
