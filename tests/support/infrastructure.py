"""Stacks for the tests of the constructs, and functions that read their templates."""

import itertools
import json
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from aws_cdk import App, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk.assertions import Template

from cdk import LaneQueues, Ledger, PriorityConsumer
from lanes.config import Lane, LanesConfig

ROOT = Path(__file__).parents[2]
FUNCTION_FOLDER = ROOT / "lambdas" / "consumer"
# The CDK leaves its own temporary folders behind; this one is deleted at the end of the tests.
SYNTHESISED = tempfile.TemporaryDirectory(prefix="lanes-synth-", ignore_cleanup_errors=True)
NUMBERS = itertools.count()
TEMPLATES: dict[str, Template] = {}

QUEUE = "AWS::SQS::Queue"
FOREIGN_CODE = "def lambda_handler(event, context): return {'batchItemFailures': []}"


def new_app(**context: Any) -> App:
    """Make an app with this repository's feature flags, that bundles nothing."""
    settings = json.loads((ROOT / "cdk.json").read_text())["context"]
    return App(
        context={**settings, "aws:cdk:bundling-stacks": [], **context},
        outdir=str(Path(SYNTHESISED.name) / str(next(NUMBERS))),
    )


def lanes_config(count: int = 3, **consumer: Any) -> LanesConfig:
    """Make a configuration of so many lanes, named L0 (the highest), L1 and so on."""
    lanes = [{"name": f"L{number}", "threshold": 100 - 10 * number} for number in range(count)]
    del lanes[-1]["threshold"]
    return LanesConfig.from_dict({"lanes": lanes, "consumer": consumer})


def foreign_stack(
    config: LanesConfig, *, then: Callable[[Stack, LaneQueues, PriorityConsumer], object] | None = None
) -> Stack:
    """Make a stack of somebody else's app that uses the constructs on its own function code."""
    stack = Stack(new_app(), "Foreign")
    queues = LaneQueues(stack, "Lanes", config=config)
    consumer = PriorityConsumer(
        stack,
        "Consumer",
        queues=queues,
        ledger=Ledger(stack, "Ledger"),
        code=lambda_.Code.from_inline(FOREIGN_CODE),
        handler="index.lambda_handler",
    )
    if then is not None:
        then(stack, queues, consumer)
    return stack


def foreign_template(config: LanesConfig) -> Template:
    """Give the template of such a stack, synthesised once for each configuration."""
    key = repr(config)
    if key not in TEMPLATES:
        TEMPLATES[key] = Template.from_stack(foreign_stack(config))
    return TEMPLATES[key]


def resources(template: Template, kind: str) -> dict[str, dict[str, Any]]:
    """Return the properties of all resources of a type, by logical id."""
    return {name: resource["Properties"] for name, resource in template.find_resources(kind).items()}


def the_only(template: Template, kind: str) -> tuple[str, dict[str, Any]]:
    """Give logical id and properties of the only resource of a type."""
    ((name, properties),) = resources(template, kind).items()
    return name, properties


def statements(template: Template, role: str) -> list[dict[str, Any]]:
    """Return the policy statements of a role by the beginning of its logical id, actions and resources as lists."""
    return [
        {**statement, "Action": as_list(statement["Action"]), "Resource": as_list(statement["Resource"])}
        for policy in resources(template, "AWS::IAM::Policy").values()
        if any(attached["Ref"].startswith(role) for attached in policy["Roles"])
        for statement in policy["PolicyDocument"]["Statement"]
    ]


def allowed(template: Template, role: str) -> set[tuple[str, str]]:
    """Return pairs of an action and the resource that the role may use it on, as rendered text."""
    return {
        (action, render(resource))
        for statement in statements(template, role)
        for action in statement["Action"]
        for resource in statement["Resource"]
    }


def as_list(value: Any) -> list[Any]:
    """Return a list, whether the policy holds one value or a list."""
    return value if isinstance(value, list) else [value]


def render(value: Any) -> str:
    """Write a template's value as text: references as <LogicalId>, attributes as <LogicalId.Attribute>."""
    if not isinstance(value, Mapping):
        return str(value)
    if "Ref" in value:
        return f"<{value['Ref']}>"
    if "Fn::GetAtt" in value:
        return f"<{'.'.join(value['Fn::GetAtt'])}>"
    if "Fn::GetStackOutput" in value:
        return f"<{value['Fn::GetStackOutput']['OutputName']}>"
    if "Fn::Sub" in value:
        return str(value["Fn::Sub"]).replace("${", "<").replace("}", ">")
    separator, parts = value["Fn::Join"]
    return separator.join(render(part) for part in parts)


def live_function(template: Template, name: Any) -> str:
    """Give the logical id of the function behind the alias `live`, by the function name of a mapping."""
    (split, suffix) = name["Fn::Join"][1]
    alias = resources(template, "AWS::Lambda::Alias")[split["Fn::Select"][1]["Fn::Split"][1]["Ref"]]
    assert (suffix, alias["Name"]) == (":live", "live")
    version = resources(template, "AWS::Lambda::Version")[alias["FunctionVersion"]["Fn::GetAtt"][0]]
    assert version["FunctionName"] == alias["FunctionName"]
    return str(alias["FunctionName"]["Ref"])


def lane_queue(template: Template, lane: Lane) -> tuple[str, str]:
    """Give the logical ids of a lane's queue and dead-letter queue."""
    (name,) = [name for name in resources(template, QUEUE) if name.startswith(f"Lanes{lane.name}Queue")]
    policy = resources(template, QUEUE)[name]["RedrivePolicy"]
    return name, policy["deadLetterTargetArn"]["Fn::GetAtt"][0]


def lane_pairs(template: Template) -> dict[str, str]:
    """Give (queue, dead-letter queue) by logical id, following each redrive policy."""
    return {
        name: properties["RedrivePolicy"]["deadLetterTargetArn"]["Fn::GetAtt"][0]
        for name, properties in resources(template, QUEUE).items()
        if "RedrivePolicy" in properties
    }


def stack_with_producers(*lanes: str) -> tuple[Template, list[iam.Grant]]:
    """Make a stack in which one role was granted each of these lanes, or all when none is named."""
    stack = Stack(new_app(), "Stack")
    queues = LaneQueues(stack, "Lanes", config=lanes_config(3))
    role = iam.Role(stack, "Producer", assumed_by=iam.AccountRootPrincipal())
    grants = [queues.grant_send(role, lane) for lane in lanes or (None,)]
    return Template.from_stack(stack), grants
