"""PriorityLanesStack: the whole, as it's deployed."""

import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from aws_cdk import Duration, Environment, PermissionsBoundary, Stack, Token, Validations
from aws_cdk import aws_lambda as lambda_
from cdk_nag import AwsSolutionsChecks, ServerlessChecks

from cdk import BulkEnqueue, LaneQueues, LanesParameter, Ledger, Outbox, PriorityConsumer, PriorityLanesStack
from cdk.function.code import refuse_missing
from cdk.stack import StackProps
from lanes.config import LanesConfig
from lanes.errors import ConfigurationError
from tests.support.infrastructure import FOREIGN_CODE, FUNCTION_FOLDER, ROOT, new_app


def test_outputs_lead_to_everything_a_person_needs(template):
    """Queues, dead-letter queues, table, function and parameter are outputs under plain names."""
    outputs = template.find_outputs("*")

    lanes = ("HIGH", "MEDIUM", "MAIN")
    assert outputs.keys() == {
        "LanesParameter",
        "TableName",
        "ConsumerFunctionName",
        *(f"{lane}QueueUrl" for lane in lanes),
        *(f"{lane}DeadLetterQueueUrl" for lane in lanes),
    }
    assert outputs["MAINQueueUrl"]["Value"] == {"Ref": "LanesMAINQueue961525CC"}


@pytest.mark.deep
def test_the_rules_of_cloudformation_find_nothing(tmp_path):
    """The CDK checks every stack by them as it synthesises; here it does so with the outbox and bulk jobs."""
    settings = json.loads((ROOT / "cdk.json").read_text())["context"]
    context = {**settings, "stage": "outbox", "bulk": "on", "aws:cdk:bundling-stacks": []}
    places = {"CDK_OUTDIR": str(tmp_path), "CDK_CONTEXT_JSON": json.dumps(context), "CDK_VALIDATION": "true"}

    done = subprocess.run(
        [sys.executable, "app.py"],
        cwd=ROOT,
        env=os.environ | places,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "validation-report.json").read_text())["pluginReports"] == []


def checked_by_rules():
    """Synthesise under all rules of cdk-nag and give the report of each pack, with warnings."""
    app = new_app()
    config = LanesConfig.load(ROOT / "lanes.toml")
    PriorityLanesStack(app, "PriorityLanes", config=config, function_folder=FUNCTION_FOLDER)
    Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
    report = Path(app.synth().directory) / "validation-report.json"
    return {pack["pluginName"]: pack for pack in json.loads(report.read_text())["pluginReports"]}


def test_security_rules_find_nothing_unacknowledged():
    """cdk-nag's findings are mended, or acknowledged on the one resource that they are about, with a reason."""
    packs = checked_by_rules()

    acknowledged = {
        (finding["ruleName"], finding["acknowledgedAt"])
        for pack in packs.values()
        for finding in pack["suppressedViolations"]
        if len(finding["reason"]) > 30
    }
    lanes = ("HIGH", "MEDIUM", "MAIN")
    assert [pack["violations"] for pack in packs.values()] == [[]] * len(packs)
    assert acknowledged == {
        *(("Serverless-SQSRedrivePolicy", f"PriorityLanes/Lanes/{lane}/DeadLetterQueue") for lane in lanes),
        *(
            ("Serverless-LambdaEventSourceMappingDestination", f"PriorityLanes/Consumer/{lane}Mapping")
            for lane in lanes
        ),
        ("Serverless-LambdaDLQ", "PriorityLanes/Consumer/Function"),
        ("Serverless-LambdaTracing", "PriorityLanes/Consumer/Function"),
    }


def test_the_props_of_every_stack_reach_this_one_too():
    """Without an account the CLI would deploy to whichever it is logged in to."""
    app = new_app()
    PriorityLanesStack(
        app,
        "Lanes",
        config=LanesConfig(),
        function_folder=FUNCTION_FOLDER,
        env=Environment(account="123456789012", region="eu-central-1"),
        stack_name="shop-lanes",
        description="The lanes of the shop",
        termination_protection=True,
        tags={"team": "shop"},
        permissions_boundary=PermissionsBoundary.from_name("boundary"),
    )

    made = app.synth().get_stack_by_name("shop-lanes")

    assert (made.environment.account, made.environment.region) == ("123456789012", "eu-central-1")
    assert (made.termination_protection, made.tags) == (True, {"team": "shop"})
    assert made.template["Description"] == "The lanes of the shop"
    parts = made.template["Resources"].values()
    assert [one["Properties"]["Name"] for one in parts if one["Type"] == "AWS::SSM::Parameter"] == [
        "/lanes/shop-lanes"
    ]
    assert all("PermissionsBoundary" in one["Properties"] for one in parts if one["Type"] == "AWS::IAM::Role")


