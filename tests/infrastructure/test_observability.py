"""Observability: alarms and the dashboard."""

import json
import re
from datetime import timedelta

import pytest
from aws_cdk import NestedStack, Stack
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk.assertions import Template

from cdk import LaneQueues, Ledger, Observability, Outbox, PriorityConsumer, Schedules, Severity
from cdk.alarms.lanes import default_oldest_age
from cdk.alarms.rule import Section
from lanes.config import LanesConfig
from lanes.consumer.ledger import Cause
from lanes.consumer.telemetry import receives
from lanes.errors import ConfigurationError
from lanes.events import Event
from lanes.metrics import Metric
from lanes.outbox.telemetry import RelayMetric
from tests.docs.pages import anchors
from tests.golden.golden import check
from tests.support.infrastructure import (
    FOREIGN_CODE,
    ROOT,
    foreign_stack,
    lanes_config,
    new_app,
    render,
    resources,
)

ALARM = "AWS::CloudWatch::Alarm"
# A standard alarm and month in us-east-1, as third parties reported it (cloudburn.io, 2026).
ALARM_DOLLARS = 0.10
RUNBOOK = ROOT / "docs" / "runbook.md"
OWN = "PriorityLanes"
CONSUMERS = {metric.value for metric in Metric} - {Metric.RECEIVES.value} | {
    receives(cause) for cause in Cause
}
RELAYS = {metric.value for metric in RelayMetric}
SQS = {"Namespace": "AWS/SQS", "ComparisonOperator": "GreaterThanOrEqualToThreshold"}


def observed(config, *, topic_arn=None, **props):
    """Give the template of a foreign stack with observability, critical alarms going to the topic."""

    def add(stack, queues, consumer):
        if topic_arn:
            topic = sns.Topic.from_topic_arn(stack, "OnCall", topic_arn)
            props["actions"] = {Severity.CRITICAL: [actions.SnsAction(topic)]}
        Observability(stack, "Observability", queues=queues, consumer=consumer, **props)

    return Template.from_stack(foreign_stack(config, then=add))


@pytest.fixture(scope="module")
def whole():
    """Give the template of another app's stack with three lanes, an outbox, and both observed."""

    def add(stack, queues, consumer):
        outbox = Outbox(
            stack,
            "Outbox",
            queues=queues,
            ledger=Ledger(stack, "OutboxLedger"),
            code=lambda_.Code.from_inline(FOREIGN_CODE),
            handler="index.lambda_handler",
        )
        Observability(stack, "Observability", queues=queues, consumer=consumer, outbox=outbox)

    config = lanes_config(3, on_exhausted={"payment.*": "block"})
    return Template.from_stack(foreign_stack(config, then=add))


@pytest.fixture(scope="module")
def pulled():
    """Give the template of a stack with the pull engine and schedules, observed."""

    def add(stack, queues, consumer):
        schedules = Schedules(stack, "Schedules", queues=queues)
        Observability(stack, "Observability", queues=queues, consumer=consumer, schedules=schedules)

    return Template.from_stack(foreign_stack(lanes_config(3, engine="pull"), then=add))


def alarms_of(template):
    """Give the alarms by the last part of their name, which is the rule's."""
    return {alarm["AlarmName"].rpartition("-")[2]: alarm for alarm in resources(template, ALARM).values()}


def shown_on(template):
    """Give the widgets of the dashboard, references as text."""
    (dashboard,) = resources(template, "AWS::CloudWatch::Dashboard").values()
    return json.loads(render(dashboard["DashboardBody"]))["widgets"]


def own_metrics_of_alarms(template):
    """Give the metrics of the library's own namespace that alarms watch, each with its dimensions."""
    for alarm in resources(template, ALARM).values():
        parts = [query.get("MetricStat", {}).get("Metric", {}) for query in alarm.get("Metrics", [])]
        for metric in [alarm, *parts]:
            if metric.get("Namespace") == OWN:
                yield metric["MetricName"], {one["Name"] for one in metric["Dimensions"]}


def own_metrics_of_widgets(template):
    """Give the metrics of the library's own namespace that graphs show, each with its dimensions."""
    for widget in shown_on(template):
        for line in widget["properties"].get("metrics", []):
            if line[0] == OWN:
                yield line[1], {part for part in line[2:-1:2] if isinstance(part, str)}


