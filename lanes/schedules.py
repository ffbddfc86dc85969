"""
Messages that EventBridge Scheduler sends to a lane: the periodic ones of `[[schedules]]`, those for later, their times.

Owns the words schedule, occurrence and scheduled message. Pure; `lanes.aws.scheduler` makes the calls.

# AWS: "Schedule types in EventBridge Scheduler" (its user guide): `at(...)` once, `rate(...)` from the start date on,
# `cron(minute hour day-of-month month day-of-week year)` in the schedule's time zone. A cron time that does not exist
# when clocks go forward is skipped; one that exists twice when they go back is taken once.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast
from zoneinfo import ZoneInfo

from lanes.encoding import encoded
from lanes.message import OVERLAP, JsonText, Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from cronsim import CronSim

    from lanes.config.settings import Schedule

DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
CRON_FIELDS = 5
_AT = re.compile(r"at\((.+)\)")
_CRON = re.compile(r"cron\(([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) ([^ ]+) \*\)")
_RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")
MINUTE = timedelta(minutes=1)
# Without a zone, as all times for the library that knows cron: it has another rule for the days on which clocks change.
ANY_TIME = datetime(2000, 1, 1, tzinfo=UTC).replace(tzinfo=None)


def cron_expression(cron: str) -> str:
    """
    Return five fields of cron (minute, hour, day of the month, month, day of the week) as an expression.

    Every list, range and step is written out, since Scheduler knows fewer forms than cron.

    Raises:
        ValueError: it is not such a cron expression, or Scheduler has no expression for it.

    Example:
        >>> cron_expression("*/20 6-8 * * mon-fri")
        'cron(0,20,40 6,7,8 ? * MON,TUE,WED,THU,FRI *)'
    """
    minute, hour, day, month, weekday = fields = (
        cron.split() if len(cron.split()) == CRON_FIELDS else [""] * 5
    )
    if not minute:
        raise ValueError("it must have five fields: minute, hour, day of the month, month, day of the week")
    parsed = _parsed(fields)
    if any(isinstance(value, tuple) or value < 0 for value in (*parsed.days, *parsed.weekdays)):
        raise ValueError("L, W and # are not supported; name days, such as 1 or MON")
    if day != "*" and weekday != "*":
        raise ValueError(
            "Scheduler takes a day of the month or a day of the week, not both; write two schedules, with * in one of "
            "the fields"
        )
    days = {cast("int", value) % len(DAYS) for value in parsed.weekdays}
    return "cron({} {} {} {} {} *)".format(
        _listed(minute, parsed.minutes),
        _listed(hour, parsed.hours),
        "?" if weekday != "*" else _listed(day, parsed.days),
        _listed(month, parsed.months),
        ",".join(DAYS[value] for value in sorted(days)) if weekday != "*" else "?",
    )


def rate_expression(every: timedelta) -> str:
    """
    Return a time between two events as an expression.

    Raises:
        ValueError: it is not a whole number of minutes.

    Example:
        >>> rate_expression(timedelta(hours=2)), rate_expression(timedelta(minutes=1))
        ('rate(2 hours)', 'rate(1 minute)')
    """
    if every < MINUTE or every % MINUTE:
        raise ValueError("it must be a whole number of minutes")
    for unit, length in (("day", timedelta(days=1)), ("hour", timedelta(hours=1)), ("minute", MINUTE)):
        if not every % length:
            count = every // length
            return f"rate({count} {unit}{'' if count == 1 else 's'})"
    raise AssertionError(every)


def rate_period(expression: str) -> timedelta | None:
    """Return the time between two events of a rate expression; None of another one."""
    match = _RATE.fullmatch(expression)
    return timedelta(**{f"{match[2]}s": int(match[1])}) if match else None


def at_expression(moment: datetime) -> str:
    """
    Return a time as an expression, in UTC and never earlier.

    Example:
        >>> at_expression(datetime(2026, 11, 28, 3, 0, 0, 1, UTC))
        'at(2026-11-28T03:00:01)'
    """
    moment = moment.astimezone(UTC).replace(tzinfo=None)
    whole = moment.replace(microsecond=0)
    later = whole if whole == moment else whole + timedelta(seconds=1)
    return f"at({later.isoformat()})"


def at_time(expression: str, timezone: str = "UTC") -> datetime:
    """
    Return the time of an expression for one time, in UTC.

    Raises:
        ValueError: it is another one.
    """
    match = _AT.fullmatch(expression)
    if match is None:
        raise ValueError(f"the expression is {expression!r}; at(...) is needed")
    return datetime.fromisoformat(match[1]).replace(tzinfo=ZoneInfo(timezone)).astimezone(UTC)


def next_time(expression: str, timezone: str, *, after: datetime, start: datetime) -> datetime | None:
    """
    Return the first time of an expression after another; None if there is none.

    Args:
        expression: as Scheduler has it.
        timezone: name of its time zone.
        after: a time with a zone.
        start: time from which a rate counts.

    Raises:
        ValueError: the expression is none that this module reads.
    """
    return next(_times(expression, timezone, after=after, start=start, is_reverse=False), None)


def last_time(expression: str, timezone: str, *, before: datetime, start: datetime) -> datetime | None:
    """Return the last time of an expression before another and not before its start; None if there is none."""
    found = next(_times(expression, timezone, after=before, start=start, is_reverse=True), None)
    return found if found is not None and found >= start else None


def _times(
    expression: str, timezone: str, *, after: datetime, start: datetime, is_reverse: bool
) -> Iterator[datetime]:
    if _AT.fullmatch(expression):
        moment = at_time(expression, timezone)
        if (moment < after) if is_reverse else (moment > after):
            yield moment
    elif period := rate_period(expression):
        count = -((start - after) // period) - 1 if is_reverse else max(0, (after - start) // period) + 1
        if count > 0:
            yield start + count * period
    elif match := _CRON.fullmatch(expression):
        yield from _cron_times(match.groups(), ZoneInfo(timezone), after, is_reverse=is_reverse)
    else:
        raise ValueError(f"the expression is {expression!r}; at(...), rate(...) and cron(...) * are known")


def _cron_times(
    fields: Iterable[str], zone: ZoneInfo, after: datetime, *, is_reverse: bool
) -> Iterator[datetime]:
    minute, hour, day, month, weekday = fields
    # In Scheduler 1 is Sunday, and names are the same everywhere.
    weekday = re.sub(r"\d", lambda found: str(int(found[0]) - 1), weekday)
    parts = [minute, hour, day.replace("?", "*"), month, weekday.replace("?", "*")]
    first = after.astimezone(zone).replace(tzinfo=None)
    if is_reverse:
        # Clocks that go back repeat up to an hour, and a time of the first one may be later on them.
        first += timedelta(hours=1)
    for naive in _parsed(parts, first, is_reverse=is_reverse):
        moment = naive.replace(tzinfo=zone).astimezone(UTC)
        exists = moment.astimezone(zone).replace(tzinfo=None) == naive
        if exists and ((moment < after) if is_reverse else (moment > after)):
            yield moment


def _parsed(fields: Iterable[str], moment: datetime = ANY_TIME, *, is_reverse: bool = False) -> CronSim:
    from cronsim import CronSim, CronSimError

    try:
        return CronSim(" ".join(fields), moment, is_reverse)
    except CronSimError as error:
        raise ValueError(str(error).lower()) from error


def _listed(field: str, values: set[int]) -> str:
    return "*" if field == "*" else ",".join(str(value) for value in sorted(values))


SOURCE = "schedules"
"""Source of the messages of all schedules."""
SCHEDULED_TIME = "<aws.scheduler.scheduled-time>"
"""
Scheduler puts its time here, such as 2026-11-28T03:00:00Z.

