"""Lanes on queues that exist already: what this app knows of them is checked, and every construct works with them."""

import json

import pytest
from aws_cdk import CfnParameter, Duration, Environment, Fn, Stack
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from aws_cdk.assertions import Annotations, Match, Template

from cdk import LaneQueues, LanesParameter, Ledger, Observability, PriorityConsumer, PriorityLanesStack
from lanes.errors import ConfigurationError
from tests.support.infrastructure import (
    FOREIGN_CODE,
    FUNCTION_FOLDER,
    allowed,
    lanes_config,
    new_app,
    render,
    resources,
)

ARN = "arn:aws:sqs:eu-central-1:123456789012:orders.fifo"
DEAD_ARN = "arn:aws:sqs:eu-central-1:123456789012:orders-dead.fifo"
HERE = Environment(region="eu-central-1", account="123456789012")
EXISTING = {"existing": {"L0": ARN}, "dead_letter_queues": {"L0": DEAD_ARN}}


@pytest.fixture
def app():
    """Give an app that bundles nothing."""
    return new_app()


@pytest.fixture
def stack(app):
    """Give the stack of the lanes, of which region and account are known."""
    return Stack(app, "Lanes", env=HERE)


@pytest.fixture
def old(app):
    """Give the stack of the existing queues."""
    return Stack(app, "Old", env=HERE)


def owned(scope, *, dead=True, receives=1000, **props):
    """Add a queue to another stack, as a lane needs it unless `props` say otherwise."""
    letters = None
    if dead:
        target = sqs.Queue(scope, "Dead", fifo=True)
        letters = sqs.DeadLetterQueue(queue=target, max_receive_count=receives)
    settings = {"fifo": True, "visibility_timeout": Duration.minutes(3), **props}
    return sqs.Queue(scope, "Orders", dead_letter_queue=letters, **settings)


def problems_of(stack, **props):
    """Give the problems of lanes with such queues."""
    with pytest.raises(ConfigurationError) as caught:
        LaneQueues(stack, "Lanes", config=lanes_config(2), **props)
    return caught.value.problems


def everything(stack, **props):
    """Add all constructs that use the queues."""
    queues = LaneQueues(stack, "Lanes", config=lanes_config(2), **props)
    ledger = Ledger(stack, "Ledger")
    consumer = PriorityConsumer(
        stack,
        "Consumer",
        queues=queues,
        ledger=ledger,
        code=lambda_.Code.from_inline(FOREIGN_CODE),
        handler="index.lambda_handler",
    )
    LanesParameter(stack, "Parameter", queues=queues, ledger=ledger)
    Observability(stack, "Observability", queues=queues, consumer=consumer)
    return queues


def test_a_queue_by_its_arn_is_the_lane_s_in_mapping_rights_parameter_and_alarms(stack):
    """Nothing is defined for it, and everything is about it."""
    queues = everything(stack, **EXISTING)
    queues.grant_send(iam.Role(stack, "Producer", assumed_by=iam.AccountRootPrincipal()), "L0")

    template = Template.from_stack(stack)

    assert {name[:7] for name in resources(template, "AWS::SQS::Queue")} == {"LanesL1"}
    template.has_resource_properties("AWS::Lambda::EventSourceMapping", {"EventSourceArn": ARN})
    rights = allowed(template, "ConsumerRole")
    assert {action for action, resource in rights if resource == ARN} == {
        "sqs:ReceiveMessage",
        "sqs:DeleteMessage",
        "sqs:ChangeMessageVisibility",
        "sqs:GetQueueAttributes",
        "sqs:SendMessage",
    }
    assert ("sqs:SendMessage", DEAD_ARN) in rights
    assert allowed(template, "Producer") == {("sqs:SendMessage", ARN)}
    (parameter,) = resources(template, "AWS::SSM::Parameter").values()
    queues_of = json.loads(render(parameter["Value"]))["queues"]
    assert queues_of["L0"] == {
        "url": "https://sqs.eu-central-1.<AWS::URLSuffix>/123456789012/orders.fifo",
        "dead_letter_url": "https://sqs.eu-central-1.<AWS::URLSuffix>/123456789012/orders-dead.fifo",
        "existing": True,
    }
    assert "existing" not in queues_of["L1"]
    alarms = {
        render(alarm["AlarmName"]): alarm for alarm in resources(template, "AWS::CloudWatch::Alarm").values()
    }
    (dead,) = (alarm for name, alarm in alarms.items() if name.endswith("L0DeadLetters"))
    assert dead["Dimensions"] == [{"Name": "QueueName", "Value": "orders-dead.fifo"}]
    (oldest,) = (alarm for name, alarm in alarms.items() if name.endswith("L0OldestAge"))
    assert oldest["Dimensions"] == [{"Name": "QueueName", "Value": "orders.fifo"}]


