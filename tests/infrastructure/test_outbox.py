"""Outbox: the table, the relay, and their permissions."""

import json

import pytest
from aws_cdk import App, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk.assertions import Match, Template

from cdk import LaneQueues, Ledger, Outbox, PriorityLanesStack, RelayAlarms
from lanes.config import LanesConfig
from lanes.outbox.dynamodb.table import description
from tests.support.infrastructure import (
    FOREIGN_CODE,
    FUNCTION_FOLDER,
    allowed,
    foreign_stack,
    lanes_config,
    new_app,
    render,
    resources,
)

TABLE = "AWS::DynamoDB::Table"
MAPPING = "AWS::Lambda::EventSourceMapping"


def whole_stack(app):
    """Give this repository's stack with an outbox."""
    config = LanesConfig.from_dict({"outbox": {"enabled": True}})
    return PriorityLanesStack(app, "PriorityLanes", config=config, function_folder=FUNCTION_FOLDER)


@pytest.fixture(scope="module")
def with_outbox():
    """Give the template of the whole stack with an outbox."""
    return Template.from_stack(whole_stack(new_app()))


@pytest.fixture(scope="module")
def foreign_outbox():
    """Give the template of another app's stack with lanes, an outbox and a role that adds entries."""
    stack = Stack(new_app(), "Foreign")
    outbox = Outbox(
        stack,
        "Outbox",
        queues=LaneQueues(stack, "Lanes", config=lanes_config(2)),
        ledger=Ledger(stack, "Ledger"),
        code=lambda_.Code.from_inline(FOREIGN_CODE),
        handler="index.lambda_handler",
    )
    outbox.grant_add(iam.Role(stack, "Adder", assumed_by=iam.AccountRootPrincipal()))
    return Template.from_stack(stack)


def entries_table(template):
    """Give logical id and properties of the outbox's table."""
    ((name, properties),) = [
        (name, properties)
        for name, properties in resources(template, TABLE).items()
        if name.startswith("OutboxEntries")
    ]
    return name, properties


def test_messages_that_handlers_send_on_are_no_recursive_loop():
    """Lambda would stop a batch with messages that passed sixteen handlers, whichever function sent them on."""

    def add(stack, queues, _consumer):
        ledger = Ledger(stack, "OutboxLedger")
        code = lambda_.Code.from_inline(FOREIGN_CODE)
        Outbox(stack, "Outbox", queues=queues, ledger=ledger, code=code, handler="index.lambda_handler")

    template = Template.from_stack(foreign_stack(lanes_config(2), then=add))
    functions = resources(template, "AWS::Lambda::Function")

    assert {name[:8]: one.get("RecursiveLoop") for name, one in functions.items()} == {
        "Consumer": "Allow",
        "OutboxRe": "Allow",
    }


def test_the_table_is_the_one_that_the_store_works_on(foreign_outbox):
    """Keys, indexes, projections and stream are those of `lanes outbox setup`."""
    _, properties = entries_table(foreign_outbox)
    wanted = description("any")

    def plain(indexes):
        return {
            index["IndexName"]: (
                index["KeySchema"],
                sorted(index["Projection"]["NonKeyAttributes"]),
                index["Projection"]["ProjectionType"],
            )
            for index in indexes
        }

    assert properties["KeySchema"] == wanted["KeySchema"]
    for kind in ("GlobalSecondaryIndexes", "LocalSecondaryIndexes"):
        assert plain(properties[kind]) == plain(wanted[kind])
    assert properties["StreamSpecification"]["StreamViewType"] == "KEYS_ONLY"
    assert sorted(one["AttributeName"] for one in properties["AttributeDefinitions"]) == sorted(
        one["AttributeName"] for one in wanted["AttributeDefinitions"]
    )


def test_the_table_is_encrypted_and_recoverable_and_forgets_by_itself(foreign_outbox):
    """Encryption, point-in-time recovery, expiry, no capacity to plan, and it stays."""
    foreign_outbox.has_resource(
        TABLE,
        {
            "DeletionPolicy": "RetainExceptOnCreate",
            "Properties": {
                "SSESpecification": {"SSEEnabled": True},
                "PointInTimeRecoverySpecification": {"PointInTimeRecoveryEnabled": True},
                "TimeToLiveSpecification": {"AttributeName": "expires_at", "Enabled": True},
                "BillingMode": "PAY_PER_REQUEST",
                "StreamSpecification": Match.any_value(),
            },
        },
    )