def test_every_prop_of_a_stack_is_known():
    """As the CDK adds some."""
    taken = {*inspect.signature(Stack.__init__).parameters} - {"self", "scope", "id"}

    assert taken == StackProps.__optional_keys__


@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        ("handler", "give module and function, such as handler.lambda_handler"),
        ("orders.lambda_handler", "has no module orders; give the folder that has it"),
        ("handler.lambda_handlr", "handler.py has no lambda_handlr; add it"),
        ("shop.lambda_handler", "shop/__init__.py has no lambda_handler; add it"),
    ],
)
def test_a_handler_that_lambda_would_not_find_is_refused(tmp_path, handler, problem):
    """It was deployed, and failed with the first message."""
    (tmp_path / "handler.py").write_text("lambda_handler = None\n")
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").write_text("handle = None\n")

    with pytest.raises(ConfigurationError, match=re.escape(problem)):
        PriorityLanesStack(new_app(), "Shop", config=LanesConfig(), function_folder=tmp_path, handler=handler)


def test_a_handler_of_a_package_or_of_a_layer_is_looked_for_by_lambda(tmp_path):
    """This machine can't know what is in them."""
    refuse_missing("vendor.lambda_handler", tmp_path, has_layers=True)
    (tmp_path / "requirements.txt").write_text("vendor\n")
    refuse_missing("vendor.lambda_handler", tmp_path, has_layers=False)


@pytest.mark.parametrize(
    ("construct", "props", "near"),
    [
        (PriorityLanesStack, {"security_group": []}, "'security_group'; did you mean 'security_groups'?"),
        (PriorityLanesStack, {"encription_key": None}, "'encription_key'; did you mean 'encryption_key'?"),
        (PriorityLanesStack, {"terminationProtection": True}, "did you mean 'termination_protection'?"),
        (PriorityConsumer, {"service_name": "shop"}, "'service_name'; did you mean 'service'?"),
        (PriorityConsumer, {"env": None}, "PriorityConsumer takes no 'env'"),
        (Outbox, {"oldest": None}, "'oldest'; did you mean 'oldest_age'?"),
        (LanesParameter, {"name": "/a"}, "LanesParameter takes no 'name'"),
        (
            PriorityLanesStack,
            {"config": "lanes.toml"},
            "config is 'lanes.toml'; it must be lanes.config.model.Lane",
        ),
        (
            PriorityLanesStack,
            {"existing": {"HIGH": 3}},
            "existing is {'HIGH': 3}; it must be Mapping[str, aws_cdk",
        ),
        (
            PriorityLanesStack,
            {"encryption_key": "arn:aws:kms"},
            "encryption_key is 'arn:aws:kms'; it must be aws_cd",
        ),
        (
            PriorityConsumer,
            {"outbox": Outbox},
            "outbox is a JSIIMeta; it must be cdk.tables.outbox.OutboxTable",
        ),
        (PriorityConsumer, {"code": "function"}, "code is 'function'; it must be aws_cdk.aws_lambda.Code"),
        (
            Outbox,
            {"oldest_age": Duration.hours(1)},
            "oldest_age is a Duration; it must be datetime.timedelta",
        ),
        (
            Outbox,
            {"actions": {"critcal": []}},
            "actions is {'critcal': []}; it must be Mapping[cdk.alarms.rule.Sev",
        ),
        (BulkEnqueue, {"lanes": "MAIN"}, "lanes is 'MAIN'; it must be Sequence[str]"),
        (BulkEnqueue, {"zones": "eu-central-1a"}, "zones is 'eu-central-1a'; it must be Sequence[str]"),
        (
            BulkEnqueue,
            {"maximum_vcpus": Token.as_number({"Ref": "P"})},
            "maximum_vcpus is a token, whose number is",
        ),
        (BulkEnqueue, {"follow": 1}, "follow is 1; it must be bool"),
    ],
)
def test_a_prop_that_no_construct_reads_or_of_another_type_is_a_type_error(construct, props, near):
    """With the nearest one; they were dropped without a word, or ended in an error of other lines."""
    stack = Stack(new_app(), "Shop")
    queues = LaneQueues(stack, "Lanes", config=LanesConfig())
    own = (
        {"config": LanesConfig(), "function_folder": FUNCTION_FOLDER}
        if construct is PriorityLanesStack
        else {"queues": queues, "ledger": Ledger(stack, "Ledger")}
    )
    if construct in {PriorityConsumer, Outbox}:
        own["code"] = lambda_.Code.from_inline(FOREIGN_CODE)

    with pytest.raises(TypeError, match=re.escape(near)):
        construct(stack, "Wrong", **(own | props))
