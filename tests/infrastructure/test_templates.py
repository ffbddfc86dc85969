"""The templates that people deploy pass cfn-lint and cdk-nag: default, pull, outbox, five lanes, bulk jobs."""

import json
from pathlib import Path

import pytest
from aws_cdk import Validations
from cdk_nag import AwsSolutionsChecks, ServerlessChecks
from cfnlint.api import lint
from cfnlint.config import ManualArgs

import app as cdk_app
from cdk import PriorityLanesStack
from lanes.config import LanesConfig
from tests.support.infrastructure import FUNCTION_FOLDER, ROOT, lanes_config, new_app

NIGHTLY = {"name": "nightly", "kind": "statements.render", "cron": "30 3 * * mon", "priority": "BULK"}
FIVE = {"on_exhausted": {"payment.*": "block"}, "reserved_concurrency": 10, "idempotency": True}


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


APPS = {
    "default": lambda: configured(LanesConfig.load(ROOT / "lanes.toml")),
    "pull": lambda: configured(
        LanesConfig.from_dict({"consumer": {"engine": "pull"}, "schedules": [NIGHTLY]})
    ),
    "outbox": lambda: configured(LanesConfig.from_dict({"outbox": {"enabled": True}})),
    "five lanes": lambda: configured(lanes_config(5, **FIVE)),
    "bulk": with_bulk,
}


@pytest.mark.parametrize("name", APPS)
def test_no_rule_finds_anything_in_a_template(name):
    """Of both packs of cdk-nag without the findings acknowledged beside a resource, and of cfn-lint in two regions."""
    app = APPS[name]()
    Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
    assembly = app.synth()

    report = json.loads((Path(assembly.directory) / "validation-report.json").read_text())
    # A pack without any finding, acknowledged or not, is not in it.
    assert "Serverless" in {pack["pluginName"] for pack in report["pluginReports"]}
    assert [violation for pack in report["pluginReports"] for violation in pack["violations"]] == []
    assert len(assembly.stacks) == (2 if name == "bulk" else 1)
    for stack in assembly.stacks:
        findings = lint(json.dumps(stack.template), config=ManualArgs(regions=["eu-central-1", "us-east-1"]))
        assert [str(finding) for finding in findings] == []
