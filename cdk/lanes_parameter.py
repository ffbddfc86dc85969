"""
The lanes parameter: where producers and tools find the lanes of a deployment.

Owns the construct ``LanesParameter`` and the deployment document in it, which is also what the consumer's
function gets: the configuration, the queues' URLs and the ledger table's name.
"""

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from lanes import deployment

from .lane_queues import LaneQueues
from .ledger import Ledger
from .outbox_table import OutboxTable


def deployment_document(*, queues: LaneQueues, ledger: Ledger, outbox: OutboxTable | None = None) -> str:
    """
    Write the deployment document, with CloudFormation's references in place of the URLs.

    Args:
        queues: The lanes' queues.
        ledger: The consumer's table.
        outbox: The table of the outbox, if there is one.

    Returns:
        JSON, to be used in a template only.

    """
    return deployment.Deployment(
        config=queues.config,
        queues={
            lane_queue.lane.name: deployment.LaneQueues(
                url=lane_queue.queue.queue_url, dead_letter_url=lane_queue.dead_letter_queue.queue_url
            )
            for lane_queue in queues.lanes
        },
        table=ledger.table.table_name,
        outbox=None if outbox is None else outbox.table.table_name,
    ).to_json()


class LanesParameter(Construct):
    """
    An SSM parameter with the deployment document.

    ``Producer.from_stack("<stack name>")`` reads the parameter ``/lanes/<stack name>``, which is why it has a
    name.

    Example:
        >>> parameter = LanesParameter(stack, "Parameter", queues=queues, ledger=ledger)
        >>> parameter.grant_read(order_service_role)

    Args:
        scope: The construct that holds this one.
        construct_id: Its id there.
        queues: The lanes' queues.
        ledger: The consumer's table.
        outbox: The table of the outbox, none by default.
        parameter_name: The parameter's name, ``/lanes/<stack name>`` by default.

    Attributes:
        parameter: The parameter.

    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        queues: LaneQueues,
        ledger: Ledger,
        outbox: OutboxTable | None = None,
        parameter_name: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        stack = Stack.of(self)
        self.parameter = ssm.StringParameter(
            self,
            "Parameter",
            parameter_name=parameter_name or f"/lanes/{stack.stack_name}",
            description=f"Settings, queues and table of the lanes of {stack.stack_name}",
            string_value=deployment_document(queues=queues, ledger=ledger, outbox=outbox),
        )

    def grant_read(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let ``grantee`` read where the lanes are, as ``Producer.from_stack`` does before it sends."""
        return iam.Grant.add_to_principal(
            grantee=grantee, actions=["ssm:GetParameter"], resource_arns=[self.parameter.parameter_arn]
        )