COMPARED = {"GreaterThanOrEqualToThreshold": ">=", "LessThanThreshold": "<"}


def told(alarm):
    """Tell what an alarm watches, when it goes off, and how severe it is: expressions last."""
    (severity,) = (tag["Value"] for tag in alarm["Tags"] if tag["Key"] == "severity")
    assert alarm["AlarmDescription"].startswith(f"{severity.upper()}. ")
    period = alarm.get("Period") or next(
        one["MetricStat"]["Period"] for one in alarm["Metrics"] if "MetricStat" in one
    )
    when = (
        f"{severity}: {COMPARED[alarm['ComparisonOperator']]} {alarm['Threshold']} in {alarm['DatapointsToAlarm']} of "
        f"{alarm['EvaluationPeriods']} times {period} s, missing is {alarm['TreatMissingData']}"
    )
    if "Metrics" not in alarm:
        return [when, figure(alarm, alarm["Statistic"])]
    parts = sorted(alarm["Metrics"], key=lambda one: ("Expression" in one, one["Id"]))
    return [
        when,
        *(
            f"{one['Id']} = {one['Expression']}"
            if "Expression" in one
            else f"{one['Id']} = {figure(one['MetricStat']['Metric'], one['MetricStat']['Stat'])}"
            for one in parts
        ),
    ]


def figure(metric, statistic):
    """Tell a metric."""
    of = ", ".join(f"{one['Name']} {render(one['Value'])}" for one in metric["Dimensions"])
    return f"{statistic} of {metric['Namespace']} {metric['MetricName']}, {of}"


def waiting(**max_wait):
    """Make a configuration of two lanes, the lower of which may have a longest wait."""
    return LanesConfig.from_dict({"lanes": [{"name": "L0", "threshold": 0}, {"name": "L1", **max_wait}]})


VARIANTS = {
    "slots for all": (lanes_config(1, reserved_concurrency=4), "Throttles"),
    "a long timeout": (lanes_config(2, function_timeout="15m"), "Throttles"),
    "pull, a long timeout": (lanes_config(2, engine="pull", function_timeout="15m"), "Heartbeat"),
    "patient 2m": (waiting(max_wait="2m"), "L1Starved"),
    "patient 1h": (waiting(max_wait="1h"), "L1Starved"),
    # A day is the most that CloudWatch looks at.
    "patient 30d": (waiting(max_wait="30d"), "L1Starved"),
}


def test_each_alarm_watches_what_its_table_says(whole, pulled):
    """
    Metric, threshold, periods and severity of all, in both engines, and of those that other settings change.

    One that fills in values looks at a period more than it needs: a value of the newest that comes late would be
    filled in, and keep it in its state.
    """
    found = {
        engine: {one["AlarmName"].partition("-")[2]: one for one in resources(template, ALARM).values()}
        for engine, template in (("mappings", whole), ("pull", pulled))
    }
    variants = {what: {name: alarms_of(observed(config))[name]} for what, (config, name) in VARIANTS.items()}

    check(
        "alarms",
        {
            what: {name: told(alarm) for name, alarm in alarms.items()}
            for what, alarms in {**found, **variants}.items()
        },
    )


@pytest.mark.parametrize(
    ("config", "missing"),
    [
        (lanes_config(1), {"L0Starved", "Blocked"}),
        (LanesConfig.from_dict({"enabled": False}), {"HIGHStarved", "MAINStarved", "Blocked"}),
        (lanes_config(2, engine="pull"), {"L0Starved", "Throttles", "Blocked"}),
    ],
    ids=["one lane", "switched off", "pull"],
)
def test_there_is_no_alarm_for_what_cannot_happen(config, missing):
    """Each costs money. Nothing makes way in a single lane, in lanes that are off, and for the highest."""
    assert not missing & alarms_of(observed(config)).keys()