# AWS: "Adding context attributes" (EventBridge Scheduler User Guide).
"""
PLACE = "<aws.scheduler."
"""Beginning of the places that Scheduler fills in, wherever a target's input has one."""
PERIODIC, LATER = "s-", "m-"
"""Beginnings of the names of schedules, and of messages for later."""
SEND_MESSAGE = "scheduler:::aws-sdk:sqs:sendMessage"
"""
Scheduler's universal target for SQS, without `arn:` and the partition.

# AWS: its templated target for SQS takes a group and no deduplication id (Scheduler API, "SqsParameters").
"""
LARGEST_INPUT_BYTES = 256 * 1024
"""# AWS: the quota of a target's input (EventBridge Scheduler, CreateSchedule)."""
DIGITS = 32
"""Hexadecimal digits of a hash in a name: enough that no two messages share one, and short enough to type."""
_UNSET = datetime(1, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scheduler:
    """
    The parts of EventBridge Scheduler in a stack.

    Attributes:
        group: name of its schedule group.
        role_arn: role that sends to the lanes.
        role_id: its id, by which the consumer knows its messages.
        dead_letter_arn: queue for messages that could not be sent.
        key_arn: your key for the messages, or None for one of AWS.
    """

    group: str
    role_arn: str
    role_id: str
    dead_letter_arn: str
    key_arn: str | None = None


def expression_of(schedule: Schedule) -> str:
    """Return the expression of a schedule."""
    if schedule.every is not None:
        return rate_expression(schedule.every)
    return cron_expression(schedule.cron or "")


def occurrence(schedule: Schedule, queue_url: str) -> dict[str, Any]:
    """
    Return the input of a schedule's target: each message is named by its schedule and its scheduled time.

    Args:
        schedule: the schedule.
        queue_url: of the lane's queue.
    """
    message = Message(
        kind=schedule.kind,
        data=JsonText(without_places(encoded(schedule.data))),
        id=f"{schedule.name}@{SCHEDULED_TIME}",
        source=SOURCE,
        group=schedule.message_group_id,
        priority=schedule.priority,
        time=_UNSET,
    )
    body = message.to_body().replace(f'"time":"{_UNSET.isoformat()}"', f'"time":"{SCHEDULED_TIME}"', 1)
    attributes = {OVERLAP: str(schedule.overlap)} if schedule.overlap != "queue" else {}
    # Not hashed: the reader of the configuration refuses names that are too long.
    return target_input(queue_url, body, message.message_group_id, message.identity, attributes)


def without_places(text: str) -> str:
    """Return JSON of the same meaning without places for Scheduler, which would change a value that looks like one."""
    return text.replace(PLACE, PLACE.replace("<", "\\u003c"))


def target_input(
    queue_url: str, body: str, group: str, deduplication_id: str, attributes: Mapping[str, str]
) -> dict[str, Any]:
    """Return the parameters of SendMessage for Scheduler's universal target."""
    return {
        "QueueUrl": queue_url,
        "MessageBody": body,
        "MessageGroupId": group,
        "MessageDeduplicationId": deduplication_id,
        **(
            {
                "MessageAttributes": {
                    name: {"DataType": "String", "StringValue": value} for name, value in attributes.items()
                }
            }
            if attributes
            else {}
        ),
    }


def later_name(identity: str) -> str:
    """Return the name of a message for later: the same for the same message."""
    return f"{LATER}{hashlib.sha256(identity.encode()).hexdigest()[:DIGITS]}"
