"""The alarm rules of a set of lanes and of its consumer."""

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta

from aws_cdk import aws_cloudwatch as cloudwatch

from lanes.config import Lane, LanesConfig
from lanes.config.table import format_duration
from lanes.consumer.breakers import LONGEST
from lanes.metrics import Metric

from ..consumer import PriorityConsumer
from ..queues.lane_queue import LaneQueue
from ..queues.lane_queues import LaneQueues
from ..tables.ledger import PARKED_INDEX
from .rule import PERIOD, AlarmRule, Section, Severity, alarm_period, throttled_writes

STARVED = timedelta(minutes=30)
"""How long a lane without ``max_wait`` may yield, with nothing handled, before the alarm."""

# AWS: an alarm with periods under an hour evaluates at most one day (PutMetricAlarm).
MAX_PERIODS = timedelta(days=1) // PERIOD

LONGEST_BETWEEN_TRIES = timedelta(hours=3)
"""More than two tries of a message that blocks its group are ever apart, unless higher lanes keep it waiting."""

# AWS: an alarm on an expression takes ten metrics (CloudWatch User Guide, "CloudWatch service quotas").
LANES_TOGETHER = 10

CALL_ERRORS = 10
"""Failed calls of the consumer in a period that are more than a transient error."""


def default_oldest_age(config: LanesConfig, lane: Lane) -> timedelta:
    """
    Give the default wait that raises an alarm in a lane.

    Five minutes for the highest lane, a day for the last one (bulk work may wait), an hour for the others and for a
    single lane.
    """
    if len(config.lanes) == 1:
        return timedelta(hours=1)
    if lane == config.lanes[0]:
        return timedelta(minutes=5)
    return timedelta(days=1) if lane == config.last_lane else timedelta(hours=1)


def alarm_rules(
    *, queues: LaneQueues, consumer: PriorityConsumer, oldest_age: Mapping[str, timedelta]
) -> Iterator[AlarmRule]:
    """
    Give the rules of one set of lanes.

    Args:
        queues: The queues of the lanes.
        consumer: Their consumer.
        oldest_age: Waits that raise an alarm, by lane name, in place of the defaults.

    """
    config = queues.config
    for queue in queues.lanes:
        age = oldest_age.get(queue.lane.name, default_oldest_age(config, queue.lane))
        yield from _lane_rules(queue, age=age, highest=queue.lane == config.lanes[0])
        if config.lanes_above(queue.lane):
            yield _starved(queue, consumer)
    for number, start in enumerate(range(0, len(config.lanes), LANES_TOGETHER), start=1):
        lanes = config.lanes[start : start + LANES_TOGETHER]
        for rule in _rules_together(config, lanes, consumer):
            yield rule if number == 1 else dataclasses.replace(rule, name=f"{rule.name}{number}")
    yield AlarmRule(
        name="Errors",
        severity=Severity.WARNING,
        metric=consumer.function.metric_errors(period=alarm_period(), statistic="Sum"),
        threshold=1,
        description="An invocation crashed or ran out of time. Failures of single messages don't count here.",
        first_step="read the function's log at that time for `Task timed out`, `Runtime exited` or a traceback.",
        section=Section.ERRORS,
    )
    yield AlarmRule(
        name="Interrupted",
        severity=Severity.WARNING,
        metric=consumer.metric_interrupted(period=PERIOD),
        threshold=1,
        description="An error of the consumer itself ended batches early; their unfinished records were returned.",
        first_step="`lanes tail --event batch_interrupted` shows the traceback.",
        section=Section.ERRORS,
    )
    yield throttled_writes(
        consumer.ledger.table,
        indexes=[PARKED_INDEX],
        first_step="`lanes status` shows the lane with the most yields; the table records its parked messages.",
    )
    yield _throttles(config, consumer) if queues.bell is None else _heartbeat(config, consumer)


def _rules_together(
    config: LanesConfig, lanes: Sequence[Lane], consumer: PriorityConsumer
) -> Iterator[AlarmRule]:
    """Give the rules of figures that several lanes have together."""
    yield _call_errors(lanes, consumer)
    yield _unknown_kinds(config, lanes, consumer)
    if config.consumer.on_exhausted:
        yield _blocked(lanes, consumer)
    yield _unrecorded_ends(lanes, consumer)
    yield _resource_away(lanes, consumer)


