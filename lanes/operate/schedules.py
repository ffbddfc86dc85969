"""The schedules of a stack as rows: periodic messages, and messages for later."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from lanes.config.table import nearest
from lanes.errors import ConfigurationError, MessageDecodeError
from lanes.message import RUN, Message, size_bytes, sqs_id
from lanes.producer.outgoing import Outgoing
from lanes.runs import End, Ends, Mark
from lanes.schedules import LATER, PERIODIC, SCHEDULED_TIME, at_time, last_time, next_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lanes.producer import Producer


class ScheduleCalls(Protocol):
    """The schedules of a stack's group; every method raises `AwsError`."""

    def names(self, prefix: str) -> Iterable[str]:
        """Return the names of those that begin so."""

    def get(self, name: str) -> dict[str, Any] | None:
        """Return one as GetSchedule has it; None if it is gone."""

    def delete(self, name: str) -> bool:
        """Delete one; return whether there was one."""

    def switch(self, schedule: dict[str, Any], *, enabled: bool) -> None:
        """Switch one on or off."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scheduled:
    """
    One schedule.

    Attributes:
        name: without the beginning that separates periodic ones from the others.
        settings: as GetSchedule has them.
        call: the parameters of SendMessage.
        message: the message that it sends; the id of a periodic one has a place for its time.
    """

    name: str
    settings: dict[str, Any]
    call: dict[str, Any]
    message: Message

    @property
    def run(self) -> str:
        """The mark of the run that its message belongs to; empty for none."""
        return str(self.call.get("MessageAttributes", {}).get(RUN, {}).get("StringValue", ""))

    @property
    def is_periodic(self) -> bool:
        """Whether it sends again and again, so that its message has places for its time."""
        return not self.settings["ScheduleExpression"].startswith("at(")

    @property
    def is_on(self) -> bool:
        """Whether it sends."""
        return bool(self.settings["State"] == "ENABLED")

    def row(self, now: datetime) -> dict[str, Any]:
        """Return it for a list, with its last and its next time."""
        expression, zone = self.settings["ScheduleExpression"], self.settings["ScheduleExpressionTimezone"]
        start = self.settings["CreationDate"]
        return {
            "name": self.name,
            "state": "on" if self.is_on else "paused",
            "expression": expression,
            "timezone": zone,
            "kind": self.message.kind,
            "priority": self.message.priority,
            "group": self.message.group,
            "last": _text(last_time(expression, zone, before=now, start=start)),
            "next": _text(next_time(expression, zone, after=now, start=start)) if self.is_on else "",
        }

    def later_row(self) -> dict[str, Any]:
        """Return a message for later for a list."""
        at = at_time(self.settings["ScheduleExpression"], self.settings["ScheduleExpressionTimezone"])
        return {
            "id": self.message.id,
            "kind": self.message.kind,
            "not_before": _text(at),
            "priority": self.message.priority,
            # That of a message without one is its identity.
            "group": "" if self.message.group == sqs_id(self.message.identity) else self.message.group,
            "source": self.message.source,
            "name": LATER + self.name,
        }


def _text(moment: datetime | None) -> str:
    return "" if moment is None else f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def read(calls: ScheduleCalls, prefix: str) -> Iterator[Scheduled]:
    """Read the schedules whose names begin so, by name, without those that are gone meanwhile or not ours."""
    for name in calls.names(prefix):
        found = _read(calls, name, prefix)
        if found is not None:
            yield found


def _read(calls: ScheduleCalls, name: str, prefix: str) -> Scheduled | None:
    settings = calls.get(name)
    if settings is None:
        return None
    try:
        call = json.loads(settings["Target"]["Input"])
        # The time of a message is one, and that of a template has its place instead.
        body = call["MessageBody"].replace(f'"time":"{SCHEDULED_TIME}",', "")
        message = Message.from_body(body, group=call["MessageGroupId"])
    except (KeyError, ValueError, TypeError, MessageDecodeError):
        return None
    return Scheduled(name=name.removeprefix(prefix), settings=settings, call=call, message=message)


def later_rows(calls: ScheduleCalls, *, limit: int) -> tuple[list[dict[str, Any]], bool]:
    """Return messages for later as rows, by their times, and whether there are more; Scheduler lists them by name."""
    found = list(islice(read(calls, LATER), limit + 1))
    rows = sorted((one.later_row() for one in found[:limit]), key=lambda row: str(row["not_before"]))
    return rows, len(found) > limit


def periodic_named(calls: ScheduleCalls, name: str) -> Scheduled:
    """
    Return a periodic schedule by its name in the configuration.

    Raises:
        ConfigurationError: there is none.
    """
    found = _read(calls, PERIODIC + name, PERIODIC)
    if found is None:
        known = nearest(name, [one.removeprefix(PERIODIC) for one in calls.names(PERIODIC)])
        raise ConfigurationError([f"there is no schedule {name!r}{known}"], source="schedules")
    return found


def later_named(calls: ScheduleCalls, name: str) -> Scheduled:
    """
    Return a message for later by its id, or by its name in Scheduler, which needs one call only.

    Raises:
        ConfigurationError: there is none, or several kinds have one with this id.
    """
    if name.startswith(LATER) and (found := _read(calls, name, LATER)) is not None:
        return found
    same = [one for one in read(calls, LATER) if one.message.id == name]
    if not same:
        problem = f"no message for later has the id {name!r}; list them with `lanes scheduled list`"
        raise ConfigurationError([problem], source="schedules")
    if len(same) > 1:
        names = ", ".join(f"{LATER}{one.name} ({one.message.kind})" for one in same)
        problem = f"{len(same)} messages for later have the id {name!r}; give one of the names {names}"
        raise ConfigurationError([problem], source="schedules")
    return same[0]


def cancel(scheduled: Scheduled, calls: ScheduleCalls, ends: Ends) -> bool:
    """
    Cancel a message for later; return False if it was sent in this moment.

    Args:
        scheduled: the message.
        calls: the schedules.
        ends: records its end if it is a member of a run, which would never end without it.
    """
    mark = Mark.parse(scheduled.run)
    if mark is not None:
        # Before the deletion, as of every end; if it was sent after all, its own end has priority over this one.
        ends.record(mark, scheduled.message.identity, End.CANCELLED)
    return calls.delete(LATER + scheduled.name)


def send_now(scheduled: Scheduled, producer: Producer, *, now: datetime) -> str:
    """
    Send the message of a schedule now, and return its id; a periodic one is named by this time.

    Raises:
        PartialSendError: it could not be sent.
    """
    at = f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
    body, deduplication_id = scheduled.call["MessageBody"], scheduled.call["MessageDeduplicationId"]
    if scheduled.is_periodic:
        body, deduplication_id = (text.replace(SCHEDULED_TIME, at) for text in (body, deduplication_id))
    message = dataclasses.replace(
        Message.from_body(body, group=scheduled.call["MessageGroupId"]),
        deduplication_id=deduplication_id,
    )
    item = Outgoing(index=0, message=message, body=body, size_bytes=size_bytes(body), run=scheduled.run)
    report = producer.forward([item])
    if report.unsent:
        raise report.error() from report.cause
    return message.id
