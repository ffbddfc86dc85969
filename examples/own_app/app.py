"""Your own CDK app: your function code, permissions to send, and actions of alarms."""

from pathlib import Path

from aws_cdk import App, Stack
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_sns as sns
from constructs import Construct
from lanes_cdk import (
    LaneQueues,
    LanesParameter,
    Ledger,
    Observability,
    PriorityConsumer,
    Severity,
    consumer_code,
)

from lanes import LanesConfig

HERE = Path(__file__).parent


class OrdersStack(Stack):
    """Two lanes, their function, and a role for the service that sends."""

    def __init__(self, scope: Construct, name: str) -> None:
        super().__init__(scope, name)
        config = LanesConfig.load(HERE / "lanes.toml")
        queues = LaneQueues(self, "Lanes", config=config)
        ledger = Ledger(self, "Ledger")
        consumer = PriorityConsumer(
            self,
            "Consumer",
            queues=queues,
            ledger=ledger,
            code=consumer_code(HERE.parent / "orders"),
            environment={"BANK": "https://bank.example"},
        )

        parameter = LanesParameter(self, "Parameter", queues=queues, ledger=ledger)
        backfill = iam.Role(self, "Backfill", assumed_by=iam.AccountRootPrincipal())
        queues.grant_send(backfill, "REST")
        parameter.grant_read(backfill)

        on_call = sns.Topic(self, "OnCall", enforce_ssl=True)
        Observability(
            self,
            "Observability",
            queues=queues,
            consumer=consumer,
            actions={Severity.CRITICAL: [actions.SnsAction(on_call)]},
        )


app = App()
OrdersStack(app, "Orders")
app.synth()