def test_a_queue_of_another_stack_brings_its_dead_letter_queue_and_retention(stack, old):
    """What the app defines needs to be given once."""
    queue = owned(old, retention_period=Duration.days(14))

    queues = everything(stack, existing={"L0": queue})

    lane = queues.lane("L0")
    assert lane.dead_letter_queue.node.path == "Old/Dead"
    assert lane.retention.days == 14
    assert "AWS::SQS::Queue" in str(Template.from_stack(old).to_json())
    assert {name[:7] for name in resources(Template.from_stack(stack), "AWS::SQS::Queue")} == {"LanesL1"}


def test_a_queue_with_a_key_grants_the_key_too(stack, old):
    """Of the queue by its construct, and of one by its ARN where the key is given."""
    key = kms.Key(old, "Key")
    key_arn = "arn:aws:kms:eu-central-1:123456789012:key/1"
    foreign = sqs.Queue.from_queue_attributes(stack, "Foreign", queue_arn=ARN, key_arn=key_arn)
    everything(
        stack,
        existing={"L0": foreign, "L1": owned(old, encryption_master_key=key)},
        dead_letter_queues={"L0": DEAD_ARN},
    )

    rights = allowed(Template.from_stack(stack), "ConsumerRole")

    assert {action for action, resource in rights if resource == key_arn} == {
        "kms:Decrypt",
        "kms:GenerateDataKey",
    }
    assert {action for action, resource in rights if "Key" in resource} >= {
        "kms:Decrypt",
        "kms:GenerateDataKey",
    }


def test_names_that_are_not_lanes_and_texts_that_are_not_arns_are_refused_at_once(stack):
    """Each with the value, and what is allowed."""
    problems = problems_of(
        stack,
        existing={"HIGH": ARN, "L0": "https://sqs.eu-central-1.amazonaws.com/123456789012/orders.fifo"},
        dead_letter_queues={"L1": DEAD_ARN},
    )

    url = "https://sqs.eu-central-1.amazonaws.com/123456789012/orders.fifo"
    advice = f"which is not the ARN of an SQS queue; pass one, such as {ARN}, or an aws_sqs.Queue"
    assert problems == [
        "existing has 'HIGH', which is not a lane; the lanes are L0, L1",
        f"existing has {url!r} for L0, {advice}",
        "dead_letter_queues has L1, and existing has not; add its queue to existing",
    ]


def test_a_dead_letter_queue_that_is_not_known_is_asked_for(stack, old):
    """An ARN says nothing of it, and a queue of this app may have none."""
    problems = problems_of(stack, existing={"L0": ARN, "L1": owned(old, dead=False)})

    assert problems == [
        f"lane L0: {ARN} comes without its dead-letter queue; add that to dead_letter_queues",
        "lane L1: Old/Orders has no dead-letter queue; give it a FIFO one with a max_receive_count of 1000",
    ]