def test_alarms_are_found_by_name_and_watch_ten_lanes_at_most():
    """For actions of another app. AWS takes ten metrics in an expression; the others have an alarm with a number."""
    found = {}

    def add(stack, queues, consumer):
        found.update(Observability(stack, "Observability", queues=queues, consumer=consumer).alarms)

    foreign_stack(lanes_config(11), then=add)

    assert {"L0DeadLetters", "L10OldestAge", "Errors"} <= found.keys()
    assert {name for name in found if name.startswith("CallErrors")} == {"CallErrors", "CallErrors2"}
    assert all(isinstance(alarm, cloudwatch.Alarm) for alarm in found.values())


def test_the_wait_that_alarms_can_be_chosen_by_lane():
    """A lane's own figure replaces its default and leaves the others alone."""
    template = observed(lanes_config(2), oldest_age={"L1": timedelta(minutes=30)})

    thresholds = {
        name: alarm["Threshold"] for name, alarm in alarms_of(template).items() if "OldestAge" in name
    }
    assert thresholds == {"L0OldestAge": 300, "L1OldestAge": 1800}


def test_a_wait_for_an_unknown_lane_or_of_no_time_is_refused():
    """A typing mistake would leave a lane with its default unnoticed."""
    with pytest.raises(ConfigurationError, match="oldest_age names lane 'L9'; there are L0, L1"):
        observed(lanes_config(2), oldest_age={"L9": timedelta(minutes=1)})
    with pytest.raises(ConfigurationError, match="oldest_age of L1 is 0 seconds; it must be more than 0"):
        observed(lanes_config(2), oldest_age={"L1": timedelta()})


@pytest.mark.parametrize(
    ("count", "ages"), [(1, ["1h"]), (2, ["5m", "1d"]), (4, ["5m", "1h", "1h", "1d"])], ids="{} lanes".format
)
def test_default_waits_follow_the_order_of_lanes(count, ages):
    """Any number of lanes gets sensible figures."""
    units = {"m": 60, "h": 3600, "d": 86400}
    config = lanes_config(count)

    found = [default_oldest_age(config, lane).total_seconds() for lane in config.lanes]

    assert found == [int(age[:-1]) * units[age[-1]] for age in ages]


def texts_on(template):
    """Give the texts of the dashboard."""
    return [one["properties"]["markdown"] for one in shown_on(template) if one["type"] == "text"]


def test_the_dashboard_of_the_pull_engine_shows_rings_and_no_yields(pulled):
    """What the mappings made necessary is not there."""
    titles = [one["properties"].get("title") for one in shown_on(pulled)]

    assert titles.count("Rings of the bell") == 1
    assert titles.count("Served from the reserve") == 3
    assert "Share of receives that yielded (%)" not in titles


def test_actions_follow_the_severity():
    """The on-call topic hears of critical alarms only."""
    topic = "arn:aws:sns:eu-central-1:123456789012:on-call"
    template = observed(lanes_config(2), topic_arn=topic)

    acting = {name for name, alarm in alarms_of(template).items() if alarm.get("AlarmActions") == [topic]}

    assert acting == {"L0OldestAge", "L0NearExpiry", "L1NearExpiry", "CallErrors", "Throttles"}


def test_batches_that_an_error_of_the_consumer_interrupts_alarm(whole):
    """They are counted in the log by the event that the consumer writes, for each service."""
    (log_filter,) = resources(whole, "AWS::Logs::MetricFilter").values()
    (counted,) = log_filter["MetricTransformations"]
    alarm = alarms_of(whole)["Interrupted"]

    assert Event.BATCH_INTERRUPTED in log_filter["FilterPattern"]
    assert counted["Dimensions"] == [{"Key": "service", "Value": "$.service"}]
    assert (alarm["Namespace"], alarm["MetricName"]) == (counted["MetricNamespace"], counted["MetricName"])
    assert alarm["Dimensions"] == [{"Name": "service", "Value": "Foreign"}]


def test_throttled_writes_of_tables_and_of_all_their_global_indexes_alarm(whole):
    """A hot key of an index throttles the writes of its table."""
    alarms = {
        alarm["AlarmName"]: alarm
        for alarm in resources(whole, ALARM).values()
        if alarm["AlarmName"].endswith("TableThrottles")
    }
    watched = {
        name: {
            render(one["Value"])
            for query in alarm["Metrics"]
            for one in query.get("MetricStat", {}).get("Metric", {}).get("Dimensions", [])
            if one["Name"] == "GlobalSecondaryIndexName"
        }
        for name, alarm in alarms.items()
    }
    defined = {
        index["IndexName"]
        for table in resources(whole, "AWS::DynamoDB::Table").values()
        for index in table["GlobalSecondaryIndexes"]
    }

    assert len(alarms) == 2
    assert set().union(*watched.values()) == defined


