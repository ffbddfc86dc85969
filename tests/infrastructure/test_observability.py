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
from aws_cdk.assertions import Match, Template

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


def queue_name(template, start):
    """Give the name by which an alarm refers to the queue with this start of its logical id."""
    (name,) = [name for name in resources(template, "AWS::SQS::Queue") if name.startswith(start)]
    return [{"Name": "QueueName", "Value": {"Fn::GetAtt": [name, "QueueName"]}}]


@pytest.mark.parametrize("lane", ["HIGH", "MEDIUM", "MAIN"])
def test_the_first_dead_letter_of_a_lane_alarms(template, lane):
    """The alarm watches the visible count, which includes messages that SQS moved there."""
    template.has_resource_properties(
        ALARM,
        SQS
        | {
            "MetricName": "ApproximateNumberOfMessagesVisible",
            "Dimensions": queue_name(template, f"Lanes{lane}DeadLetterQueue"),
            "Threshold": 1,
            "TreatMissingData": "notBreaching",
        },
    )


@pytest.mark.parametrize(("lane", "seconds"), [("HIGH", 300), ("MEDIUM", 3600), ("MAIN", 86400)])
def test_a_long_wait_alarms_by_lane(template, lane, seconds):
    """Urgent work alarms after minutes, bulk work after a day."""
    template.has_resource_properties(
        ALARM,
        SQS
        | {
            "MetricName": "ApproximateAgeOfOldestMessage",
            "Dimensions": queue_name(template, f"Lanes{lane}Queue"),
            "Threshold": seconds,
        },
    )


@pytest.mark.parametrize("lane", ["HIGH", "MEDIUM", "MAIN"])
def test_a_message_near_its_expiry_alarms_as_critical(template, lane):
    """SQS drops expired messages silently, so half of the retention is the last call."""
    template.has_resource_properties(
        ALARM,
        {
            "MetricName": "ApproximateAgeOfOldestMessage",
            "Dimensions": queue_name(template, f"Lanes{lane}Queue"),
            "Threshold": 7 * 86400,
            "AlarmDescription": Match.string_like_regexp("^CRITICAL. "),
            "Tags": Match.array_with([{"Key": "severity", "Value": "critical"}]),
        },
    )


def test_the_wait_that_alarms_can_be_chosen_by_lane():
    """A lane's own figure replaces its default and leaves the others alone."""
    template = observed(lanes_config(2), oldest_age={"L1": timedelta(minutes=30)})

    thresholds = {
        name: alarm["Threshold"] for name, alarm in alarms_of(template).items() if "OldestAge" in name
    }
    assert thresholds == {"L0OldestAge": 300, "L1OldestAge": 1800}


def test_a_wait_for_an_unknown_lane_is_refused():
    """A typing mistake would leave a lane with its default unnoticed."""
    with pytest.raises(ConfigurationError, match="oldest_age names lane 'L9'; there are L0, L1"):
        observed(lanes_config(2), oldest_age={"L9": timedelta(minutes=1)})


@pytest.mark.parametrize(
    ("count", "ages"), [(1, ["1h"]), (2, ["5m", "1d"]), (4, ["5m", "1h", "1h", "1d"])], ids="{} lanes".format
)
def test_default_waits_follow_the_order_of_lanes(count, ages):
    """Any number of lanes gets sensible figures."""
    units = {"m": 60, "h": 3600, "d": 86400}
    config = lanes_config(count)

    found = [default_oldest_age(config, lane).total_seconds() for lane in config.lanes]

    assert found == [int(age[:-1]) * units[age[-1]] for age in ages]


def test_throttles_alarm_where_the_mappings_compete_only_when_nothing_runs(template):
    """With one slot for three mappings throttles are ordinary; throttles without any invocation are not."""
    template.has_resource_properties(
        ALARM,
        {
            "AlarmDescription": Match.string_like_regexp("no invocation starts"),
            "DatapointsToAlarm": 2,
            "EvaluationPeriods": 3,
            "Metrics": Match.array_with(
                [Match.object_like({"Expression": "IF(FILL(invocations, 0) < 1, throttles, 0)"})]
            ),
        },
    )