def _lane_rules(queue: LaneQueue, *, age: timedelta, highest: bool) -> Iterator[AlarmRule]:
    name = queue.lane.name
    yield AlarmRule(
        name=f"{name}DeadLetters",
        severity=Severity.WARNING,
        metric=queue.metric_dead_letters(period=PERIOD),
        threshold=1,
        description=f"Lane {name} has dead letters.",
        first_step=f"`lanes dead-letters list {name}` shows their reasons.",
        section=Section.DEAD_LETTERS,
        lane=name,
    )
    yield AlarmRule(
        name=f"{name}OldestAge",
        severity=Severity.CRITICAL if highest else Severity.WARNING,
        metric=queue.metric_oldest_age(period=PERIOD),
        threshold=age.total_seconds(),
        description=f"A message has waited {format_duration(age)} in lane {name}.",
        first_step="`lanes status` shows whether the lane moves, and the backlog of higher lanes.",
        section=Section.OLDEST_AGE,
        lane=name,
    )
    yield AlarmRule(
        name=f"{name}NearExpiry",
        severity=Severity.CRITICAL,
        metric=queue.metric_oldest_age(period=PERIOD),
        threshold=(queue.retention / 2).total_seconds(),
        description=(
            f"A message in lane {name} has used half of its retention of {format_duration(queue.retention)}. SQS "
            "drops expired messages without a dead letter."
        ),
        first_step="`lanes status` and `lanes check` show why the lane is not drained.",
        section=Section.NEAR_EXPIRY,
        lane=name,
    )


def _starved(queue: LaneQueue, consumer: PriorityConsumer) -> AlarmRule:
    lane = queue.lane
    limit = lane.max_wait or STARVED
    passed_over = "has yielded" if queue.bell is None else "had messages waiting"
    return AlarmRule(
        name=f"{lane.name}Starved",
        severity=Severity.WARNING,
        metric=_yields_without_work(lane, consumer)
        if queue.bell is None
        else _waiting_without_work(queue, consumer),
        threshold=1,
        periods=min(math.ceil(limit / PERIOD) + 1, MAX_PERIODS - 1),
        spare=1,
        description=f"Lane {lane.name} {passed_over} for {format_duration(limit)} and handled nothing.",
        first_step="`lanes status` shows which higher lane is busy, and whether it drains.",
        section=Section.STARVED,
        lane=lane.name,
    )


def _yields_without_work(lane: Lane, consumer: PriorityConsumer) -> cloudwatch.MathExpression:
    return cloudwatch.MathExpression(
        expression="IF(FILL(handled, 0) < 1, FILL(yielded, 0), 0)",
        label="Yields while nothing is handled",
        period=alarm_period(),
        using_metrics={
            "handled": consumer.metric(Metric.HANDLED, lane.name, period=PERIOD),
            "yielded": consumer.metric(Metric.YIELDED, lane.name, period=PERIOD),
        },
    )


def _waiting_without_work(queue: LaneQueue, consumer: PriorityConsumer) -> cloudwatch.MathExpression:
    """Count waiting messages: the pull engine does not receive from a lane that it passes over, so nothing yields."""
    return cloudwatch.MathExpression(
        expression="IF(FILL(handled, 0) + FILL(failed, 0) < 1, FILL(waiting, 0), 0)",
        label="Waiting while nothing is handled",
        period=alarm_period(),
        using_metrics={
            "handled": consumer.metric(Metric.HANDLED, queue.lane.name, period=PERIOD),
            "failed": consumer.metric(Metric.FAILED, queue.lane.name, period=PERIOD),
            "waiting": queue.metric_backlog(period=PERIOD),
        },
    )


def _together(
    lanes: Sequence[Lane], consumer: PriorityConsumer, metric: Metric, *, label: str
) -> cloudwatch.MathExpression:
    names = {f"lane{position}": lane.name for position, lane in enumerate(lanes)}
    return cloudwatch.MathExpression(
        expression=" + ".join(f"FILL({key}, 0)" for key in names),
        label=label,
        period=alarm_period(),
        using_metrics={key: consumer.metric(metric, name, period=PERIOD) for key, name in names.items()},
    )


def _call_errors(lanes: Sequence[Lane], consumer: PriorityConsumer) -> AlarmRule:
    return AlarmRule(
        name="CallErrors",
        severity=Severity.CRITICAL,
        metric=_together(lanes, consumer, Metric.AWS_ERRORS, label="Failed calls of the consumer"),
        threshold=CALL_ERRORS,
        periods=2,
        spare=1,
        description="Calls of the consumer to SQS or to its table keep failing; meanwhile it yields or waits.",
        first_step="the log of the function names the call and its error; `lanes check` shows a changed queue.",
        section=Section.CALL_ERRORS,
    )


def _unknown_kinds(config: LanesConfig, lanes: Sequence[Lane], consumer: PriorityConsumer) -> AlarmRule:
    wait = format_duration(config.consumer.unknown_kind_for)
    return AlarmRule(
        name="UnknownKinds",
        severity=Severity.WARNING,
        metric=_together(lanes, consumer, Metric.UNKNOWN_KINDS, label="Messages without a handler"),
        threshold=1,
        spare=1,
        description=f"Messages wait for a handler of their kind, and are dead-lettered after {wait}.",
        first_step="`lanes status` names their kinds.",
        section=Section.UNKNOWN_KINDS,
    )