def test_the_cost_page_names_the_price_of_the_alarms(template):
    """CloudWatch charges each metric that an alarm watches."""
    watched = sum(
        max(1, sum("MetricStat" in query for query in alarm.get("Metrics", [])))
        for alarm in resources(template, ALARM).values()
    )

    page = (ROOT / "docs" / "cost.md").read_text(encoding="utf-8")
    assert f"| the alarms, at ${ALARM_DOLLARS:.2f} a metric | about ${watched * ALARM_DOLLARS:.0f} |" in page


def test_what_alarms_watch_is_what_the_consumer_and_the_relay_report(whole):
    """By the names in their own code, and by the dimensions that they give them."""
    found = list(own_metrics_of_alarms(whole))

    assert {name for name, _ in found} <= CONSUMERS | RELAYS
    assert {Metric.HANDLED, Metric.YIELDED, Metric.AWS_ERRORS} <= {name for name, _ in found}
    for name, dimensions in found:
        of_lane = name not in RELAYS or name == RelayMetric.LANE_FAILURES
        assert dimensions == ({"lane", "service"} if of_lane else {"service"})


def test_what_the_dashboard_shows_is_what_the_consumer_and_the_relay_report(whole):
    """By the names in their own code, and by the dimensions that they give them."""
    found = list(own_metrics_of_widgets(whole))

    assert {name for name, _ in found} <= CONSUMERS | RELAYS
    for name, dimensions in found:
        assert dimensions >= ({"service"} if name in RELAYS else {"lane", "service"})


def test_the_figures_that_matter_are_on_the_dashboard(whole):
    """Waits, yields, inversions, every cause of a receive, dead letters, throttles, reserve, slots, outbox."""
    lines = [line for widget in shown_on(whole) for line in widget["properties"].get("metrics", [])]
    names = {line[1] for line in lines if isinstance(line[0], str)}
    statistics = {(line[1], line[-1].get("stat")) for line in lines if len(line) > 1}
    expressions = " ".join(line[0]["expression"] for line in lines if isinstance(line[0], dict))

    assert {(Metric.WAIT, "p50"), (Metric.WAIT, "p99")} <= statistics
    assert {
        Metric.INVERSION,
        Metric.RESERVE,
        Metric.AWS_ERRORS,
        *(receives(cause) for cause in Cause),
    } <= names
    assert {"Throttles", "ConcurrentExecutions", "ApproximateNumberOfMessagesVisible"} <= names
    assert {RelayMetric.OLDEST_AGE, RelayMetric.KEPT_ABANDONED} <= names
    assert "100 * yielded" in expressions
    assert "1 - FILL(busy, 0)" in expressions


def test_the_dashboard_shows_busy_and_free_slots():
    """Out of the reserved concurrency."""
    template = observed(lanes_config(2, reserved_concurrency=3))

    assert "Busy and free of 3 slots" in [one["properties"].get("title") for one in shown_on(template)]


def test_the_dashboard_has_a_section_for_each_lane_the_function_and_the_outbox(whole):
    """In the order of the lanes; graphs of yields are shown for lower lanes only."""
    widgets = shown_on(whole)
    headings = [one.partition("\n")[0] for one in texts_on(whole) if one.startswith("### ")]
    titles = [one["properties"].get("title") for one in widgets]

    assert headings == [
        "### Lane L0",
        "### Lane L1",
        "### Lane L2",
        "### Function",
        "### Outbox",
        "### Runbook",
    ]
    assert titles.count("Outcomes") == 3
    assert titles.count("Work done while a higher lane waited (ms)") == 2


def test_the_state_of_every_alarm_is_on_the_dashboard(whole):
    """Those of the outbox too."""
    (states,) = [one for one in shown_on(whole) if one["type"] == "alarm"]

    assert {arn.strip("<>").removesuffix(".Arn") for arn in states["properties"]["alarms"]} == set(
        resources(whole, ALARM)
    )


