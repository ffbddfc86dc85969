"""The app: stages, names, and its errors."""

import functools

import pytest
from aws_cdk import App, RemovalPolicy

import app as cdk_app
from cdk import StageSettings
from lanes.errors import ConfigurationError
from tests.support.infrastructure import new_app


@functools.cache
def synthesise(**context):
    """Synthesise the app as with `cdk -c name=value` and return its one stack's artifact."""
    app = new_app(**context)
    cdk_app.add_stacks(app)
    (stack,) = app.synth().stacks
    return stack


def variables(stack):
    """Give the text of the function's LANES_DEPLOYMENT, references left out."""
    (function,) = [
        resource
        for resource in stack.template["Resources"].values()
        if resource["Type"] == "AWS::Lambda::Function"
    ]
    parts = function["Properties"]["Environment"]["Variables"]["LANES_DEPLOYMENT"]["Fn::Join"][1]
    return "".join(part for part in parts if isinstance(part, str))


def test_without_a_stage_there_is_one_stack_under_the_products_name():
    """`cdk deploy` needs no argument."""
    stack = synthesise()

    assert stack.stack_name == "PriorityLanes"


def test_a_stage_is_a_stack_of_its_own_with_the_stages_settings():
    """`-c stage=demo` deploys a stack of its own, with the settings of the stage."""
    stack = synthesise(stage="demo")

    assert stack.stack_name == "PriorityLanes-demo"
    assert '"function_timeout":10' in variables(stack)


def test_the_stage_without_priorities_switches_them_off():
    """demo-off has the same lanes and never yields."""
    assert '"enabled":false' in variables(synthesise(stage="demo-off"))


def test_an_unknown_stage_is_refused_with_the_nearest_one():
    """A typing mistake must not become a stack."""
    with pytest.raises(ConfigurationError, match=r"unknown stage 'dmo'.*demo"):
        synthesise(stage="dmo")


def test_everything_stateful_stays_unless_removal_is_destroy():
    """`-c removal=destroy` is for temporary stages. A first deployment that fails leaves nothing behind either way."""

    def kept(stack):
        found = stack.template["Resources"].values()
        policies = [one.get("DeletionPolicy") for one in found if one["Type"] != "AWS::Lambda::Version"]
        return policies.count("RetainExceptOnCreate"), policies.count("Delete")

    assert kept(synthesise()) == (8, 0)
    assert kept(synthesise(removal="destroy")) == (0, 8)


def test_an_unknown_removal_is_refused():
    """The error explains both values."""
    with pytest.raises(ConfigurationError, match=r"removal is 'keep': 'retain' keeps .* 'destroy' deletes"):
        StageSettings.from_context(App(context={"removal": "keep"}).node)


@pytest.mark.parametrize("name", ["stage", "removal", "alarm_topic"])
def test_an_empty_setting_is_refused(name):
    """A script's unset variable: `cdk destroy -c stage=` would mean the stack without a stage."""
    with pytest.raises(ConfigurationError, match=f"{name} is empty: give a value, or leave out -c {name}"):
        StageSettings.from_context(App(context={name: ""}).node)


def test_settings_default_to_no_stage_and_to_keeping_everything():
    """An app without any context is a deployment for real."""
    assert StageSettings.from_context(App().node) == StageSettings(
        stage=None, removal_policy=RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
    )


def test_a_stage_that_cannot_be_part_of_a_stack_name_is_refused():
    """Before CloudFormation or jsii says it less clearly."""
    with pytest.raises(ConfigurationError, match=r"my_stage.*letters, digits and hyphens"):
        StageSettings.from_context(App(context={"stage": "my_stage"}).node)
    # cdk.json may have numbers.
    assert StageSettings.from_context(App(context={"stage": 3}).node).stage == "3"
    with pytest.raises(ConfigurationError, match="alarm_topic is 7: give the ARN"):
        StageSettings.from_context(App(context={"alarm_topic": 7}).node)


def test_an_alarm_topic_is_notified_by_every_alarm():
    """`-c alarm_topic=ARN`, also of the outbox."""
    topic = "arn:aws:sns:eu-central-1:123456789012:on-call"
    stack = synthesise(alarm_topic=topic, stage="outbox")

    alarms = [
        one["Properties"]
        for one in stack.template["Resources"].values()
        if one["Type"] == "AWS::CloudWatch::Alarm"
    ]
    assert len(alarms) > 15
    assert all(alarm["AlarmActions"] == [topic] for alarm in alarms)


def test_every_alarm_links_to_the_runbook_that_is_set():
    """`-c runbook=URL`, also of the outbox."""
    stack = synthesise(runbook="https://wiki.example.com/runbook", stage="outbox")

    alarms = [
        one["Properties"]
        for one in stack.template["Resources"].values()
        if one["Type"] == "AWS::CloudWatch::Alarm"
    ]
    assert len(alarms) > 15
    assert all("Runbook: https://wiki.example.com/runbook#" in alarm["AlarmDescription"] for alarm in alarms)


@pytest.mark.parametrize(
    "runbook", ["wiki/lanes", "http://wiki.example.com", "https://", "https://a b", "https://a/#b"]
)
def test_a_runbook_that_is_no_https_url_is_refused(runbook):
    """An alarm at night must not link to nothing."""
    with pytest.raises(ConfigurationError, match="give the https URL"):
        StageSettings.from_context(App(context={"runbook": runbook}).node)


def test_an_alarm_topic_that_is_no_arn_is_refused():
    """A name alone would notify nothing."""
    with pytest.raises(ConfigurationError, match="alarm_topic is 'on-call': give the ARN"):
        StageSettings.from_context(App(context={"alarm_topic": "on-call"}).node)
