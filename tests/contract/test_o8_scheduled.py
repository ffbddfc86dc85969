"""
O8: entries that may not be sent before a time.

Such an entry is never sent before it, and joins its group when it is due. Until then it can be listed, moved and
cancelled.
"""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from lanes.errors import InvalidMessageError
from lanes.message import Message
from lanes.outbox import EntryFilter, EntryState, Operator
from lanes.outbox.entry import LATEST
from lanes.testing.clock import START, FakeClock
from tests.support.outbox import Run, SqlSubject, new_outbox
from tests.support.sending import ACCEPT, REFUSE

MINUTE, YEAR = timedelta(minutes=1), timedelta(days=365)


@pytest.fixture
def run(subject, clock):
    """A relay on each store."""
    return Run(subject, clock)


@pytest.fixture
def operator(run):
    """An operator of the same outbox."""
    return Operator(store=run.subject.operations, config=run.config, who="ops", clock=run.clock)


def all_rounds(run):
    """Run rounds until nothing is due."""
    while not run.relay.run_once().is_idle:
        pass


def test_an_entry_is_sent_when_it_is_due_and_its_group_does_not_wait_for_it(run):
    """Also one that is due next year."""
    run.write("later", group="g", not_before=MINUTE)
    run.write("next year", group="g", not_before=YEAR)
    run.write("a", "b", group="g")
    run.write("alone", not_before=MINUTE, priority=100)
    all_rounds(run)
    assert run.sent() == ["a", "b"]

    run.clock.advance(59.9)
    all_rounds(run)
    assert run.sent() == ["a", "b"]
    run.clock.advance(0.2)
    all_rounds(run)
    assert run.sent() == ["a", "b", "later"]
    assert run.sent("HIGH") == ["alone"]
    assert run.state("next year") is EntryState.PENDING


def test_a_due_entry_takes_its_place_in_its_group_by_its_number(run):
    """Before the entries written after it that still wait."""
    run.write("a", group="g", not_before=MINUTE)
    run.write("b", "c", group="g")
    run.clock.advance(61)
    all_rounds(run)

    assert run.sent() == ["a", "b", "c"]


def test_a_due_entry_waits_for_the_failing_head_of_its_group(subject, clock):
    """As any other entry of the group."""
    fails = {"head"}
    run = Run(subject, clock, plan=lambda one: REFUSE if one in fails else ACCEPT, max_attempts=50)
    run.write("head", group="g")
    run.write("due", group="g", not_before=MINUTE)
    for _ in range(20):
        all_rounds(run)
        clock.advance(10)
    assert run.sent() == []
    fails.clear()
    clock.advance(4000)
    all_rounds(run)

    assert run.sent() == ["head", "due"]


def test_only_the_clock_of_the_relay_decides(run):
    """A writer with a clock of tomorrow takes the time for one that is over."""
    ahead = new_outbox(run.config, FakeClock(START + 86_400))
    at = datetime.fromtimestamp(START, UTC) + timedelta(hours=1)
    run.subject.write(
        ahead.prepare("k", None, id="a", not_before=at.astimezone(timezone(timedelta(hours=9))))
    )
    all_rounds(run)
    assert run.sent() == []
    run.clock.advance(3601)
    all_rounds(run)

    assert run.sent() == ["a"]


def test_a_time_that_is_over_is_now(run):
    """In its group's order."""
    run.write("a", group="g", not_before=datetime(2001, 1, 1, tzinfo=UTC))
    run.write("b", group="g")
    run.write("c", group="g", not_before=timedelta(days=-30_000))
    all_rounds(run)

    assert run.sent() == ["a", "b", "c"]


