"""
The lanes parameter: where producers and tools find the lanes of a deployment.

Its value is the deployment document: the configuration, the queue URLs and the table names. The consumer's function
gets the same document.
"""

import hashlib
import json
import re
from collections.abc import Mapping

from aws_cdk import Stack, Token
from aws_cdk import aws_iam as iam
from aws_cdk import aws_ssm as ssm
from constructs import Construct

from lanes.config import deployment
from lanes.errors import ConfigurationError
from lanes.schedules import Scheduler

from .props import checked
from .queues.lane_queues import LaneQueues
from .schedules import Schedules
from .tables.ledger import Ledger
from .tables.outbox import OutboxTable

# AWS: all environment variables of a function together take at most 4 KB (Lambda Developer Guide, quotas), and an
# advanced parameter 8 KB (Systems Manager User Guide, "Managing parameter tiers").
ENVIRONMENT_LIMIT_BYTES = 4096
PARAMETER_LIMIT_BYTES = 8192
# AWS: a queue name has at most 80 characters, and its URL 60 more; that is the size of a deployed reference.
REFERENCE_BYTES = 140
TOKEN = re.compile(r"\$\{Token\[[^\]]+\]\}")


def deployment_document(
    *,
    queues: LaneQueues,
    ledger: Ledger,
    outbox: OutboxTable | None = None,
    scheduler: Scheduler | None = None,
) -> str:
    """
    Write the deployment document, with CloudFormation references as URLs and names.

    Args:
        queues: The queues of the lanes.
        ledger: The table of the consumer.
        outbox: The table of the outbox, or None.
        scheduler: The group, role and queue of EventBridge Scheduler, or None.

    Returns:
        JSON for use in a template.

    """
    return deployment.Deployment(
        config=queues.config,
        queues={
            lane_queue.lane.name: deployment.LaneQueues(
                url=lane_queue.queue.queue_url,
                dead_letter_url=lane_queue.dead_letter_queue.queue_url,
                existing=lane_queue.is_existing,
            )
            for lane_queue in queues.lanes
        },
        table=ledger.table.table_name,
        outbox=None if outbox is None else outbox.table.table_name,
        bell=None if queues.bell is None else queues.bell.queue.queue_url,
        scheduler=scheduler,
    ).to_json()


def fit_environment(
    scope: Construct, variables: Mapping[str, str], *, table: str
) -> tuple[dict[str, str], ssm.StringParameter | None]:
    """
    Move the deployment document into a parameter if a function's variables would take more than Lambda allows.

    Args:
        scope: The construct with the function.
        variables: All variables of the function.
        table: The name of the ledger's table.

    Returns:
        The variables, and the parameter that the function has to read, or None.

    Raises:
        ConfigurationError: They are too large all the same, or the document is for a parameter.

    """
    if sum(size_of(name) + size_of(value) for name, value in variables.items()) <= ENVIRONMENT_LIMIT_BYTES:
        return dict(variables), None
    document = variables[deployment.VARIABLE]
    _refuse_large(document)
    # Another document is another parameter: versions of the function that still run keep theirs until the end.
    stack = Stack.of(scope)
    content = json.dumps([scope.node.path, stack.resolve(document)])
    digest = hashlib.sha256(content.encode()).hexdigest()[:8]
    parameter = ssm.StringParameter(
        scope,
        f"Deployment{digest}",
        parameter_name=f"/lanes/{stack.stack_name}/{digest}",
        # The name of a nested stack has no fixed beginning.
        simple_name=False,
        description=f"Settings, queues and table of the lanes, for {scope.node.path}",
        string_value=document,
        tier=ssm.ParameterTier.INTELLIGENT_TIERING,
    )
    pointer = deployment.pointer(parameter.parameter_name, table=table)
    fitted = {**variables, deployment.VARIABLE: pointer}
    size = sum(size_of(name) + size_of(value) for name, value in fitted.items())
    if size > ENVIRONMENT_LIMIT_BYTES:
        problem = (
            f"the function's environment can take {size} bytes and Lambda allows {ENVIRONMENT_LIMIT_BYTES}; keep your "
            "own settings in a parameter"
        )
        raise ConfigurationError([problem])
    return fitted, parameter


def size_of(text: str) -> int:
    """Give the most bytes that a text can take once its references are replaced."""
    return len(TOKEN.sub(REFERENCE_BYTES * "x", text).encode())


def _refuse_large(document: str) -> None:
    if (size := size_of(document)) > PARAMETER_LIMIT_BYTES:
        problem = (
            f"the lanes' document can take {size} bytes, and a parameter holds {PARAMETER_LIMIT_BYTES}; use fewer "
            "lanes, of which some twenty fit"
        )
        raise ConfigurationError([problem])


class LanesParameter(Construct):
    """
    An SSM parameter with the deployment document.

    It has a fixed name because ``Producer.from_stack("<stack name>")`` reads ``/lanes/<stack name>``.

    Example:
        >>> parameter = LanesParameter(stack, "Parameter", queues=queues, ledger=ledger)
        >>> parameter.grant_read(order_service_role)

    Args:
        scope: The parent construct.
        construct_id: The id in the parent.
        queues: The queues of the lanes.
        ledger: The table of the consumer.
        outbox: The table of the outbox, none by default.
        schedules: The schedules, none by default.
        parameter_name: The name of the parameter, ``/lanes/<stack name>`` by default. Required in a nested stack,
            which has a name only once it is deployed.

    Raises:
        ConfigurationError: The stack has no name and ``parameter_name`` is missing, or there are too many lanes.

    Attributes:
        parameter: The parameter.

    """

    @checked
    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        queues: LaneQueues,
        ledger: Ledger,
        outbox: OutboxTable | None = None,
        schedules: Schedules | None = None,
        parameter_name: str | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        stack = Stack.of(self)
        if parameter_name is None and Token.is_unresolved(stack.stack_name):
            problem = (
                f"the nested stack {stack.node.path} has no name before it is deployed; set parameter_name of "
                f"{self.node.path}, for example '/lanes/Orders', which Producer.from_stack('Orders') finds"
            )
            raise ConfigurationError([problem])
        document = deployment_document(
            queues=queues,
            ledger=ledger,
            outbox=outbox,
            scheduler=None if schedules is None else schedules.scheduler,
        )
        _refuse_large(document)
        self.parameter = ssm.StringParameter(
            self,
            "Parameter",
            parameter_name=parameter_name or f"/lanes/{stack.stack_name}",
            description=f"Settings, queues and table of the lanes of {stack.stack_name}",
            string_value=document,
            # AWS: the standard tier holds 4 KB and is free; a larger value makes this one advanced.
            tier=ssm.ParameterTier.INTELLIGENT_TIERING,
        )

    def grant_read(self, grantee: iam.IGrantable) -> iam.Grant:
        """
        Let ``grantee`` read the parameter, as ``Producer.from_stack`` does before it sends.

        Raises:
            ConfigurationError: No policy of this stack can allow it, for example an account or a service.

        """
        grant = iam.Grant.add_to_principal(
            grantee=grantee, actions=["ssm:GetParameter"], resource_arns=[self.parameter.parameter_arn]
        )
        # AWS: a parameter of the standard tier has no policy of its own, so only one of the reader can allow it
        # (Systems Manager User Guide, "Working with shared parameters").
        if not grant.success:
            problem = (
                f"{grantee.grant_principal} can't be granted {self.node.path}, since it has no policy in this app; "
                "grant it to a role, or give a producer of another account the parameter's value in the variable "
                "LANES_DEPLOYMENT"
            )
            raise ConfigurationError([problem])
        return grant
