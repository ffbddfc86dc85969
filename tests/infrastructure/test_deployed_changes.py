"""Changes that are unsafe beside the deployed stack, and a deployment that leaves paused lanes alone."""

import boto3
import pytest
from aws_cdk import Stack
from aws_cdk import aws_lambda as lambda_
from aws_cdk.assertions import Annotations, Match, Template
from moto import mock_aws

import app as cdk_app
from cdk import LaneQueues, Ledger, PriorityConsumer
from cdk.stack import report_unsafe_changes
from lanes.config import LanesConfig
from lanes.config.deployment import Deployment
from lanes.config.deployment import LaneQueues as DeployedQueues
from lanes.errors import ConfigurationError
from tests.support.infrastructure import FOREIGN_CODE, lanes_config, new_app, resources

ACCOUNT = "123456789012"


def config_of(*names, timeout="30s", closing=()):
    """Make a configuration of lanes by name."""
    lanes = [
        {"name": name, "threshold": 100 - place, "closing": name in closing}
        for place, name in enumerate(names)
    ]
    return LanesConfig.from_dict({"lanes": lanes, "consumer": {"function_timeout": timeout}})


def warnings(deployed, config, *, queues=None, **props):
    """Report on a stack, beside one with these queues, and give the warnings as text."""
    stack = Stack(new_app(), "Stack")
    made = {
        lane.name: deployed_queues(f"Stack-Lanes{lane.name}Queue1A2B-XYZ.fifo") for lane in deployed.lanes
    }
    report_unsafe_changes(
        stack,
        before=Deployment(config=deployed, queues=made | (queues or {}), table="ledger"),
        queues=LaneQueues(stack, "Lanes", config=config, **props),
    )
    found = Annotations.from_stack(stack).find_warning("*", Match.any_value())
    return [message.entry.data for message in found]


def deployed_queues(name, *, existing=False):
    """Give the queues of a deployed lane by the name of the first."""
    url = f"https://sqs.eu-central-1.amazonaws.com/{ACCOUNT}/{name}"
    return DeployedQueues(url=url, dead_letter_url=f"{url}-dead", existing=existing)


ARN = f"arn:aws:sqs:eu-central-1:{ACCOUNT}:orders.fifo"
ON_ORDERS = {
    "existing": {"HIGH": ARN},
    "dead_letter_queues": {"HIGH": f"arn:aws:sqs:eu-central-1:{ACCOUNT}:orders-dead.fifo"},
}
NAMED = {"queue_names": {"HIGH": "orders.fifo"}}
OLD, NEW = deployed_queues("orders.fifo"), deployed_queues("other.fifo")
THEIRS = deployed_queues("orders.fifo", existing=True)


@pytest.mark.parametrize(
    ("before", "props", "old"),
    [
        (None, NAMED, "Stack-LanesHIGHQueue1A2B-XYZ.fifo"),
        (None, ON_ORDERS, "Stack-LanesHIGHQueue1A2B-XYZ.fifo"),
        (OLD, {}, "orders.fifo"),
        (NEW, NAMED, "other.fifo"),
        (NEW, ON_ORDERS, "other.fifo"),
        (THEIRS, {}, "orders.fifo"),
        (None, {}, None),
        (OLD, NAMED, None),
        (THEIRS, ON_ORDERS, None),
        (OLD, ON_ORDERS, None),
        (deployed_queues(f"{'long' * 18}-LanesHI.fifo"), {}, None),
    ],
)
def test_a_lane_that_gets_another_queue_is_a_warning(before, props, old):
    """Its messages would stay in the one before."""
    config = config_of("HIGH", "MAIN")

    found = warnings(config, config, queues={} if before is None else {"HIGH": before}, **props)

    assert [f"in place of {old}." in one for one in found] == ([] if old is None else [True])


def test_a_lane_that_is_removed_before_it_is_closed_is_a_warning():
    """Its messages would stay where no function reads them. A closing lane may go."""
    (warning,) = warnings(config_of("HIGH", "OLD", "MAIN"), config_of("HIGH", "MAIN"))
    closed = warnings(config_of("HIGH", "OLD", "MAIN", closing=["OLD"]), config_of("HIGH", "MAIN"))

    assert "Lane OLD is deployed" in warning
    assert "closing = true" in warning
    assert closed == []


@pytest.mark.parametrize(
    "before", [{"scheduler": True}, {"schedules": [{"name": "s", "kind": "k", "every": "5m"}]}]
)
def test_a_schedule_group_that_is_removed_is_a_warning(before):
    """Its messages for later are sent, but nobody can list or cancel them."""
    deployed, kept = LanesConfig.from_dict(before), LanesConfig.from_dict({"scheduler": True})
    (warning,) = warnings(deployed, LanesConfig())

    assert "scheduler = true" in warning
    assert warnings(deployed, kept) == warnings(LanesConfig(), LanesConfig()) == []


def test_a_timeout_that_shrinks_by_more_than_the_visibility_factor_is_refused():
    """Messages of invocations that run for the earlier timeout would return while they run."""
    long = config_of("MAIN", timeout="15m")

    assert warnings(long, config_of("MAIN", timeout="150s")) == []
    with pytest.raises(ConfigurationError, match=r"100s and 15m is deployed.*deploy at least 150s first"):
        warnings(long, config_of("MAIN", timeout="100s"))


@pytest.mark.parametrize(("account", "warned"), [(ACCOUNT, True), ("999999999999", False)])
def test_the_app_reads_the_parameter_of_the_deployed_stack(monkeypatch, account, warned):
    """With the credentials that it has; a parameter of another account says nothing about the target."""
    url = f"https://sqs.eu-central-1.amazonaws.com/{ACCOUNT}/q.fifo"
    names = ("HIGH", "MEDIUM", "OLD", "MAIN")
    deployed = Deployment(
        config=config_of(*names),
        queues={name: DeployedQueues(url=url, dead_letter_url=url) for name in names},
        table="ledger",
    )
    monkeypatch.setenv("CDK_DEFAULT_ACCOUNT", account)
    monkeypatch.setenv("CDK_DEFAULT_REGION", "eu-central-1")
    stack = cdk_app.add_stacks(new_app())

    with mock_aws():
        stack.compare_with_deployed()
        ssm = boto3.client("ssm", region_name="eu-central-1")
        ssm.put_parameter(Name="/lanes/PriorityLanes", Value=deployed.to_json(), Type="String")
        stack.compare_with_deployed()

    found = Annotations.from_stack(stack).find_warning("*", Match.string_like_regexp("Lane OLD"))
    assert bool(found) == warned


def test_a_deployment_of_new_code_leaves_the_mappings_alone():
    """CloudFormation updates a mapping only if its template changes, so a paused lane stays paused."""

    def mappings(code):
        stack = Stack(new_app(), "Stack")
        PriorityConsumer(
            stack,
            "Consumer",
            queues=LaneQueues(stack, "Lanes", config=lanes_config(2)),
            ledger=Ledger(stack, "Ledger"),
            code=lambda_.Code.from_inline(code),
            handler="index.lambda_handler",
        )
        template = Template.from_stack(stack)
        (version,) = template.find_resources("AWS::Lambda::Version")
        return version, resources(template, "AWS::Lambda::EventSourceMapping")

    (first, before), (second, after) = mappings(FOREIGN_CODE), mappings(f"{FOREIGN_CODE} # changed")

    assert first != second
    assert before == after
