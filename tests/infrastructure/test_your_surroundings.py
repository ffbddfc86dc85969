"""What an app brings along: a VPC, a role, layers, tracing, keys, other stacks, rules that send events."""

import json
from functools import partial

import pytest
from aws_cdk import App, Environment, NestedStack, Stack
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from aws_cdk import aws_sqs as sqs
from aws_cdk.assertions import Annotations, Match, Template
from constructs import Construct

from cdk import LaneQueues, LanesParameter, Ledger, PriorityConsumer, PriorityLanesStack
from lanes.config import LanesConfig
from lanes.errors import ConfigurationError
from tests.support.infrastructure import (
    FOREIGN_CODE,
    FUNCTION_FOLDER,
    allowed,
    lanes_config,
    new_app,
    resources,
    statements,
)

KEYED = {
    "lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MAIN"}],
    "outbox": {"enabled": True},
}


@pytest.fixture
def stack():
    """Give an empty stack of an app."""
    return Stack(new_app(), "Orders")


def add_consumer(stack, **props):
    """Add the lanes and a consumer."""
    queues = LaneQueues(stack, "Lanes", config=lanes_config(2))
    return PriorityConsumer(
        stack,
        "Consumer",
        queues=queues,
        ledger=Ledger(stack, "Ledger"),
        code=lambda_.Code.from_inline(FOREIGN_CODE),
        handler="index.lambda_handler",
        **props,
    )


def test_a_function_in_a_vpc_may_attach_itself_and_write_its_own_log_alone(stack):
    """The normal case of a scarce resource is a database in a VPC."""
    vpc = ec2.Vpc(stack, "Vpc", max_azs=2, nat_gateways=0)
    group = ec2.SecurityGroup(stack, "Group", vpc=vpc)
    subnets = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED)
    add_consumer(stack, vpc=vpc, vpc_subnets=subnets, security_groups=[group])

    template = Template.from_stack(stack)

    (function,) = (one for one in resources(template, "AWS::Lambda::Function").values() if "VpcConfig" in one)
    assert len(function["VpcConfig"]["SubnetIds"]) == 2
    assert [one["Fn::GetAtt"][0][:5] for one in function["VpcConfig"]["SecurityGroupIds"]] == ["Group"]
    everywhere = {action for action, resource in allowed(template, "ConsumerRole") if resource == "*"}
    assert everywhere >= {
        "ec2:CreateNetworkInterface",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DeleteNetworkInterface",
    }
    assert {action.partition(":")[0] for action in everywhere} == {"ec2"}


def test_layers_and_tracing_are_those_of_the_function(stack):
    """As a vendor's extension asks for."""
    arn = "arn:aws:lambda:eu-central-1:123456789012:layer:vendor:7"
    layer = lambda_.LayerVersion.from_layer_version_arn(stack, "Layer", arn)
    add_consumer(stack, layers=[layer], tracing=lambda_.Tracing.ACTIVE)

    template = Template.from_stack(stack)

    (function,) = resources(template, "AWS::Lambda::Function").values()
    assert function["Layers"] == [arn]
    assert function["TracingConfig"] == {"Mode": "Active"}
    assert ("xray:PutTraceSegments", "*") in allowed(template, "ConsumerRole")


