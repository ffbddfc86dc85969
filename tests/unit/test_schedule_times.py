"""Expressions of EventBridge Scheduler, and the times that they mean."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.schedules import at_expression, cron_expression, last_time, next_time, rate_expression

ZURICH = "Europe/Zurich"
START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def utc(*parts):
    """Return a time in UTC."""
    return datetime(*parts, tzinfo=UTC)


@pytest.mark.parametrize(
    ("cron", "expression"),
    [
        ("0 3 * * *", "cron(0 3 * * ? *)"),
        ("*/15 * * * *", "cron(0,15,30,45 * * * ? *)"),
        ("5 0 1 1,7 *", "cron(5 0 1 1,7 ? *)"),
        ("0 8-10 * * 1-5", "cron(0 8,9,10 ? * MON,TUE,WED,THU,FRI *)"),
        ("0 8 * * 0,7", "cron(0 8 ? * SUN *)"),
        ("  0   8 * jan sat ", "cron(0 8 ? 1 SAT *)"),
    ],
)
def test_five_fields_of_cron_are_an_expression_of_scheduler(cron, expression):
    """Days of the week by name, since Scheduler counts them from 1; each list in full."""
    assert cron_expression(cron) == expression


@pytest.mark.parametrize(
    ("cron", "problem"),
    [
        ("", "five fields"),
        ("0 3 * * * *", "five fields"),
        ("@daily", "five fields"),
        ("60 3 * * *", "bad minute"),
        ("0 3 31 2 *", "bad day-of-month"),
        ("0 3 1 * mon", "two schedules"),
        ("0 3 L * *", "L, W and #"),
        ("0 3 * * mon#2", "L, W and #"),
        ("0 3 ? * mon", "bad day-of-month"),
    ],
)
def test_what_scheduler_has_no_expression_for_is_refused(cron, problem):
    """With what is wrong."""
    with pytest.raises(ValueError, match=problem):
        cron_expression(cron)


@pytest.mark.parametrize("every", [timedelta(0), timedelta(seconds=30), timedelta(seconds=90)])
def test_a_rate_is_whole_minutes(every):
    """As Scheduler takes it."""
    with pytest.raises(ValueError, match="whole number of minutes"):
        rate_expression(every)


@given(st.datetimes(timezones=st.timezones()).filter(lambda moment: 1 < moment.year < 9999))
def test_a_time_for_later_is_never_earlier(moment):
    """And less than a second later."""
    written = datetime.fromisoformat(at_expression(moment)[3:-1]).replace(tzinfo=UTC)

    assert timedelta(0) <= written - moment < timedelta(seconds=1)


def test_a_time_that_does_not_exist_is_skipped():
    """Clocks go forward on 29 March 2026 at 2:00 in Zurich."""
    due = next_time(cron_expression("30 2 * * *"), ZURICH, after=utc(2026, 3, 28, 12), start=START)

    assert due == utc(2026, 3, 30, 0, 30)


def test_a_time_that_exists_twice_is_taken_once():
    """Clocks go back on 25 October 2026 at 3:00 in Zurich."""
    nightly = cron_expression("30 2 * * *")
    first = next_time(nightly, ZURICH, after=utc(2026, 10, 24, 12), start=START)

    assert first == utc(2026, 10, 25, 0, 30)
    assert next_time(nightly, ZURICH, after=first, start=START) == utc(2026, 10, 26, 1, 30)


def test_the_last_time_is_found_in_the_repeated_hour_too():
    """At ten past two for the second time, half past two was 40 minutes ago."""
    before = utc(2026, 10, 25, 1, 10)

    found = last_time("cron(30 2 ? * * *)", ZURICH, before=before, start=START)

    assert found == utc(2026, 10, 25, 0, 30)


def test_a_rate_counts_from_its_start():
    """Also where clocks change: a day has 24 hours."""
    daily = rate_expression(timedelta(days=1))
    start = utc(2026, 3, 28, 12, 34)

    assert next_time(daily, ZURICH, after=start, start=start) == utc(2026, 3, 29, 12, 34)
    assert next_time(daily, ZURICH, after=utc(2026, 3, 29, 12, 34), start=start) == utc(2026, 3, 30, 12, 34)
    assert last_time(daily, ZURICH, before=utc(2026, 3, 29, 12, 34), start=start) is None
    assert last_time(daily, ZURICH, before=utc(2026, 3, 29, 12, 35), start=start) == utc(2026, 3, 29, 12, 34)


def test_a_time_for_later_comes_once():
    """Before it is next, after it is last."""
    moment = utc(2026, 5, 1, 12)
    later = at_expression(moment)

    assert next_time(later, "UTC", after=utc(2026, 4, 1), start=START) == moment
    assert next_time(later, "UTC", after=moment, start=START) is None
    assert last_time(later, "UTC", before=utc(2026, 6, 1), start=START) == moment


def test_another_expression_is_refused():
    """A year, or a word that Scheduler has and this module does not read."""
    with pytest.raises(ValueError, match="are known"):
        next_time("cron(0 3 * * ? 2027)", "UTC", after=START, start=START)


def field(lowest, highest):
    """Return a strategy for one field of cron, with the values that it means."""
    numbers = st.lists(st.integers(lowest, highest), min_size=1, max_size=4, unique=True)
    return st.one_of(
        st.just(("*", set(range(lowest, highest + 1)))),
        numbers.map(lambda found: (",".join(map(str, found)), set(found))),
    )


@given(
    minute=field(0, 59),
    hour=field(0, 23),
    weekday=field(0, 6),
    hours_before=st.integers(0, 30),
    day=st.sampled_from([utc(2026, 3, 29), utc(2026, 10, 25), utc(2026, 7, 1)]),
)
def test_the_next_time_is_the_first_minute_that_fits(minute, hour, weekday, hours_before, day):
    """By trying every minute, on the days on which clocks change too."""
    zone = ZoneInfo(ZURICH)
    after = day + timedelta(hours=12 - hours_before)
    expression = cron_expression(f"{minute[0]} {hour[0]} * * {weekday[0]}")
    tried, first = after, None
    while first is None and tried < after + timedelta(days=8):
        tried += MINUTE
        local = tried.astimezone(zone)
        fits = local.minute in minute[1] and local.hour in hour[1] and local.isoweekday() % 7 in weekday[1]
        if fits and not local.fold:
            first = tried

    assert next_time(expression, ZURICH, after=after, start=START) == first
    if first is not None:
        found = last_time(expression, ZURICH, before=first + timedelta(seconds=30), start=START)
        assert found == first
