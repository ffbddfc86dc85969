"""Roles that this app did not make for its functions: of another stack, imported, fixed, or without a policy."""

import json
import re
from functools import reduce

import pytest
from aws_cdk import CfnElement, Duration, Stack, Validations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from aws_cdk.assertions import Annotations, Match, Template
from cdk_nag import AwsSolutionsChecks, ServerlessChecks

from cdk import BulkEnqueue, LaneQueues, LanesParameter, Ledger, Outbox, PriorityConsumer, Schedules
from lanes.errors import ConfigurationError
from tests.support.infrastructure import FOREIGN_CODE, as_list, lanes_config, new_app, render, resources

ARN = "arn:aws:iam::123456789012:role/theirs"
CODE = {"code": lambda_.Code.from_inline(FOREIGN_CODE), "handler": "index.lambda_handler"}


@pytest.fixture
def app():
    """Give an app that bundles nothing."""
    return new_app()


def add_functions(stack, role, *, key=None, **more):
    """Add lanes with schedules, their consumer and an outbox, whose functions have this role; return the tables."""
    queues = LaneQueues(stack, "Lanes", config=lanes_config(2, engine="pull"), encryption_key=key)
    ledger = Ledger(stack, "Ledger", encryption_key=key)
    how = {"queues": queues, "ledger": ledger, **({"role": role} if role else {}), **CODE, **more}
    PriorityConsumer(stack, "Consumer", schedules=Schedules(stack, "Schedules", queues=queues), **how)
    Outbox(stack, "Outbox", **how)


def rights(statements):
    """Give pairs of an action and what it is allowed on."""
    return {
        (action, render(resource))
        for one in statements
        for action in as_list(one["Action"])
        for resource in as_list(one["Resource"])
    }


def policies(stack):
    """Give the rights of all policies of a stack, by their logical ids."""
    found = resources(Template.from_stack(stack), "AWS::IAM::Policy")
    return {name: rights(one["PolicyDocument"]["Statement"]) for name, one in found.items()}


def made_by_themselves(*, key=False, **more):
    """Give the rights of functions with roles of their own."""
    stack = Stack(new_app(), "Orders")
    add_functions(stack, None, key=kms.Key(stack, "Key") if key else None, **more)
    found = policies(stack)
    return set().union(*(one for name, one in found.items() if not name.startswith("Schedules")))


def role_of(stack, name="Theirs"):
    """Make a role that Lambda may assume."""
    return iam.Role(stack, name, assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))


@pytest.mark.parametrize(
    "make", [role_of, lambda stack: iam.Role.from_role_arn(stack, "Theirs", ARN)], ids=["made", "imported"]
)
def test_a_role_of_another_stack_gets_its_rights_in_this_one(app, make):
    """There they would refer to the lanes, and the lanes refer to the role."""
    theirs, stack = Stack(app, "Roles"), Stack(app, "Orders")
    add_functions(stack, make(theirs))
    Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))

    app.synth()

    found = policies(stack)
    assert set().union(*(found[name] for name in found if not name.startswith("Schedules"))) == (
        made_by_themselves()
    )
    functions = Template.from_stack(stack).find_resources("AWS::Lambda::Function").values()
    assert all(any(name in one["DependsOn"] for name in found) for one in functions)


def missing(stack):
    """Give the statements of the warnings of a stack."""
    found = Annotations.from_stack(stack).find_warning("*", Match.string_like_regexp("can't be changed"))
    texts = [one.entry.data.partition("is a value of this app: ")[2].rpartition(" [ack")[0] for one in found]
    return [json.loads(text) for text in texts]


def in_template(stack, text):
    """Write the places in a text to paste as `render` writes references."""

    def reference(found):
        path, dot, attribute = found[1].partition(".")
        if path.startswith("AWS::"):
            return f"<{path}>"
        node = reduce(lambda node, name: node.node.find_child(name), path.split("/"), stack.node.root)
        made = node if isinstance(node, CfnElement) else node.node.default_child
        return f"<{stack.get_logical_id(made)}{dot}{attribute}>"

    return re.sub(r"\$\{([^}]+)\}", reference, text)


