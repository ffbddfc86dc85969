"""PriorityLanesStack: the whole, as it's deployed."""

import json
import os
import subprocess
import sys
from pathlib import Path

from aws_cdk import Validations
from cdk_nag import AwsSolutionsChecks, ServerlessChecks

from cdk import PriorityLanesStack
from lanes.config import LanesConfig
from tests.support.infrastructure import FUNCTION_FOLDER, ROOT, new_app, resources

STATEFUL = ("AWS::SQS::Queue", "AWS::DynamoDB::Table", "AWS::Logs::LogGroup")


def test_logical_ids_of_stateful_resources_are_pinned(template):
    """Another logical id would be another queue or table, and its messages would stay behind."""
    found = {name for kind in STATEFUL for name in resources(template, kind)}

    assert found == {
        "LanesHIGHQueue7CBEF046",
        "LanesHIGHDeadLetterQueue600FA9DB",
        "LanesMEDIUMQueueF876AA2D",
        "LanesMEDIUMDeadLetterQueueB3CBD0B6",
        "LanesMAINQueue961525CC",
        "LanesMAINDeadLetterQueueB3E344AA",
        "LedgerTable9343E4AA",
        "ConsumerLogs7B9AAC61",
    }


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