@pytest.mark.parametrize(
    ("arn", "problem"),
    [
        (ARN.removesuffix(".fifo"), "is a standard queue; a lane needs FIFO queues"),
        (ARN.replace("central", "west"), "is in the region eu-west-1 and the stack in eu-central-1"),
        (ARN.replace("9012", "9999"), "is in the account 123456789999 and the stack in 123456789012"),
        (DEAD_ARN, "is for lane L0 and for dead letters of L0; each needs its own queue"),
    ],
)
def test_an_arn_with_which_a_queue_cannot_be_a_lane_is_refused(stack, arn, problem):
    """Type, region and account are in it."""
    (found,) = problems_of(stack, existing={"L0": arn}, dead_letter_queues={"L0": DEAD_ARN})

    assert arn in found
    assert problem in found


@pytest.mark.parametrize(
    ("props", "problem"),
    [
        ({"visibility_timeout": None}, "has a visibility timeout of 30s, under the lane's of 3m"),
        (
            {"receives": 3},
            "has a max_receive_count of 3, which a message that only yields or waits for a resource",
        ),
        ({"receives": 717}, "set at least 718 where the queue is defined"),
        ({"encryption": sqs.QueueEncryption.UNENCRYPTED}, "is not encrypted"),
    ],
)
def test_settings_of_a_queue_in_this_app_that_a_lane_does_not_bear_are_refused(stack, old, props, problem):
    """Known at synth, so the deployment never gets there."""
    (found,) = problems_of(stack, existing={"L0": owned(old, **props)})

    assert found.startswith("lane L0: Old/Orders ")
    assert problem in found


def test_a_standard_queue_of_this_app_is_refused(stack, old):
    """Its dead-letter queue is one as well."""
    letters = sqs.DeadLetterQueue(queue=sqs.Queue(old, "Dead"), max_receive_count=1000)
    queue = sqs.Queue(old, "Orders", dead_letter_queue=letters, visibility_timeout=Duration.minutes(3))

    problems = problems_of(stack, existing={"L0": queue})

    assert [problem.partition("; ")[0] for problem in problems] == [
        "lane L0: Old/Orders is a standard queue",
        "lane L0: Old/Dead is a standard queue",
    ]


def test_another_dead_letter_queue_than_the_queue_s_own_is_refused(stack, old):
    """SQS would move messages to one, the consumer to the other."""
    (found,) = problems_of(stack, existing={"L0": owned(old)}, dead_letter_queues={"L0": DEAD_ARN})

    assert f"has the dead-letter queue Old/Dead, and dead_letter_queues says {DEAD_ARN}" in found


def test_two_lanes_with_one_dead_letter_queue_are_refused(stack):
    """A redrive of one would send the other's messages to the wrong lane."""
    other = ARN.replace("orders", "refunds")

    (found,) = problems_of(
        stack, existing={"L0": ARN, "L1": other}, dead_letter_queues={"L0": DEAD_ARN, "L1": DEAD_ARN}
    )

    assert (
        found == f"{DEAD_ARN} is for dead letters of L0 and for dead letters of L1; each needs its own queue"
    )


def test_what_only_the_deployment_knows_passes_the_synthesis(app):
    """An import of another app, a parameter of the template, and a stack for any account; `lanes check` sees them."""
    stack = Stack(app, "Anywhere")
    hides = CfnParameter(stack, "Hides", type="Number").value_as_number
    queue = owned(stack, visibility_timeout=Duration.minutes(3))
    queue.node.default_child.visibility_timeout = hides
    queue.node.default_child.message_retention_period = hides

    queues = everything(
        stack,
        existing={"L0": Fn.import_value("OrdersArn"), "L1": queue},
        dead_letter_queues={"L0": DEAD_ARN},
    )

    assert [lane.retention.days for lane in queues.lanes] == [4, 4]
    assert "OrdersArn" in str(Template.from_stack(stack).to_json())


def test_content_based_deduplication_is_left_to_its_senders_and_noted(stack, old):
    """They may depend on it, and our ids are explicit."""
    LaneQueues(
        stack,
        "Lanes",
        config=lanes_config(2),
        existing={"L0": owned(old, content_based_deduplication=True)},
    )

    Annotations.from_stack(stack).has_info(
        "/Lanes/Lanes", Match.string_like_regexp("Old/Orders has content-based deduplication")
    )