@pytest.mark.parametrize("key", [pytest.param(False, marks=pytest.mark.deep), True])
@pytest.mark.parametrize(
    "make",
    [
        lambda stack: iam.Role.from_role_arn(stack, "Theirs", ARN, mutable=False),
        lambda stack: role_of(stack).without_policy_updates(),
    ],
    ids=["imported", "made"],
)
def test_the_rights_that_a_fixed_role_lacks_are_printed(app, make, key):
    """All that functions with roles of their own have, as a policy to paste; it was silence."""
    stack = Stack(app, "Orders")
    traced = {"tracing": lambda_.Tracing.ACTIVE}
    add_functions(stack, make(stack), key=kms.Key(stack, "Key") if key else None, **traced)

    found = missing(stack)

    assert len(found) == 2
    assert {*policies(stack)} == {name for name in policies(stack) if name.startswith("Schedules")}
    printed = set().union(*(rights(one["Statement"]) for one in found))
    assert {(action, in_template(stack, resource)) for action, resource in printed} == made_by_themselves(
        key=key, **traced
    )


def test_what_is_printed_to_paste_names_places_of_the_app(app):
    """A logical id is known in its own template alone, and the role's is another one, as is that of a key."""
    theirs, stack = Stack(app, "Shared"), Stack(app, "Orders")
    letters = sqs.Queue(theirs, "Letters", fifo=True)
    queue = sqs.Queue(
        theirs,
        "Queue",
        fifo=True,
        visibility_timeout=Duration.hours(1),
        dead_letter_queue=sqs.DeadLetterQueue(queue=letters, max_receive_count=1000),
    )
    key = kms.Key.from_key_arn(stack, "Key", "arn:aws:kms:eu-central-1:123456789012:key/theirs")
    lanes = LaneQueues(stack, "Lanes", config=lanes_config(2), existing={"L0": queue}, encryption_key=key)
    ledger = Ledger(stack, "Ledger", encryption_key=key)
    role = role_of(theirs).without_policy_updates()
    PriorityConsumer(stack, "Consumer", queues=lanes, ledger=ledger, role=role, **CODE)
    lanes.grant_send(iam.AccountPrincipal("210987654321"), "L1")

    printed = missing(stack)

    text = json.dumps(printed)
    assert "Fn::" not in text
    assert '"Ref"' not in text
    (policy,) = [one for one in printed if "Statement" in one]
    places = {resource for one in policy["Statement"] for resource in as_list(one["Resource"])}
    assert {
        "${Shared/Queue.Arn}",
        "${Shared/Letters.Arn}",
        "${Orders/Lanes/L1/Queue.Arn}",
        "${Orders/Ledger/Table.Arn}",
        key.key_arn,
    } <= places
    assert "sqs.${AWS::Region}.${AWS::URLSuffix}" in text


def test_a_path_of_a_role_of_another_stack_is_refused(app):
    """Its name can't be read from its ARN before it is deployed, and the policy would name no role."""
    role = iam.Role(
        Stack(app, "Roles"), "Theirs", path="/shop/", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com")
    )

    with pytest.raises(ConfigurationError, match="Roles/Theirs of another stack has the path /shop/"):
        add_functions(Stack(app, "Orders"), role)


@pytest.mark.parametrize("to", ["follow", "keep", "add", "send later", "read", "start"])
def test_a_grant_to_somebody_without_a_policy_is_refused(app, to):
    """An account has none in this app; it would have been granted nothing, without a word."""
    stack, account = Stack(app, "Orders"), iam.AccountPrincipal("210987654321")
    queues, ledger = LaneQueues(stack, "Lanes", config=lanes_config(2)), Ledger(stack, "Ledger")
    parameter = LanesParameter(stack, "Parameter", queues=queues, ledger=ledger)
    grant = {
        "follow": ledger.grant_follow,
        "keep": ledger.grant_keep,
        "add": lambda who: Outbox(stack, "Outbox", queues=queues, ledger=ledger, **CODE).grant_add(who),
        "send later": lambda who: Schedules(stack, "Schedules", queues=queues).grant_send_later(who),
        "read": parameter.grant_read,
        "start": lambda who: BulkEnqueue(stack, "Bulk", queues=queues, ledger=ledger).grant_start(who),
    }[to]

    with pytest.raises(ConfigurationError, match="can't be granted"):
        grant(account)