def _unrecorded_ends(lanes: Sequence[Lane], consumer: PriorityConsumer) -> AlarmRule:
    return AlarmRule(
        name="UnrecordedEnds",
        severity=Severity.WARNING,
        metric=_together(lanes, consumer, Metric.UNRECORDED_ENDS, label="Ends of runs not recorded"),
        threshold=1,
        spare=1,
        description="Finished members of a run stay in their lanes, since their ends can't be written to the table.",
        first_step="`lanes tail --event end_not_recorded` shows the refused write.",
        section=Section.CALL_ERRORS,
    )


def _blocked(lanes: Sequence[Lane], consumer: PriorityConsumer) -> AlarmRule:
    return AlarmRule(
        name="Blocked",
        severity=Severity.WARNING,
        metric=_together(lanes, consumer, Metric.BLOCKED, label="Failed tries of blocking messages"),
        threshold=1,
        # Tries become rarer with the days, so that receives last.
        spare=LONGEST_BETWEEN_TRIES // PERIOD,
        description="A message without attempts left fails again and again, and its group waits behind it.",
        first_step="`lanes status` shows the blocked groups, with the message and the error.",
        section=Section.BLOCKED,
    )


def _resource_away(lanes: Sequence[Lane], consumer: PriorityConsumer) -> AlarmRule:
    names = {f"lane{position}": lane.name for position, lane in enumerate(lanes)}
    return AlarmRule(
        name="ResourceAway",
        severity=Severity.WARNING,
        metric=cloudwatch.MathExpression(
            expression=f"MAX([{', '.join(f'FILL({key}, 0)' for key in names)}])",
            label="Milliseconds without a resource",
            period=alarm_period(),
            using_metrics={
                key: consumer.metric(Metric.AWAY, name, statistic="Maximum", period=PERIOD)
                for key, name in names.items()
            },
        ),
        threshold=PERIOD // timedelta(milliseconds=1),
        # A pause that a handler asks for may be longer than an invocation, and none runs until it ends.
        spare=timedelta(seconds=LONGEST) // PERIOD,
        description="Handlers find their resource away; its messages wait, and none of their attempts counts.",
        first_step="`lanes status` names the resource, and why.",
        section=Section.RESOURCE_AWAY,
    )


def _throttles(config: LanesConfig, consumer: PriorityConsumer) -> AlarmRule:
    slots = config.consumer.reserved_concurrency
    if slots >= sum(lane.maximum_concurrency for lane in config.lanes):
        return AlarmRule(
            name="Throttles",
            severity=Severity.WARNING,
            metric=consumer.function.metric_throttles(period=alarm_period(), statistic="Sum"),
            threshold=1,
            description=f"Lambda throttled the function, though all mappings together start no more than its {slots}.",
            first_step="`lanes check` shows whether the reserved concurrency was changed by hand.",
            section=Section.THROTTLES,
        )
    return AlarmRule(
        name="Throttles",
        severity=Severity.CRITICAL,
        metric=_throttles_without_work(consumer),
        threshold=1,
        periods=_periods_without_a_start(config),
        spare=1,
        description=(
            "Lambda throttles the function and no invocation starts: its concurrency is zero or used up. Each "
            "throttled batch costs its messages a receive. (Single throttles are normal here: the mappings can "
            f"start more than the {slots} invocations that can run.)"
        ),
        first_step="`lanes check` shows the function's reserved concurrency.",
        section=Section.THROTTLES,
    )


def _heartbeat(config: LanesConfig, consumer: PriorityConsumer) -> AlarmRule:
    return AlarmRule(
        name="Heartbeat",
        severity=Severity.CRITICAL,
        metric=consumer.function.metric_invocations(period=alarm_period(), statistic="Sum"),
        threshold=1,
        below=True,
        periods=_periods_without_a_start(config),
        description="No invocation starts, though the heartbeat starts one every 20 seconds: all lanes stand still.",
        first_step="`lanes check` shows the bell, its heartbeat and mapping, and the function's reserved concurrency.",
        section=Section.HEARTBEAT,
    )


def _periods_without_a_start(config: LanesConfig) -> int:
    """Return more periods than one invocation can fill without starting in them."""
    return math.ceil(config.consumer.function_timeout / PERIOD) + 1


def _throttles_without_work(consumer: PriorityConsumer) -> cloudwatch.MathExpression:
    return cloudwatch.MathExpression(
        expression="IF(FILL(invocations, 0) < 1, throttles, 0)",
        label="Throttles while nothing runs",
        period=alarm_period(),
        using_metrics={
            "invocations": consumer.function.metric_invocations(period=alarm_period(), statistic="Sum"),
            "throttles": consumer.function.metric_throttles(period=alarm_period(), statistic="Sum"),
        },
    )