def test_a_long_function_timeout_makes_the_throttle_alarm_wait_longer():
    """A single invocation of fifteen minutes doesn't look like standstill."""
    template = observed(lanes_config(2, function_timeout="15m"))

    assert alarms_of(template)["Throttles"]["DatapointsToAlarm"] == 4


def test_any_throttle_alarms_where_there_are_slots_for_all():
    """With as many slots as the mappings may start, something else must be wrong."""
    template = observed(lanes_config(1, reserved_concurrency=4))

    template.has_resource_properties(ALARM, {"MetricName": "Throttles", "Threshold": 1, "Statistic": "Sum"})


@pytest.mark.parametrize(("timeout", "periods"), [("30s", 2), ("15m", 4)])
def test_the_pull_engine_alarms_when_no_invocation_starts(timeout, periods):
    """The heartbeat starts one every 20 seconds; no figure at all is as bad as zero. There is no alarm on throttles."""
    alarms = alarms_of(observed(lanes_config(2, engine="pull", function_timeout=timeout)))

    alarm = alarms["Heartbeat"]
    assert (alarm["MetricName"], alarm["Statistic"], alarm["Threshold"]) == ("Invocations", "Sum", 1)
    assert alarm["ComparisonOperator"] == "LessThanThreshold"
    assert alarm["TreatMissingData"] == "breaching"
    assert alarm["EvaluationPeriods"] == alarm["DatapointsToAlarm"] == periods
    assert alarm["AlarmDescription"].startswith("CRITICAL. ")
    assert "Throttles" not in alarms


def test_a_lane_of_the_pull_engine_starves_when_it_waits_without_an_attempt(pulled):
    """It is not received from, so it yields nothing."""
    for lane in ("L1", "L2"):
        alarm = alarms_of(pulled)[f"{lane}Starved"]
        stats = [query["MetricStat"]["Metric"] for query in alarm["Metrics"] if "MetricStat" in query]
        waiting = {"Name": "QueueName", "Value": queue_name(pulled, f"Lanes{lane}Queue")[0]["Value"]}

        assert {one["MetricName"] for one in stats} == {
            Metric.HANDLED,
            Metric.FAILED,
            "ApproximateNumberOfMessagesVisible",
        }
        assert waiting in [name for one in stats for name in one["Dimensions"]]
    assert "L0Starved" not in alarms_of(pulled)


def texts_on(template):
    """Give the texts of the dashboard."""
    return [one["properties"]["markdown"] for one in shown_on(template) if one["type"] == "text"]


def test_the_dashboard_of_the_pull_engine_shows_rings_and_no_yields(pulled):
    """What the mappings made necessary is not there."""
    titles = [one["properties"].get("title") for one in shown_on(pulled)]

    assert titles.count("Rings of the bell") == 1
    assert titles.count("Served from the reserve") == 3
    assert "Share of receives that yielded (%)" not in titles


def test_errors_of_the_function_alarm(template):
    """Failures of single messages are answered, so an error is a crash or a timeout."""
    (function,) = resources(template, "AWS::Lambda::Function")

    template.has_resource_properties(
        ALARM,
        {
            "MetricName": "Errors",
            "Dimensions": [{"Name": "FunctionName", "Value": {"Ref": function}}],
            "Threshold": 1,
        },
    )


def test_actions_follow_the_severity():
    """The on-call topic hears of critical alarms only."""
    topic = "arn:aws:sns:eu-central-1:123456789012:on-call"
    template = observed(lanes_config(2), topic_arn=topic)

    acting = {name for name, alarm in alarms_of(template).items() if alarm.get("AlarmActions") == [topic]}

    assert acting == {"L0OldestAge", "L0NearExpiry", "L1NearExpiry", "CallErrors", "Throttles"}