def add_rule(stack, queue):
    """Let a rule of EventBridge target a queue."""
    schedule = events.Schedule.rate(Duration.days(1))
    events.Rule(
        stack, "Rule", schedule=schedule, targets=[targets.SqsQueue(queue, message_group_id="nightly")]
    )


def test_a_rule_may_target_an_existing_queue_that_makes_deduplication_ids(app, stack):
    """It did so before the queue became a lane."""
    queue = owned(stack, content_based_deduplication=True)
    LaneQueues(stack, "Lanes", config=lanes_config(2), existing={"L0": queue})
    add_rule(stack, queue)

    app.synth()


def test_a_rule_on_an_existing_queue_that_makes_none_is_refused(app, stack):
    """As on every lane."""
    queue = owned(stack)
    LaneQueues(stack, "Lanes", config=lanes_config(2), existing={"L0": queue})
    add_rule(stack, queue)

    with pytest.raises(RuntimeError, match="targets the lane L0"):
        app.synth()


@pytest.mark.parametrize("how", ["by construct", "by ARN", "a lane's", "dead letters", "by name"])
def test_a_queue_of_two_sets_of_lanes_is_refused(app, stack, old, how):
    """Each function would take messages of the other's; found in one set alone before."""
    queue, other = owned(old), Stack(app, "Other", env=HERE)
    props = {
        "by construct": {"existing": {"L0": queue}},
        "by ARN": EXISTING,
        "dead letters": {"existing": {"L0": ARN}, "dead_letter_queues": {"L0": DEAD_ARN}},
        "by name": {"queue_names": {"L0": "orders.fifo"}},
    }.get(how, {})
    one = LaneQueues(stack, "Lanes", config=lanes_config(2), **props)
    if how == "a lane's":
        props = {"existing": {"L1": one.lane("L1").queue}}
    if how == "dead letters":
        props = {"existing": {"L1": f"{ARN[:-5]}-2.fifo"}, "dead_letter_queues": {"L1": DEAD_ARN}}
    LaneQueues(other, "Lanes", config=lanes_config(2), **props)
    LaneQueues(Stack(app, "Apart", env=Environment(account="1" * 12)), "Lanes", config=lanes_config(2))

    with pytest.raises(RuntimeError, match=r"\[Other/Lanes\] .* is for .* of Lanes/Lanes: each function"):
        app.synth()


def test_a_grant_that_only_the_owner_of_a_queue_can_give_is_refused(stack):
    """The CDK would do nothing, and say nothing."""
    queues = LaneQueues(stack, "Lanes", config=lanes_config(2), **EXISTING)

    with pytest.raises(
        ConfigurationError, match=f"can't be granted {ARN}.*let the owner of the queue allow it"
    ):
        queues.grant_send(iam.AccountPrincipal("999999999999"), "L0")
    queues.grant_send(iam.AccountPrincipal("999999999999"), "L1")


def test_a_queue_of_this_app_grants_another_account_by_its_own_policy(stack, old):
    """Where the app defines the queue, it defines its policy too."""
    queues = LaneQueues(stack, "Lanes", config=lanes_config(2), existing={"L0": owned(old)})

    queues.grant_send(iam.AccountPrincipal("999999999999"), "L0")

    assert "999999999999" in str(resources(Template.from_stack(old), "AWS::SQS::QueuePolicy"))


def test_the_whole_stack_passes_existing_queues_on(app):
    """As `LaneQueues` takes them, and its outputs name them."""
    stack = PriorityLanesStack(
        app, "Whole", config=lanes_config(2), function_folder=FUNCTION_FOLDER, **EXISTING
    )

    (output,) = Template.from_stack(stack).find_outputs("L0QueueUrl").values()

    assert stack.queues.lane("L0").is_existing
    assert render(output["Value"]).endswith("/123456789012/orders.fifo")
