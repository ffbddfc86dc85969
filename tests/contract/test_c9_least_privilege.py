"""
C9, least privilege.

The function may receive, delete and change visibility on the lanes, send to the dead-letter queues and, for what an
operator moves, to the lanes, ring its bell, and write its table. A producer role may send to the lanes it was granted,
no more. Transport is TLS only, queues and tables are encrypted.
"""

import re
from fnmatch import fnmatchcase

from aws_cdk import Stack
from aws_cdk import aws_iam as iam
from aws_cdk.assertions import Match, Template

from cdk import Ledger
from lanes.aws import ledger, overrides, runs, slots
from lanes.consumer.ledger import Entry
from lanes.overrides import Cancelled
from lanes.runs import Mark
from tests.support.infrastructure import (
    ROOT,
    allowed,
    lane_pairs,
    lane_queue,
    new_app,
    render,
    resources,
    stack_with_producers,
    statements,
)

QUEUE = "AWS::SQS::Queue"
TABLE = "AWS::DynamoDB::Table"
CALLERS = [
    ("sqs", "queues"),
    ("dynamodb", "items"),
    ("dynamodb", "ledger"),
    ("dynamodb", "slots"),
    ("dynamodb", "overrides"),
    ("dynamodb", "runs"),
]


def permissions_for(call):
    """Give the permissions of a call: a batch call needs that of the single call, a transaction those of its parts."""
    if call == "transact_write_items":
        return ["PutItem", "UpdateItem", "DeleteItem"]
    name = "".join(word.title() for word in call.split("_"))
    return [name.removesuffix("Batch")]


def test_the_function_may_do_what_it_needs_and_no_more(foreign):
    """Consume the lanes, send to them and to their dead-letter queues, keep the ledger, write its log."""
    config, template = foreign
    (table,) = resources(template, "AWS::DynamoDB::Table")
    (group,) = resources(template, "AWS::Logs::LogGroup")
    queues = [lane_queue(template, lane) for lane in config.lanes]
    consume = ("ReceiveMessage", "DeleteMessage", "ChangeMessageVisibility", "GetQueueAttributes")

    granted = {pair for pair in allowed(template, "Consumer") if not pair[0].startswith("dynamodb:")}

    assert granted == {
        *((f"sqs:{action}", f"<{queue}.Arn>") for queue, _ in queues for action in consume),
        *(("sqs:SendMessage", f"<{queue}.Arn>") for pair in queues for queue in pair),
        ("logs:CreateLogStream", f"<{group}.Arn>"),
        ("logs:PutLogEvents", f"<{group}.Arn>"),
    }
    ledger = {
        resource for action, resource in allowed(template, "Consumer") if action.startswith("dynamodb:")
    }
    assert all(f"<{table}" in resource for resource in ledger)


def test_every_call_of_the_consumer_is_granted(template):
    """A call without its permission would fail on AWS alone, since AWS on this machine asks for none."""
    calls = {
        (service, call)
        for service, module in CALLERS
        for call in re.findall(
            r"client\.(?!meta)(\w+)", (ROOT / "lanes" / "aws" / f"{module}.py").read_text()
        )
    }

    needed = {f"{service}:{permission}" for service, call in calls for permission in permissions_for(call)}

    assert len(needed) > 10
    assert needed <= {action for action, _resource in allowed(template, "Consumer")}


def test_no_policy_names_every_resource_or_every_action(template):
    """The function has no wildcard permission and no managed policy with one."""
    for statement in statements(template, "Consumer"):
        assert not [text for text in map(render, statement["Action"] + statement["Resource"]) if "*" in text]
    for role in resources(template, "AWS::IAM::Role").values():
        assert "ManagedPolicyArns" not in role


def test_every_queue_refuses_plain_http(foreign):
    """Each queue has a policy that denies everything without TLS, to everybody."""
    _config, template = foreign

    for name in resources(template, QUEUE):
        template.has_resource_properties(
            "AWS::SQS::QueuePolicy",
            {
                "Queues": [{"Ref": name}],
                "PolicyDocument": {
                    "Statement": Match.array_with(
                        [
                            {
                                "Effect": "Deny",
                                "Principal": {"AWS": "*"},
                                "Action": "sqs:*",
                                "Condition": {"Bool": {"aws:SecureTransport": "false"}},
                                "Resource": {"Fn::GetAtt": [name, "Arn"]},
                            }
                        ]
                    )
                },
            },
        )