def test_an_entry_that_expires_before_its_time_is_refused():
    """No handler would get its message."""
    with pytest.raises(InvalidMessageError, match="not after not_before"):
        new_outbox().prepare("k", None, not_before=2 * MINUTE, expires=MINUTE)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (datetime(2027, 5, 1, 12, 0), "2027-05-01T12:00:00 without a time zone"),  # noqa: DTZ001 - the fault
        (60, "60; pass a datetime with a time zone, or a timedelta"),
        ("2027-05-01", "'2027-05-01'; pass"),
        (datetime(9999, 1, 1, tzinfo=UTC), "at most 3,653 days ahead"),
        (LATEST + MINUTE, "at most 3,653 days ahead"),
        (timedelta.max, "at most 3,653 days ahead"),
    ],
)
def test_another_time_is_refused_by_name(wrong, says):
    """Before anything is written."""
    with pytest.raises(InvalidMessageError, match=says):
        new_outbox().prepare("k", None, not_before=wrong)


def test_a_scheduled_entry_is_moved_and_cancelled_and_still_not_early(run, operator):
    """An operator's change does not let it start, nor join its group."""
    run.write("moved", "cancelled", "again", group="g", not_before=MINUTE)
    assert operator.prioritize(EntryFilter(), 60) == 3
    assert operator.cancel(EntryFilter(ids=frozenset({"cancelled", "again"}))) == 2
    assert operator.retry(EntryFilter(ids=frozenset({"again"}))) == 1
    run.write("urgent", group="g", priority=60)
    all_rounds(run)
    assert run.sent("HIGH") == ["urgent"]
    run.clock.advance(61)
    all_rounds(run)

    assert run.sent("HIGH") == ["urgent", "moved", "again"]
    assert run.state("cancelled") is EntryState.CANCELLED


def test_a_move_beside_the_relay_that_lets_it_join_is_not_undone(dynamodb_subject, clock):
    """The relay reads its lane from an index; the operator changes it before the relay writes."""
    run = Run(dynamodb_subject, clock)
    operator = Operator(store=dynamodb_subject.operations, config=run.config, who="ops", clock=clock)
    run.write("a", group="g", not_before=MINUTE)
    clock.advance(61)
    events = dynamodb_subject.client.meta.events

    def move(**_):
        events.unregister("before-call.dynamodb.UpdateItem", move)
        operator.prioritize(EntryFilter(), 60)

    events.register("before-call.dynamodb.UpdateItem", move)
    all_rounds(run)
    run.write("b", group="g", priority=60)
    clock.advance(1)
    all_rounds(run)

    assert run.sent("HIGH") == ["a", "b"]


def test_scheduled_entries_are_counted_and_are_not_old(run):
    """Or the alarm for the oldest entry would ring for all of them."""
    run.write("a", "b", not_before=YEAR)
    status = run.subject.store.status()
    assert (status.scheduled, status.counts[EntryState.PENDING], status.oldest_at) == (2, 2, None)

    run.write("c", not_before=MINUTE)
    run.clock.advance(61)
    run.subject.store.claim([], owner="o", now=run.clock(), locked_until=run.clock() + 1, limit=9)
    status = run.subject.store.status()
    assert status.scheduled == 2
    assert status.oldest_at == pytest.approx(START + 60, abs=0.01)
    shown = run.subject.operations.entry("a")
    assert shown.is_scheduled
    assert shown.not_before == pytest.approx(START + YEAR.total_seconds(), abs=0.01)


def test_many_entries_are_written_for_later_at_once(sqlite_subject, postgresql_subject, clock):
    """With one time for all of them."""
    for subject in (sqlite_subject, postgresql_subject):
        assert isinstance(subject, SqlSubject)
        run = Run(subject, clock)
        outbox = new_outbox(run.config, clock, tables=subject.tables)
        with subject.engine.begin() as connection:
            outbox.add_many(connection, [Message(kind="k", id=one) for one in "abc"], not_before=MINUTE)
        all_rounds(run)
        assert run.sent() == []
        clock.advance(61)
        all_rounds(run)
        assert run.sent() == ["a", "b", "c"]