@pytest.mark.parametrize(
    ("max_wait", "periods"), [(None, 7), ("2m", 2), ("1h", 13), ("30d", 287)], ids="max_wait {}".format
)
def test_a_lane_that_only_makes_way_alarms_after_its_own_patience(max_wait, periods):
    """After ``max_wait`` where it is set, and the highest lane never; a day is the most that CloudWatch looks at."""
    lanes = [{"name": "TOP", "threshold": 0}, {"name": "REST"} | ({"max_wait": max_wait} if max_wait else {})]
    template = observed(LanesConfig.from_dict({"lanes": lanes}))

    (name,) = [name for name in alarms_of(template) if name.endswith("Starved")]
    alarm = alarms_of(template)[name]
    assert name == "RESTStarved"
    assert alarm["DatapointsToAlarm"] == periods
    watched = {
        query["MetricStat"]["Metric"]["MetricName"] for query in alarm["Metrics"] if "MetricStat" in query
    }
    assert watched == {Metric.HANDLED, Metric.YIELDED}


def test_an_alarm_that_fills_in_values_does_not_stick(whole, pulled):
    """A value of the newest period that comes late is filled in; the alarm looks at one period more than it needs."""
    for template in (whole, pulled):
        for name, alarm in alarms_of(template).items():
            fills = any("FILL" in query.get("Expression", "") for query in alarm.get("Metrics", []))
            more = alarm["EvaluationPeriods"] - alarm["DatapointsToAlarm"]
            # Those of blocked groups and of resources last from one report to the next.
            assert more == (1 if fills else 0) or (name in ("Blocked", "ResourceAway") and more > 1), name


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


def test_nothing_starves_where_nothing_yields():
    """Neither a single lane nor lanes that are switched off make way for anybody."""
    off = LanesConfig.from_dict({"enabled": False})

    for config in (lanes_config(1), off):
        assert not [name for name in alarms_of(observed(config)) if name.endswith("Starved")]


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


def test_a_blocked_group_keeps_its_alarm_between_two_tries(whole):
    """They are up to an hour and more apart. Without the setting there is no such alarm, which costs money."""
    alarm = alarms_of(whole)["Blocked"]

    (expression,) = (one["Expression"] for one in alarm["Metrics"] if "Expression" in one)
    watched = {one["MetricStat"]["Metric"]["MetricName"] for one in alarm["Metrics"] if "MetricStat" in one}
    assert (expression.count("FILL"), watched) == (3, {"BlockedGroups"})
    assert (alarm["Threshold"], alarm["DatapointsToAlarm"], alarm["EvaluationPeriods"]) == (1, 1, 37)
    assert "Blocked" not in alarms_of(observed(lanes_config(1)))


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


def test_alarms_are_found_by_name():
    """Another app can add its own actions to an alarm."""
    found = {}

    def add(stack, queues, consumer):
        found.update(Observability(stack, "Observability", queues=queues, consumer=consumer).alarms)

    foreign_stack(lanes_config(1), then=add)

    assert set(found) == {
        *("L0DeadLetters", "L0OldestAge", "L0NearExpiry"),
        *("CallErrors", "Errors", "Interrupted", "TableThrottles", "Throttles", "UnknownKinds"),
        *("ResourceAway", "UnrecordedEnds"),
    }
    assert all(isinstance(alarm, cloudwatch.Alarm) for alarm in found.values())


def test_an_alarm_of_all_lanes_watches_ten_at_most():
    """AWS takes ten metrics in an expression of an alarm; the others have an alarm with a number."""
    config, alarms = lanes_config(21), {}
    foreign_stack(
        config,
        then=lambda stack, queues, consumer: alarms.update(
            Observability(stack, "Observability", queues=queues, consumer=consumer).alarms
        ),
    )

    assert {name for name in alarms if name.startswith("CallErrors")} == {
        "CallErrors",
        "CallErrors2",
        "CallErrors3",
    }