def test_the_stream_wakes_the_relay_for_new_entries_alone(foreign_outbox):
    """Marks of the relay itself and audit entries don't, and a failing record blocks nothing for long."""
    table, _ = entries_table(foreign_outbox)
    ((_, mapping),) = resources(foreign_outbox, MAPPING).items()
    (pattern,) = mapping["FilterCriteria"]["Filters"]

    assert mapping["EventSourceArn"] == {"Fn::GetAtt": [table, "StreamArn"]}
    assert mapping["StartingPosition"] == "TRIM_HORIZON"
    assert mapping["MaximumRetryAttempts"] == 2
    assert mapping["MaximumRecordAgeInSeconds"] == 300
    assert "MaximumBatchingWindowInSeconds" not in mapping
    assert json.loads(pattern["Pattern"]) == {
        "eventName": ["INSERT"],
        "dynamodb": {"Keys": {"pk": {"S": [{"prefix": "entry#"}, {"prefix": "group#"}]}}},
    }
    assert mapping["DestinationConfig"]["OnFailure"]["Destination"]["Fn::GetAtt"][0].startswith(
        "OutboxFailures"
    )


def test_a_schedule_wakes_the_relay_every_minute(foreign_outbox):
    """For retries, ended locks and figures."""
    foreign_outbox.has_resource_properties(
        "AWS::Events::Rule",
        {
            "ScheduleExpression": "rate(1 minute)",
            "Targets": [Match.object_like({"Arn": {"Ref": Match.string_like_regexp("OutboxLive")}})],
        },
    )


def test_the_relay_may_claim_send_and_nothing_else(foreign_outbox):
    """No reads of the table itself, no deletes, no other queue than the lanes and its failures."""
    table, _ = entries_table(foreign_outbox)
    arn = f"arn:<AWS::Partition>:dynamodb:<AWS::Region>:<AWS::AccountId>:table/<{table}>/index"
    queues = [name for name in resources(foreign_outbox, "AWS::SQS::Queue") if "DeadLetter" not in name]
    lanes = [name for name in queues if name.startswith("Lanes")]
    (failures,) = [name for name in queues if name.startswith("OutboxFailures")]
    (logs,) = resources(foreign_outbox, "AWS::Logs::LogGroup")
    found = {pair for pair in allowed(foreign_outbox, "OutboxRole") if not pair[0].startswith("logs:")}

    assert found == {
        ("dynamodb:UpdateItem", f"<{table}.Arn>"),
        *(("dynamodb:Query", f"{arn}/{name}") for name in ("ready", "timers", "chains")),
        *(
            (f"dynamodb:{action}", f"<{table}.StreamArn>")
            for action in ("DescribeStream", "GetRecords", "GetShardIterator", "ListStreams")
        ),
        *(("sqs:SendMessage", f"<{name}.Arn>") for name in lanes),
        *(("sqs:GetQueueAttributes", f"<{name}.Arn>") for name in lanes),
        ("sqs:SendMessage", f"<{failures}.Arn>"),
    }
    assert logs.startswith("OutboxLogs")


def test_an_application_may_add_entries_and_nothing_else(foreign_outbox):
    """Not even read them."""
    table, _ = entries_table(foreign_outbox)

    assert allowed(foreign_outbox, "Adder") == {("dynamodb:PutItem", f"<{table}.Arn>")}


def test_producers_and_functions_learn_of_the_outbox(with_outbox):
    """The parameter and both functions name its table."""
    table, _ = entries_table(with_outbox)
    functions = [
        properties["Environment"]["Variables"]["LANES_DEPLOYMENT"]
        for properties in resources(with_outbox, "AWS::Lambda::Function").values()
        if "LANES_DEPLOYMENT" in properties.get("Environment", {}).get("Variables", {})
    ]
    (parameter,) = resources(with_outbox, "AWS::SSM::Parameter").values()

    assert len(functions) == 2
    for document in (*functions, parameter["Value"]):
        assert json.loads(render(document))["outbox"] == f"<{table}>"


def test_without_the_setting_there_is_no_outbox(template):
    """The stack is as small as before."""
    template.resource_count_is("AWS::Events::Rule", 0)
    template.resource_count_is(TABLE, 1)


def test_a_relay_outside_lambda_has_the_same_alarms():
    """By the name of its service; without a function it has no errors to watch."""
    stack = Stack(App(), "Relay")
    relay = RelayAlarms(stack, "Alarms", lanes=["HIGH", "MAIN"], service="shop-relay")

    assert set(relay.alarms) == {"Abandoned", "HIGHWaits", "MAINWaits", "OldestAge", "Silent"}
    alarms = Template.from_stack(stack).find_resources("AWS::CloudWatch::Alarm").values()
    services = [
        one["Value"]
        for alarm in alarms
        for one in alarm["Properties"]["Dimensions"]
        if one["Name"] == "service"
    ]
    assert services == ["shop-relay"] * 5