def test_a_producer_may_send_to_the_lane_it_was_granted_and_nothing_else():
    """grant_send with a lane gives SendMessage on that queue alone."""
    template, _grants = stack_with_producers("L1")
    (queue,) = [name for name in lane_pairs(template) if "L1" in name]

    assert allowed(template, "Producer") == {("sqs:SendMessage", f"<{queue}.Arn>")}


def test_a_producer_of_all_lanes_may_send_to_each_and_to_no_dead_letter_queue():
    """grant_send without a lane gives SendMessage on every lane's queue."""
    template, _grants = stack_with_producers()

    assert allowed(template, "Producer") == {
        ("sqs:SendMessage", f"<{queue}.Arn>") for queue in lane_pairs(template)
    }


def test_keeping_a_ledger_touches_the_table_and_its_one_index():
    """No wildcard over indexes, no scan, no change of the table itself."""
    stack = Stack(new_app(), "Stack")
    role = iam.Role(stack, "Keeper", assumed_by=iam.AccountRootPrincipal())

    grant = Ledger(stack, "Ledger").grant_keep(role)

    template = Template.from_stack(stack)
    (table,) = resources(template, TABLE)
    index = f"arn:<AWS::Partition>:dynamodb:<AWS::Region>:<AWS::AccountId>:table/<{table}>/index/parked"
    actions = ["BatchGetItem", "BatchWriteItem", "DeleteItem", "GetItem", "PutItem", "Query", "UpdateItem"]
    assert grant.success
    assert allowed(template, "Keeper") == {
        *((f"dynamodb:{action}", f"<{table}.Arn>") for action in actions),
        ("dynamodb:Query", index),
    }


def test_a_producer_that_follows_a_run_writes_its_items_alone():
    """No ledger entry, no effect and no operator's item, and it queries nothing."""
    stack = Stack(new_app(), "Stack")
    role = iam.Role(stack, "Sender", assumed_by=iam.AccountRootPrincipal())

    assert Ledger(stack, "Ledger").grant_follow(role).success

    template = Template.from_stack(stack)
    (table,) = resources(template, TABLE)
    assert allowed(template, "Sender") == {
        (f"dynamodb:{action}", f"<{table}.Arn>") for action in ("GetItem", "UpdateItem")
    }
    (statement,) = statements(template, "Sender")
    assert statement["Condition"] == {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["run#*"]}}


def test_the_function_writes_its_own_items_alone(template):
    """Not those of operators: the audit trail, the pauses, and which dead letters were redriven."""
    writes = {"dynamodb:PutItem", "dynamodb:UpdateItem", "dynamodb:DeleteItem", "dynamodb:BatchWriteItem"}
    keys = {
        key
        for statement in statements(template, "Consumer")
        if writes & {*statement["Action"]}
        for key in statement["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
    }

    written = keys_written_by_the_consumer()

    assert {key for key in keys if not any(fnmatchcase(one, key) for one in written)} == set()
    assert [one for one in written if not any(fnmatchcase(one, key) for key in keys)] == []
    for foreign in ("audit#1", "pauses", "copied#MAIN#1", "other"):
        assert not any(fnmatchcase(foreign, key) for key in keys)


def keys_written_by_the_consumer():
    """Give the keys of one item of each sort that the consumer writes, as its stores form them."""
    entry = Entry(lane="MAIN", message_id="m")
    cancelled = Cancelled(
        lane="MAIN",
        message_id="m",
        id="i",
        kind="k",
        group="g",
        source="s",
        sent_at=1.0,
        receive_count=1,
        override="o",
        cancelled_at=1.0,
        who="w",
        why="y",
    )
    items = [
        ledger.item_of(entry, expires_at=1),
        ledger.effect_key("s#k#i"),
        ledger.effect_key("s" * 2000),
        runs.head_key("r"),
        runs.node_key(Mark("r", 3), 0, 2),
        overrides.redirect_key("MAIN", "g"),
        overrides.item_of_cancelled(cancelled),
        slots.KEY,
    ]
    return [item["pk"]["S"] for item in items]


def test_queues_and_tables_are_encrypted(template):
    """By SQS and by DynamoDB themselves."""
    template.all_resources_properties(QUEUE, {"SqsManagedSseEnabled": True})
    template.all_resources_properties(TABLE, {"SSESpecification": {"SSEEnabled": True}})
