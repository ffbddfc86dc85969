"""A stack with the pull engine: the bell in place of the lanes' mappings."""

import json

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Match, Template

import app as cdk_app
from cdk import BulkEnqueue, LaneQueues, PriorityLanesStack
from lanes import bell
from lanes.config import LanesConfig
from lanes.config.deployment import Deployment
from lanes.errors import ConfigurationError
from tests.support.infrastructure import (
    FUNCTION_FOLDER,
    allowed,
    foreign_template,
    lane_queue,
    lanes_config,
    live_function,
    new_app,
    render,
    resources,
    the_only,
)

FUNCTION = "AWS::Lambda::Function"
MAPPING = "AWS::Lambda::EventSourceMapping"
QUEUE = "AWS::SQS::Queue"
RULE = "AWS::Events::Rule"
CONSUME = ("ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "GetQueueAttributes")


def whole_stack(app):
    """Give this repository's stack with the pull engine and an outbox."""
    config = LanesConfig.from_dict({"consumer": {"engine": "pull"}, "outbox": {"enabled": True}})
    return PriorityLanesStack(app, "PriorityLanes", config=config, function_folder=FUNCTION_FOLDER)


@pytest.fixture(scope="module")
def whole():
    """Give the template of the whole stack."""
    return Template.from_stack(whole_stack(new_app()))


@pytest.fixture(scope="module", params=[1, 7], ids="{} lanes".format)
def pulled(request):
    """Give configuration and template of another app's stack, with as many slots as lanes."""
    config = lanes_config(request.param, engine="pull", reserved_concurrency=request.param)
    return config, foreign_template(config)


def bell_queue(template):
    """Give logical id and properties of the bell."""
    ((name, properties),) = [
        item for item in resources(template, QUEUE).items() if item[0].startswith("Lanesbell")
    ]
    return name, properties


def test_the_bell_is_the_only_queue_that_is_mapped(pulled):
    """One ring starts one invocation, a returned ring stays, and Lambda has no more in work than slots."""
    config, template = pulled
    function, properties = the_only(template, FUNCTION)
    queue, _ = bell_queue(template)

    _, mapping = the_only(template, MAPPING)

    assert live_function(template, mapping["FunctionName"]) == function
    assert mapping["EventSourceArn"] == {"Fn::GetAtt": [queue, "Arn"]}
    assert mapping["BatchSize"] == 1
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    slots = properties["ReservedConcurrentExecutions"]
    assert slots == config.consumer.reserved_concurrency
    assert mapping["ScalingConfig"] == {"MaximumConcurrency": max(2, slots)}


def test_the_lanes_are_those_of_the_other_engine(pulled):
    """A switch of engines keeps every queue with its messages: the bell is the only difference."""
    config, template = pulled
    mapped = foreign_template(lanes_config(len(config.lanes)))

    own = {name: one for name, one in resources(template, QUEUE).items() if "bell" not in name}

    assert own == resources(mapped, QUEUE)


@pytest.mark.parametrize("timeout", ["5s", "30s", "15m"])
def test_a_ring_stays_hidden_a_little_longer_than_an_invocation_lasts(timeout):
    """So a crash costs a slot little more than the function timeout; and no ring expires while it is hidden."""
    template = foreign_template(lanes_config(2, engine="pull", function_timeout=timeout))
    _, function = the_only(template, FUNCTION)

    _, queue = bell_queue(template)

    assert 0 < queue["VisibilityTimeout"] - function["Timeout"] <= 5
    assert queue["MessageRetentionPeriod"] > queue["VisibilityTimeout"]
    assert queue["MessageRetentionPeriod"] > bell.HEARTBEAT_LIFE


def test_the_bell_takes_what_eventbridge_sends_and_goes_with_the_stack(pulled):
    """FIFO, a deduplication id from the body, no dead letters, nothing to keep."""
    _config, template = pulled
    name, queue = bell_queue(template)

    assert (queue["FifoQueue"], queue["ContentBasedDeduplication"]) == (True, True)
    assert "RedrivePolicy" not in queue
    assert "QueueName" not in queue
    assert template.find_resources(QUEUE)[name]["DeletionPolicy"] == "Delete"


def test_a_rule_sends_heartbeats_to_the_bell(pulled):
    """One constant message a minute, in a group of its own; no other rule may send there."""
    _config, template = pulled
    queue, _ = bell_queue(template)

    rule, properties = the_only(template, RULE)

    (target,) = properties["Targets"]
    assert (properties["ScheduleExpression"], properties["State"]) == ("rate(1 minute)", "ENABLED")
    assert target["Arn"] == {"Fn::GetAtt": [queue, "Arn"]}
    assert target["SqsParameters"] == {"MessageGroupId": bell.HEARTBEAT}
    assert target["SqsParameters"]["MessageGroupId"] not in bell.groups(1000)
    assert target["Input"] == bell.BODY
    template.has_resource_properties(
        "AWS::SQS::QueuePolicy",
        {
            "Queues": [{"Ref": queue}],
            "PolicyDocument": {
                "Statement": Match.array_with(
                    [
                        Match.object_like(
                            {
                                "Effect": "Allow",
                                "Principal": {"Service": "events.amazonaws.com"},
                                "Condition": {"ArnEquals": {"aws:SourceArn": {"Fn::GetAtt": [rule, "Arn"]}}},
                            }
                        )
                    ]
                )
            },
        },
    )


def test_the_bell_is_encrypted_and_refuses_plain_http(pulled):
    """As every queue."""
    _config, template = pulled
    name, queue = bell_queue(template)
    denied = {"Effect": "Deny", "Action": "sqs:*", "Condition": {"Bool": {"aws:SecureTransport": "false"}}}

    assert queue["SqsManagedSseEnabled"] is True
    template.has_resource_properties(
        "AWS::SQS::QueuePolicy",
        {
            "Queues": [{"Ref": name}],
            "PolicyDocument": {"Statement": Match.array_with([Match.object_like(denied)])},
        },
    )


def test_the_function_may_answer_the_bell_beside_what_it_may_with_mappings(pulled):
    """Receive, delete, return and ring; nothing else is new, so a switch takes no right from running code."""
    config, template = pulled
    mapped = foreign_template(lanes_config(len(config.lanes)))
    queue, _ = bell_queue(template)

    more = allowed(template, "Consumer") - allowed(mapped, "Consumer")

    assert more == {(f"sqs:{action}", f"<{queue}.Arn>") for action in (*CONSUME, "SendMessage")}
    assert allowed(mapped, "Consumer") <= allowed(template, "Consumer")


def test_a_producer_rings_with_the_lane_that_it_was_granted():
    """And may not send to another lane, nor receive rings."""
    stack = Stack(new_app(), "Stack")
    queues = LaneQueues(stack, "Lanes", config=lanes_config(3, engine="pull"))
    role = iam.Role(stack, "Producer", assumed_by=iam.AccountRootPrincipal())

    grant = queues.grant_send(role, "L1")

    template = Template.from_stack(stack)
    lane, _ = lane_queue(template, queues.config.lane("L1"))
    queue, _ = bell_queue(template)
    assert grant.success
    assert allowed(template, "Producer") == {("sqs:SendMessage", f"<{name}.Arn>") for name in (lane, queue)}


def test_the_relay_and_bulk_jobs_ring():
    """The relay for the entries it publishes; jobs also through the endpoint of their closed network."""
    stack = whole_stack(new_app())
    BulkEnqueue(stack, "Bulk", queues=stack.queues, ledger=stack.ledger)
    template = Template.from_stack(stack)
    queue, _ = bell_queue(template)

    for role in ("OutboxRole", "BulkJobRole"):
        assert ("sqs:SendMessage", f"<{queue}.Arn>") in allowed(template, role)
    (policy,) = [
        one["PolicyDocument"]
        for one in resources(template, "AWS::EC2::VPCEndpoint").values()
        if "sqs:" in json.dumps(one.get("PolicyDocument", {}))
    ]
    assert f"<{queue}.Arn>" in {render(one) for one in policy["Statement"][0]["Resource"]}


def test_function_relay_and_producers_know_the_bell(whole):
    """The same document for all three, with the URL of the bell; an output has it too."""
    queue, _ = bell_queue(whole)
    documents = [
        properties["Environment"]["Variables"]["LANES_DEPLOYMENT"]
        for properties in resources(whole, FUNCTION).values()
        if "LANES_DEPLOYMENT" in properties.get("Environment", {}).get("Variables", {})
    ]
    _, parameter = the_only(whole, "AWS::SSM::Parameter")

    assert len(documents) == 2
    for document in (*documents, parameter["Value"]):
        assert Deployment.from_json(render(document)).bell == f"<{queue}>"
    whole.has_output("BellQueueUrl", {"Value": {"Ref": queue}})


def test_with_mappings_there_is_no_bell(foreign):
    """Neither queue nor rule nor a URL in the document."""
    _config, template = foreign
    _, function = the_only(template, FUNCTION)

    document = render(function["Environment"]["Variables"]["LANES_DEPLOYMENT"])

    assert Deployment.from_json(document).bell is None
    assert not [name for name in resources(template, QUEUE) if "bell" in name]
    template.resource_count_is(RULE, 0)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('[consumer]\nengine = "pul"', "engine"),
        ('[consumer]\nengine = "pull"\nlinger = "31s"', "linger 31s is longer than function_timeout 30s"),
        ('[consumer]\npolicy = "weighted"', 'policy takes effect with engine = "pull" only'),
        ('[consumer]\nengine = "pull"\nmax_rate = "1/h"', "max_rate"),
    ],
)
def test_bad_settings_end_the_synth_with_the_errors_of_the_configuration(
    tmp_path, monkeypatch, text, complaint
):
    """As in every other place that reads lanes.toml."""
    (tmp_path / "lanes.toml").write_text(text)
    monkeypatch.setattr(cdk_app, "ROOT", tmp_path)

    with pytest.raises(ConfigurationError, match=complaint):
        cdk_app.add_stacks(App())
