"""Contradictory settings, refused at synth: AWS would refuse them later or, worse, accept them."""

import re
from collections import Counter
from collections.abc import Collection, Mapping
from datetime import timedelta

from aws_cdk import Token

from lanes.config import MAX_RECEIVES, LanesConfig
from lanes.config.table import format_duration
from lanes.errors import ConfigurationError
from lanes.operate.check_rules import minimum_max_receive_count

# AWS: SQS keeps a message 60 seconds to 14 days (SetQueueAttributes, MessageRetentionPeriod).
MAX_RETENTION = timedelta(days=14)

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

    A configuration from a file is within the bounds of its settings; one built in code has not been read yet.

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
    try:
        LanesConfig.from_dict(config.to_dict())
    except ConfigurationError as error:
        problems += error.problems
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
