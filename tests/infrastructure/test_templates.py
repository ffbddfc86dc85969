"""The templates that people deploy pass cfn-lint and cdk-nag: default, pull, outbox, many lanes, bulk, a bank's."""

import functools
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from aws_cdk import Environment, PermissionsBoundary, Stack, Stage, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_scheduler as scheduler
from cdk_nag import AwsSolutionsChecks, ServerlessChecks
from cfnlint.api import lint
from cfnlint.config import ManualArgs
from cfnlint.schema.manager import PROVIDER_SCHEMA_MANAGER

import app as cdk_app
from cdk import BulkEnqueue, PriorityLanesStack
from lanes.config import LanesConfig
from lanes.config.settings import OutboxSettings
from tests.support.infrastructure import FUNCTION_FOLDER, ROOT, as_list, lanes_config, new_app

NIGHTLY = {"name": "nightly", "kind": "statements.render", "cron": "30 3 * * mon", "priority": "BULK"}
BANK = Environment(account="123456789012", region="eu-central-1")
# Types that could take a key, and why ours have none.
WITHOUT_KEY = {
    "AWS::Lambda::EventSourceMapping": "a key would encrypt its filter, which has no data",
    "AWS::EMRServerless::Application": "its own copy of the logs is switched off",
}
TWENTY = {"on_exhausted": {"payment.*": "block"}, "reserved_concurrency": 10, "idempotency": True}


def configured(config):
    """Return an app with the stack of a configuration."""
    app = new_app()
    PriorityLanesStack(app, "PriorityLanes", config=config, function_folder=FUNCTION_FOLDER)
    return app


def with_bulk():
    """Return the repository's own app with bulk jobs that read a bucket and a catalog."""
    app = new_app()
    settings = json.loads((ROOT / "cdk.json").read_text())["context"]
    for key, value in {
        **settings,
        "bulk": "on",
        "bulk_inputs": "lake",
        "bulk_databases": "sales",
    }.items():
        app.node.set_context(key, value)
    cdk_app.add_stacks(app)
    return app


