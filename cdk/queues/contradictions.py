"""Contradictory settings, refused at synth: AWS would refuse them later or, worse, accept them."""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from datetime import timedelta

from aws_cdk import Token

from lanes.config import MAX_RECEIVES, VISIBILITY_FACTOR, Lane, LanesConfig
from lanes.config.table import format_duration
from lanes.errors import ConfigurationError
from lanes.operate.lanes.queue_rules import minimum_max_receive_count

# AWS: SQS keeps a message 60 seconds to 14 days (SetQueueAttributes, MessageRetentionPeriod).
MAX_RETENTION = timedelta(days=14)

# AWS: a batch from a FIFO queue has at most ten records (AWS Lambda Developer Guide, SQS parameters).
MAX_BATCH_SIZE = 10

# AWS: MaximumConcurrency of an SQS mapping is 2 to 1,000 (Lambda API, ScalingConfig).
CONCURRENCY_RANGE = range(2, 1001)

# AWS: a queue name has at most 80 letters, digits, - and _, with .fifo at its end (CreateQueue). Ours has room for
# the name of the dead-letter queue.
QUEUE_NAME = re.compile(r"[A-Za-z0-9_-]{1,70}\.fifo")


def dead_letter_name(name: str) -> str:
    """Give the name of the dead-letter queue of a queue with a fixed name."""
    return f"{name.removesuffix('.fifo')}-dead.fifo"


def refuse_contradictions(
    config: LanesConfig,
    *,
    retention: timedelta,
    max_receive_count: int,
    names: Mapping[str, str],
    existing: Collection[str],
) -> None:
    """
    Check that queues and mappings with these settings work together.

    A configuration from a file has passed most of these checks; one built in code has not.

    Args:
        config: The lanes.
        retention: How long the queues keep a message.
        max_receive_count: The receive limit of the queues.
        names: Fixed names of queues, by lane.
        existing: The lanes that use queues of others.

    Raises:
        ConfigurationError: All contradictions at once.

    """
    problems = [
        *_retention_problems(retention),
        *_limit_problems(max_receive_count, retention=retention, max_attempts=config.consumer.max_attempts),
        *_name_problems(config, names, existing=existing),
    ]
    for lane in config.lanes:
        problems += _mapping_problems(lane, function_timeout=config.consumer.function_timeout)
    if problems:
        raise ConfigurationError(problems, source="lane queues")


def _retention_problems(retention: timedelta) -> list[str]:
    if timedelta(minutes=1) <= retention <= MAX_RETENTION:
        return []
    return [f"retention is {format_duration(retention)}: SQS keeps messages 1m to 14d; omit it for 14d"]


def _limit_problems(max_receive_count: int, *, retention: timedelta, max_attempts: int) -> list[str]:
    if not 1 <= max_receive_count <= MAX_RECEIVES:
        return [f"max_receive_count is {max_receive_count}: SQS allows 1 to 1000; omit it for 1000"]
    minimum = minimum_max_receive_count(retention=retention, max_attempts=max_attempts)
    if max_receive_count >= minimum:
        return []
    problem = (
        f"max_receive_count is {max_receive_count}, which a message that only yields or waits for a resource could "
        f"reach within the retention of {format_duration(retention)}: SQS counts these receives too and would "
        f"dead-letter it without a failure; set at least {minimum}, of which {max_attempts} are attempts, or omit "
        "it for 1000"
    )
    return [problem]


def _name_problems(config: LanesConfig, names: Mapping[str, str], *, existing: Collection[str]) -> list[str]:
    lanes = [lane.name for lane in config.lanes]
    known = {lane: name for lane, name in names.items() if not Token.is_unresolved(name)}
    problems = [
        f"queue_names has {lane!r}, which is not a lane; the lanes are {', '.join(lanes)}"
        for lane in names
        if lane not in lanes
    ]
    problems += [
        f"queue_names has {lane}, of which existing has the queue; remove it from one of them"
        for lane in names
        if lane in existing
    ]
    problems += [
        f"queue_names has {name!r} for {lane}; a name has 1 to 70 letters, digits, - and _, and ends with .fifo"
        for lane, name in known.items()
        if not QUEUE_NAME.fullmatch(name)
    ]
    used = Counter([*known.values(), *map(dead_letter_name, known.values())])
    problems += [
        f"queue_names needs {name!r} for more than one queue; each lane has a queue and a dead-letter queue with -dead "
        "at the end of its name: choose others"
        for name, count in used.items()
        if count > 1
    ]
    return problems


def _mapping_problems(lane: Lane, *, function_timeout: timedelta) -> list[str]:
    problems = []
    minimum = VISIBILITY_FACTOR * function_timeout
    if lane.visibility_timeout < minimum:
        problems.append(
            f"lane {lane.name}: visibility_timeout is {format_duration(lane.visibility_timeout)}, under six "
            f"times the function timeout of {format_duration(function_timeout)}: SQS could deliver a batch again "
            f"while it is still being handled; set at least {format_duration(minimum)}, shorten "
            "function_timeout, or omit visibility_timeout"
        )
    if not 1 <= lane.batch_size <= MAX_BATCH_SIZE:
        problems.append(
            f"lane {lane.name}: batch_size is {lane.batch_size}: a FIFO queue gives 1 to "
            f"{MAX_BATCH_SIZE} records a batch; choose a number in that range"
        )
    if lane.maximum_concurrency not in CONCURRENCY_RANGE:
        problems.append(
            f"lane {lane.name}: maximum_concurrency is {lane.maximum_concurrency}: a mapping takes 2 to "
            "1000; to run fewer batches at once lower reserved_concurrency instead"
        )
    return problems
