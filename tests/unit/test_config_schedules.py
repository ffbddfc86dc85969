"""The schedules of a `lanes.toml`."""

from datetime import timedelta

import pytest

from lanes.config import LanesConfig, Overlap, Schedule
from lanes.errors import ConfigurationError

NIGHTLY = {"name": "nightly", "kind": "statements.render", "cron": "0 3 * * *"}


def schedules(*tables, **root):
    """Read tables of schedules."""
    return LanesConfig.from_dict({"schedules": list(tables), **root}).schedules


def test_a_schedule_needs_its_name_its_kind_and_its_time():
    """The rest has defaults; its messages share a group, so that two never run at once."""
    assert schedules(NIGHTLY) == (Schedule(**NIGHTLY),)
    assert schedules(NIGHTLY)[0].message_group_id == "schedule-nightly"
    assert LanesConfig().schedules == ()


def test_every_setting_is_read():
    """Durations and named priorities as elsewhere in the file."""
    table = {
        "name": "tick",
        "kind": "t",
        "every": "5m",
        "priority": "BULK",
        "group": "g",
        "data": {"a": [1, None]},
        "overlap": "skip",
        "enabled": False,
    }

    assert schedules(table) == (
        Schedule(
            name="tick",
            kind="t",
            every=timedelta(minutes=5),
            priority=-100,
            group="g",
            data={"a": [1, None]},
            overlap=Overlap.SKIP,
            enabled=False,
        ),
    )


def test_what_is_written_is_read_again():
    """Also of an interval, for which a time zone is refused."""
    config = LanesConfig.from_dict({"schedules": [NIGHTLY, {"name": "tick", "kind": "t", "every": "5m"}]})

    assert LanesConfig.from_dict(config.to_dict()) == config


def test_a_stage_changes_a_schedule_and_adds_one():
    """By name, as with lanes."""
    stages = {"demo": {"schedules": [{"name": "nightly", "enabled": False}, {**NIGHTLY, "name": "b"}]}}
    config = LanesConfig.from_dict({"schedules": [NIGHTLY], "stages": stages}, stage="demo")

    assert [(one.name, one.enabled) for one in config.schedules] == [("nightly", False), ("b", True)]
    assert LanesConfig.from_dict(config.to_dict()) == config


def test_the_function_is_not_burdened_with_them():
    """Its variables have 4 KB, and it sends none of them."""
    config = LanesConfig.from_dict({"schedules": [NIGHTLY]})

    assert "schedules" not in config.to_dict(brief=True)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({**NIGHTLY, "name": "a b"}, "name is the string 'a b'; must have 1 to 60 letters"),
        ({"kind": "x", "cron": "0 3 * * *"}, "name is nothing"),
        ({**NIGHTLY, "kind": "a b"}, "kind is 'a b'"),
        ({**NIGHTLY, "kind": "ü"}, "must be ASCII"),
        ({**NIGHTLY, "kind": "k" * 100}, "107 characters long together; at most 96 fit"),
        ({**NIGHTLY, "every": "1h"}, "needs one of cron and every"),
        ({"name": "a", "kind": "b"}, "needs one of cron and every"),
        ({**NIGHTLY, "cron": "0 3 * *"}, "cron is the string '0 3 * *': it must have five fields"),
        ({**NIGHTLY, "cron": 3}, "cron is the number 3; must be a string"),
        ({"name": "a", "kind": "b", "every": "90s"}, "every is the string '90s': it must be a whole number"),
        ({"name": "a", "kind": "b", "every": "1h", "timezone": "UTC"}, "timezone has no effect on every"),
        ({**NIGHTLY, "timezone": "Europe/Zurch"}, "did you mean 'Europe/Zurich'"),
        ({**NIGHTLY, "timezone": "CET+1"}, "must be the name of a time zone"),
        ({**NIGHTLY, "priority": "URGENT"}, "one of BULK, LOW, NORMAL, HIGH, CRITICAL"),
        ({**NIGHTLY, "priority": True}, "priority is the boolean true"),
        ({**NIGHTLY, "group": "a b"}, "group is the string 'a b'"),
        ({**NIGHTLY, "data": {"x": float("nan")}}, "data is not JSON"),
        ({**NIGHTLY, "overlap": "drop"}, "must be one of queue, skip"),
        ({**NIGHTLY, "enabled": 1}, "enabled is the number 1"),
        ({**NIGHTLY, "chron": "x"}, "did you mean 'cron'"),
    ],
)
def test_a_mistake_is_named(table, problem):
    """With the schedule, the value, and what is allowed."""
    with pytest.raises(ConfigurationError) as raised:
        schedules(table)

    assert problem in str(raised.value)


def test_two_schedules_of_one_name_are_refused():
    """Their messages would have the same ids."""
    with pytest.raises(ConfigurationError, match="schedule nightly: named twice"):
        schedules(NIGHTLY, NIGHTLY)


def test_the_longest_name_and_kind_fit_an_id_of_sqs():
    """The deduplication id is written as it is, since Scheduler can't hash."""
    (schedule,) = schedules({**NIGHTLY, "kind": "k" * 89})

    assert len(f"schedules#{schedule.kind}#{schedule.name}@2026-11-28T03:00:00Z") == 128