def bank(*, mutable=True):
    """Return an app of two stages with key, boundary and role of another stack, a VPC, and everything switched on."""
    app = new_app()
    stages = (("Test", "pull"), ("Live", "mappings"))
    for name, engine in stages if mutable else stages[1:]:
        stage = Stage(app, name, env=BANK, permissions_boundary=PermissionsBoundary.from_name("bank"))
        base = Stack(stage, "Base")
        role = iam.Role(base, "Role", assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        vpc = ec2.Vpc.from_vpc_attributes(
            base,
            "Vpc",
            vpc_id="vpc-1234567890abcdef0",
            availability_zones=["eu-central-1a"],
            private_subnet_ids=["subnet-1234567890abcdef0"],
            private_subnet_route_table_ids=["rtb-1234567890abcdef0"],
        )
        lanes = PriorityLanesStack(
            stage,
            "Lanes",
            config=LanesConfig.from_dict(
                {"consumer": {"engine": engine}, "schedules": [NIGHTLY], "outbox": {"enabled": True}}
            ),
            function_folder=FUNCTION_FOLDER,
            termination_protection=True,
            encryption_key=kms.Key(base, "Key", enable_key_rotation=True),
            role=role if mutable else role.without_policy_updates(),
            vpc=vpc,
        )
        bulk = BulkEnqueue(
            Stack(stage, "Bulk"), "Bulk", queues=lanes.queues, ledger=lanes.ledger, follow=True, vpc=vpc
        )
        bulk.add_schedule(
            "Nightly",
            schedule=scheduler.ScheduleExpression.cron(hour="3", minute="0"),
            arguments=["--table", "s3://lake/rows", "--kind", "order.remind"],
        )
    return app


APPS = {
    "default": lambda: configured(LanesConfig.load(ROOT / "lanes.toml")),
    "pull": lambda: configured(
        LanesConfig.from_dict({"consumer": {"engine": "pull"}, "schedules": [NIGHTLY]})
    ),
    "twenty lanes": lambda: configured(
        replace(lanes_config(20, **TWENTY), outbox=OutboxSettings(enabled=True))
    ),
    "bulk": with_bulk,
    "bank": bank,
    "bank with a fixed role": lambda: bank(mutable=False),
}
STACKS = {"bulk": 2, "bank": 6, "bank with a fixed role": 3}
LONGEST = ("twenty lanes", "bulk", "bank", "bank with a fixed role")
NAMES = [pytest.param(name, marks=pytest.mark.deep if name in LONGEST else ()) for name in APPS]


@functools.cache
def synthesised(name):
    """Give the violations that cdk-nag finds in an app, and all its stacks."""
    app = APPS[name]()
    Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
    assembly = app.synth()
    report = json.loads((Path(assembly.directory) / "validation-report.json").read_text())
    # A pack without any finding, acknowledged or not, is not in it.
    assert "Serverless" in {pack["pluginName"] for pack in report["pluginReports"]}
    found = [violation for pack in report["pluginReports"] for violation in pack["violations"]]
    return found, assembly.stacks_recursively


@pytest.mark.parametrize("name", NAMES)
def test_no_rule_finds_anything_in_a_template(name):
    """Of both packs of cdk-nag without the findings acknowledged beside a resource, and of cfn-lint in two regions."""
    violations, stacks = synthesised(name)

    # The rights of a role that the app must not change are printed; `test_roles` reads them.
    assert {one["ruleName"] for one in violations} == (
        {"Annotation::lanes:fixedRole"} if "fixed" in name else set()
    )
    assert len(stacks) == STACKS.get(name, 1)
    for stack in stacks:
        findings = lint(json.dumps(stack.template), config=ManualArgs(regions=["eu-central-1", "us-east-1"]))
        assert [str(finding) for finding in findings] == []


def keys_of(kind):
    """Give the names of a type's properties that take a key, at any depth; none for a type that AWS does not list."""
    if kind.startswith(("Custom::", "AWS::CDK::")):
        return set()
    schema = json.dumps(PROVIDER_SCHEMA_MANAGER.get_resource_schema("eu-central-1", kind).schema)
    return set(re.findall(r'"(KMS\w*Key\w*|Kms\w*Key(?:Id|Arn)|\w*EncryptionKey\w*)":', schema))


def names_in(value):
    """Give the names of all properties with a value, at any depth."""
    if isinstance(value, list):
        return set().union(*map(names_in, value))
    return {*value}.union(*map(names_in, value.values())) if isinstance(value, dict) else set()


def test_whatever_can_take_a_key_has_yours():
    """By AWS's own schemas: one more type, or one more resource, is in no list of ours."""
    _, stacks = synthesised("bank")
    parts = {
        (stack.display_name, name): one
        for stack in stacks
        for name, one in stack.template["Resources"].items()
        if keys_of(one["Type"])
    }
    bare = {
        place: one["Type"]
        for place, one in parts.items()
        if not keys_of(one["Type"]) & names_in(one["Properties"])
    }

    assert {place: kind for place, kind in bare.items() if kind not in WITHOUT_KEY} == {}
    assert {one["Type"] for one in parts.values()} >= {
        "AWS::DynamoDB::Table",
        "AWS::Lambda::Function",
        "AWS::Logs::LogGroup",
        "AWS::S3::Bucket",
        "AWS::SQS::Queue",
        "AWS::Scheduler::Schedule",
    }


def test_a_role_uses_the_key_through_the_services_alone():
    """Code of a handler can't decrypt what it copied, nor give the key to others."""
    _, stacks = synthesised("bank")
    rights = [
        statement
        for stack in stacks
        for one in stack.template["Resources"].values()
        if one["Type"] == "AWS::IAM::Policy"
        for statement in one["Properties"]["PolicyDocument"]["Statement"]
        if any(action.startswith("kms:") for action in as_list(statement["Action"]))
    ]
    named = {name for one in rights for terms in one["Condition"].values() for name in terms}

    assert len(rights) > 10
    assert named == {"kms:ViaService", "kms:EncryptionContext:aws:scheduler:schedule:arn"}
    assert not {"kms:CreateGrant", "kms:*"} & {action for one in rights for action in as_list(one["Action"])}


def test_services_are_allowed_by_the_policy_of_the_key():
    """They have no role here: logs are refused without, and events would be lost in silence."""
    _, stacks = synthesised("bank")
    (base, *_) = (stack.template for stack in stacks if stack.display_name.startswith("Test/Base"))
    (key,) = (one for one in base["Resources"].values() if one["Type"] == "AWS::KMS::Key")
    services = {
        one["Principal"]["Service"]: {*one["Condition"]}
        for one in key["Properties"]["KeyPolicy"]["Statement"]
        if "Service" in one["Principal"]
    }

    assert services == {
        "logs.eu-central-1.amazonaws.com": {"ArnLike"},
        "events.amazonaws.com": {"StringEquals"},
    }


def keys_in(part):
    """Give the keys of a table or of an index."""
    return tuple(one["AttributeName"] for one in part["KeySchema"])


def test_stateful_parts_are_pinned():
    """
    Another logical id, or other keys, are another queue or table, and what is in the old one stays behind.

    AWS refuses other keys or another projection under the name of an index, and more than one new or removed index in
    a deployment: give the index another name, and remove the old one later.
    """
    _, stacks = synthesised("bank")
    parts = {
        name: one
        for stack in stacks
        if stack.display_name.startswith(("Test/Lanes", "Test/Bulk"))
        for name, one in stack.template["Resources"].items()
    }
    tables = {
        name: (
            keys_in(one["Properties"]),
            {
                index["IndexName"]: (
                    keys_in(index),
                    sorted(index["Projection"].get("NonKeyAttributes", ["*"])),
                )
                for kind in ("Global", "Local")
                for index in one["Properties"].get(f"{kind}SecondaryIndexes", [])
            },
        )
        for name, one in parts.items()
        if one["Type"] == "AWS::DynamoDB::Table"
    }
    others = ("AWS::SQS::Queue", "AWS::Logs::LogGroup", "AWS::S3::Bucket", "AWS::Scheduler::ScheduleGroup")

    assert tables == {
        "LedgerTable9343E4AA": (("pk",), {"parked": (("parked_lane", "parked_until"), ["*"])}),
        "OutboxEntriesTable52448FE8": (
            ("pk", "sk"),
            {
                "ready": (("ready", "claim_order"), ["lane", "not_before", "state"]),
                "timers": (
                    ("timer", "due_at"),
                    ["is_scheduled", "lane", "not_before", "state", "unique_key"],
                ),
                "chains": (("pk", "chain_order"), ["is_parked"]),
            },
        ),
    }
    assert {name for name, one in parts.items() if one["Type"] in others} == {
        "LanesbellQueue6EF109A8",
        "LanesHIGHDeadLetterQueue600FA9DB",
        "LanesHIGHQueue7CBEF046",
        "LanesMEDIUMDeadLetterQueueB3CBD0B6",
        "LanesMEDIUMQueueF876AA2D",
        "LanesMAINDeadLetterQueueB3E344AA",
        "LanesMAINQueue961525CC",
        "OutboxFailures542FF1D0",
        "OutboxLogs83345CE7",
        "SchedulesUndelivered227B55D0",
        "SchedulesGroupC7F67308",
        "ConsumerLogs7B9AAC61",
        "BulkFilesE1FD7E3F",
    }