def test_your_role_gets_what_the_function_needs(stack):
    """Many accounts let only one team make roles."""
    role = iam.Role(stack, "Mine", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
    add_consumer(stack, role=role)

    template = Template.from_stack(stack)

    (function,) = resources(template, "AWS::Lambda::Function").values()
    assert function["Role"]["Fn::GetAtt"][0].startswith("Mine")
    assert [name for name in resources(template, "AWS::IAM::Role") if name.startswith("Consumer")] == []
    actions = {action for action, _ in allowed(template, "Mine")}
    assert actions >= {"sqs:ReceiveMessage", "sqs:SendMessage", "dynamodb:UpdateItem", "logs:PutLogEvents"}


def test_a_key_of_yours_is_granted_to_all_who_need_it():
    """Function, mappings (by the function's role), relay, producers, and CloudWatch for a topic under the same key."""
    app = new_app()
    keys = Stack(app, "Keys")
    key = kms.Key(keys, "Key")
    stack = PriorityLanesStack(
        app,
        "Keyed",
        config=LanesConfig.from_dict(KEYED),
        function_folder=FUNCTION_FOLDER,
        alarm_topic="arn:aws:sns:eu-central-1:123456789012:alarms",
        encryption_key=key,
    )
    producer = iam.Role(stack, "Producer", assumed_by=iam.AccountRootPrincipal())
    stack.queues.grant_send(producer, "MAIN")
    writer = iam.Role(stack, "Writer", assumed_by=iam.AccountRootPrincipal())
    stack.outbox.grant_add(writer)

    template, policy = Template.from_stack(stack), str(Template.from_stack(keys).to_json())

    lanes = {
        name: one for name, one in resources(template, "AWS::SQS::Queue").items() if name.startswith("Lanes")
    }
    assert len(lanes) == 4
    assert all("KmsMasterKeyId" in one for one in lanes.values())
    tables = resources(template, "AWS::DynamoDB::Table").values()
    assert [one["SSESpecification"]["SSEType"] for one in tables] == ["KMS", "KMS"]
    assert all("KMSMasterKeyId" in one["SSESpecification"] for one in tables)
    for role, wanted in {
        "ConsumerRole": {"kms:Decrypt", "kms:GenerateDataKey", "kms:Encrypt"},
        "OutboxRole": {"kms:Decrypt", "kms:GenerateDataKey", "kms:Encrypt"},
        "Producer": {"kms:Decrypt", "kms:GenerateDataKey"},
        "Writer": {"kms:Decrypt", "kms:Encrypt"},
    }.items():
        granted = {one for statement in statements(template, role) for one in statement["Action"]}
        assert granted >= wanted, role
    assert "cloudwatch.amazonaws.com" in policy


def test_what_a_key_of_another_app_must_allow_is_printed(stack):
    """Its policy can't be changed here; it was silence, and logs and events would be refused."""
    key = kms.Key.from_key_arn(stack, "Theirs", "arn:aws:kms:eu-central-1:123456789012:key/1")
    config = lanes_config(2, engine="pull")
    queues = LaneQueues(stack, "Lanes", config=config, encryption_key=key)
    code = {"code": lambda_.Code.from_inline(FOREIGN_CODE), "handler": "index.lambda_handler"}
    PriorityConsumer(stack, "Consumer", queues=queues, ledger=Ledger(stack, "Ledger"), **code)

    found = Annotations.from_stack(stack).find_warning("*", Match.string_like_regexp("policy of the key"))

    texts = [one.entry.data.partition("is a value of this app: ")[2].rpartition(" [ack")[0] for one in found]
    allowed = {str(json.loads(text)["Principal"]["Service"]): json.loads(text)["Action"] for text in texts}
    assert allowed["events.amazonaws.com"] == ["kms:GenerateDataKey", "kms:Decrypt"]
    assert any("logs." in name for name in allowed)
    # The ledger takes its key itself, and has none here.
    assert Annotations.from_stack(stack).find_warning(
        "*", Match.string_like_regexp("encryption_key to Ledger")
    )


@pytest.mark.parametrize("construct", [Ledger, partial(LaneQueues, config=lanes_config(1))])
def test_a_key_of_another_region_is_refused(construct):
    """AWS would refuse queue and table when they are deployed; a key of another account may be used."""
    app = new_app()
    stack = Stack(app, "Orders", env=Environment(account="1" * 12, region="eu-central-1"))
    near, far = (
        kms.Key.from_key_arn(stack, region, f"arn:aws:kms:{region}:222222222222:key/1")
        for region in ("eu-central-1", "eu-west-1")
    )

    with pytest.raises(ConfigurationError, match="Orders/Far is in the region eu-west-1"):
        construct(stack, "Far", encryption_key=far)
    construct(stack, "Near", encryption_key=near)


def test_a_nested_stack_asks_for_the_parameters_name():
    """Its own name is known only once it is deployed, so no producer could be given it."""
    nested = NestedStack(Stack(new_app(), "Parent"), "Lanes")
    queues, ledger = LaneQueues(nested, "Lanes", config=lanes_config(1)), Ledger(nested, "Ledger")

    with pytest.raises(
        ConfigurationError, match=r"Parent/Lanes .*set parameter_name of Parent/Lanes/Parameter"
    ):
        LanesParameter(nested, "Parameter", queues=queues, ledger=ledger)

    named = LanesParameter(nested, "Named", queues=queues, ledger=ledger, parameter_name="/lanes/Orders")
    assert named.parameter.parameter_name


@pytest.mark.parametrize(
    "grantee",
    [iam.AccountPrincipal("210987654321"), iam.ServicePrincipal("events.amazonaws.com")],
    ids=["an account", "a service"],
)
def test_a_grant_that_would_do_nothing_is_refused(stack, grantee):
    """A parameter has no policy of its own, so the producer would find out on its first day."""
    queues = LaneQueues(stack, "Lanes", config=lanes_config(1))
    parameter = LanesParameter(stack, "Parameter", queues=queues, ledger=Ledger(stack, "Ledger"))

    with pytest.raises(ConfigurationError, match="LANES_DEPLOYMENT"):
        parameter.grant_read(grantee)


def rule(scope, queue):
    """Add a rule that sends events to a queue."""
    target = targets.SqsQueue(queue, message_group_id="stock")
    events.Rule(scope, "Rule", event_pattern=events.EventPattern(source=["shop"]), targets=[target])


def schedule(scope, queue):
    """Add a schedule that sends to a queue."""
    scheduler.CfnSchedule(
        scope,
        "Schedule",
        flexible_time_window={"mode": "OFF"},
        schedule_expression="rate(1 hour)",
        target={
            "arn": queue.queue_arn,
            "roleArn": "arn:aws:iam::123456789012:role/r",
            "sqsParameters": {"messageGroupId": "stock"},
        },
    )


@pytest.mark.parametrize(("add", "where"), [(rule, "Orders"), (schedule, "Orders"), (schedule, "Other")])
def test_a_rule_that_targets_a_lane_is_found_at_synth(add, where):
    """SQS refuses its events, which have no deduplication id, and EventBridge counts no failure."""
    app = new_app()
    stack = Stack(app, "Orders")
    queues = LaneQueues(stack, "Lanes", config=lanes_config(2))
    add(stack if where == "Orders" else Stack(app, where), queues.lanes[1].queue)

    with pytest.raises(RuntimeError, match=r"targets the lane L1\..*a pipe from there"):
        app.synth()


def test_a_queue_of_another_stack_with_the_name_of_a_lane_is_not_found():
    """Templates name parts by their paths, and two stacks may have the same ones."""
    app = new_app()
    LaneQueues(Stack(app, "Orders"), "Lanes", config=lanes_config(2))
    other = Stack(app, "Other")
    lane = Construct(Construct(other, "Lanes"), "L1")
    rule(other, sqs.Queue(lane, "Queue", fifo=True, content_based_deduplication=True))

    app.synth()


def test_rules_to_other_queues_and_the_heartbeat_are_not_found():
    """Only a lane refuses what has no deduplication id."""
    app = App()
    stack = Stack(app, "Orders")
    queues = LaneQueues(stack, "Lanes", config=lanes_config(2, engine="pull"))
    rule(stack, queues.lanes[0].dead_letter_queue)

    app.synth()