def test_a_lanes_graphs_show_where_its_alarms_begin(whole):
    """A line at the threshold of its age and of its dead letters."""
    lines = {
        (one["properties"]["title"], line["value"])
        for one in shown_on(whole)
        for line in one["properties"].get("annotations", {}).get("horizontal", [])
    }

    assert lines == {("Age of the oldest message (s)", age) for age in (300, 3600, 86400)} | {
        ("Dead letters", 1)
    }


def test_every_alarm_says_what_to_do_first_and_names_its_section(whole, pulled):
    """And every section of the runbook is that of an alarm; the anchors are those of its headings."""
    sections = set()
    for alarm in [*resources(whole, ALARM).values(), *resources(pulled, ALARM).values()]:
        words, _, section = alarm["AlarmDescription"].partition("Runbook: docs/runbook.md#")
        assert words.startswith(("CRITICAL. ", "WARNING. ")), words
        assert " First: " in words, words
        sections.add(section)

    assert sections == anchors(RUNBOOK) - {"runbook", "alarms"}
    assert sections == set(Section)


def test_the_runbook_can_be_elsewhere():
    """A team has its pages where its people look."""
    template = observed(lanes_config(1), runbook="https://wiki.example/runbook")

    description = alarms_of(template)["Errors"]["AlarmDescription"]
    assert description.endswith("Runbook: https://wiki.example/runbook#errors")


def test_the_dashboard_has_the_first_step_of_every_alarm(whole):
    """With the link, for those who look at a graph and have no alarm before them."""
    text = next(one for one in texts_on(whole) if one.startswith("### Runbook"))

    for alarm in resources(whole, ALARM).values():
        _, _, told = alarm["AlarmDescription"].partition(". ")
        assert told.partition("Runbook:")[0].strip() in text
    linked = observed(lanes_config(1), runbook="https://wiki.example/runbook")
    assert "[errors](https://wiki.example/runbook#errors)" in json.dumps(shown_on(linked))


def test_the_dashboard_has_the_sections_of_its_alarms(whole):
    """Without a link that only their folder could resolve; CloudFormation takes a megabyte for all of them."""
    linked = {alarm["AlarmDescription"].rpartition("#")[2] for alarm in resources(whole, ALARM).values()}
    shown = {one.partition("\n")[0]: one for one in texts_on(whole) if one.startswith("## ")}

    assert set(shown) == {f"## {anchor.replace('-', ' ').capitalize()}" for anchor in linked}
    assert "lanes dead-letters redrive MAIN" in shown["## Dead letters"]
    assert not [text for text in shown.values() if re.search(r"\]\((?!https://)", text)]
    # AWS: a template is at most 1 MB, a dashboard has at most 500 widgets (quotas of CloudFormation and CloudWatch).
    assert len(json.dumps(whole.to_json())) < 1_000_000
    assert len(shown_on(whole)) <= 500


def test_alarms_and_dashboard_are_named_after_the_stack(whole):
    """Such names are shared by the whole account."""
    (dashboard,) = resources(whole, "AWS::CloudWatch::Dashboard").values()
    names = [alarm["AlarmName"] for alarm in resources(whole, ALARM).values()]

    assert dashboard["DashboardName"] == "Foreign-Observability"
    assert len(set(names)) == len(names)
    assert all(name.startswith(("Foreign-Observability-", "Foreign-Outbox-")) for name in names)


def test_a_nested_stack_names_them_after_its_place():
    """Its own name is known to CloudFormation alone."""
    outer = Stack(new_app(), "Outer")
    queues = LaneQueues(nested := NestedStack(outer, "Inner"), "Lanes", config=lanes_config(1))
    consumer = PriorityConsumer(
        nested,
        "Consumer",
        queues=queues,
        ledger=Ledger(nested, "Ledger"),
        code=lambda_.Code.from_inline(FOREIGN_CODE),
        handler="index.lambda_handler",
        service="orders",
    )
    Observability(nested, "Watch", queues=queues, consumer=consumer)

    alarms = resources(Template.from_stack(nested), ALARM).values()
    assert all(alarm["AlarmName"].startswith("Outer-Inner-Watch-") for alarm in alarms)
