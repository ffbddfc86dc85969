"""What operators do, on every store: filters, previews, changes with an audit, reconciling."""

import pytest

from lanes.config import LanesConfig
from lanes.errors import ConfigurationError
from lanes.outbox import EntryFilter, EntryState, Operator
from lanes.outbox.rules import Mark, lane_shares
from tests.support.outbox import new_outbox

CONFIG = LanesConfig()


class Desk:
    """An operator beside a store with entries in it."""

    def __init__(self, stores, time):
        self.subject, self.clock = stores, time
        self.operator = Operator(store=stores.operations, config=CONFIG, who="ops", clock=time)
        self.outbox = new_outbox(CONFIG, time)

    def write(self, *entries):
        """Write entries given as id, kind, group and priority."""
        self.subject.write(
            *(
                self.outbox.prepare(kind, None, id=one, group=group, priority=priority)
                for one, kind, group, priority in entries
            )
        )

    def claim(self, limit=10):
        """Claim, and give the claim with what settles it."""
        now = self.clock()
        return self.subject.store.claim(
            lane_shares(CONFIG), owner="relay", now=now, locked_until=now + 300, limit=limit
        )

    def priorities(self):
        """Give priorities by id."""
        found = self.subject.operations.entries(frozenset(EntryState))
        return {entry.id: entry.priority for entry in found}


def test_a_priority_that_an_outbox_does_not_take_is_refused(sqlite_subject, clock):
    """Before anything is changed, as where an entry is written."""
    desk = Desk(sqlite_subject, clock)
    desk.write(("a", "mail.sent", None, 7))

    for priority in (2**31, -(2**31)):
        with pytest.raises(ConfigurationError, match="an outbox takes up to 2,147,483,647"):
            desk.operator.prioritize(EntryFilter(), priority)
    assert desk.priorities() == {"a": 7}
    assert desk.operator.prioritize(EntryFilter(), 2**31 - 1) == 1


@pytest.fixture
def desk(subject, clock):
    """Three kinds of entries."""
    desk = Desk(subject, clock)
    desk.write(("a", "mail.sent", "g1", -100), ("b", "mail.sent", "g2", 0), ("c", "mailxsent", None, 50))
    return desk


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({}, "abc"),
        ({"kind": "mail.sent"}, "abc"),
        ({"kind": "mail.sent", "exact": True}, "ab"),
        ({"kind": "mail"}, ""),
        ({"group": "g."}, "ab"),
        ({"group": "g1", "exact": True}, "a"),
        ({"source": "lanes"}, "abc"),
        ({"lowest": 0}, "bc"),
        ({"lowest": -99, "highest": 49}, "b"),
        ({"states": frozenset({EntryState.FAILED})}, ""),
    ],
    ids=str,
)
def test_filters_find_what_they_say(desk, fields, found):
    """All conditions have to hold."""
    assert {entry.id for entry in desk.operator.find(EntryFilter(**fields))} == set(found)


def test_a_filter_that_can_not_be_read_is_refused():
    """With the way out."""
    with pytest.raises(ConfigurationError, match="--exact"):
        EntryFilter(kind="(")


def test_a_preview_counts_and_shows_some(desk):
    """Nothing is changed."""
    preview = desk.operator.preview(EntryFilter(kind="mail.*"))

    assert (preview.count, preview.lowest, preview.highest) == (3, -100, 50)
    assert preview.kinds == {"mail.sent": 2, "mailxsent": 1}
    assert preview.lanes == {"MAIN": 1, "MEDIUM": 1, "HIGH": 1}
    assert len(preview.sample) == 3


def test_raising_and_lowering_are_counted_and_audited(desk):
    """What has the priority already does not count."""
    told = []

    assert desk.operator.prioritize(EntryFilter(kind="mail.sent", exact=True), 50, progress=told.append) == 2
    desk.clock.advance(1)
    assert desk.operator.prioritize(EntryFilter(), -50) == 3
    desk.clock.advance(1)
    assert desk.operator.prioritize(EntryFilter(), -50) == 0
    assert set(desk.priorities().values()) == {-50}
    assert told == [2]
    audits = desk.subject.operations.audits()
    assert [(one.who, one.action, one.before, one.after, one.changed) for one in audits][-2:] == [
        ("ops", "prioritize", "priority 50 to 50", "priority -50", 3),
        ("ops", "prioritize", "priority -100 to 0", "priority 50", 2),
    ]


def test_many_are_changed_in_batches(desk):
    """With progress after each."""
    desk.write(*((f"m{number}", "bulk", None, -100) for number in range(250)))
    told = []

    assert desk.operator.prioritize(EntryFilter(kind="bulk"), 0, progress=told.append) == 250
    assert told == [100, 200, 250]


def test_what_a_relay_holds_is_left_alone(desk):
    """Neither prioritised nor cancelled."""
    claim = desk.claim(1)
    held = claim.entries[0].id

    assert desk.operator.cancel(EntryFilter()) == 2
    assert desk.subject.operations.entry(held).state is EntryState.PROCESSING


def test_cancelling_and_retrying(desk):
    """A cancelled entry says who did it, and is sent after all when it is retried."""
    assert desk.operator.cancel(EntryFilter(group="g1")) == 1
    entry = desk.subject.operations.entry("a")
    assert (entry.state, entry.last_error) == (EntryState.ABANDONED, "cancelled by ops")
    assert entry.expires_at == pytest.approx(desk.clock() + 30 * 86400, abs=1)

    assert desk.operator.retry(EntryFilter(group="g1")) == 1
    assert "a" in {entry.id for entry in desk.claim().entries}


def test_published_entries_are_sent_again_only_when_that_is_said(desk):
    """A retry of everything leaves them."""
    claim = desk.claim()
    marks = [Mark(entry=one, state=EntryState.PUBLISHED, attempts=0) for one in claim.entries]
    desk.subject.store.settle(marks, owner="relay", now=desk.clock())

    assert desk.operator.retry(EntryFilter()) == 0
    assert desk.operator.retry(EntryFilter(states=frozenset({EntryState.PUBLISHED}))) == 3


def test_reconciling_finds_what_does_not_add_up(desk):
    """Published without a number, never handled, and locked for long by nobody alive."""
    claim = desk.claim()
    by_id = {entry.id: entry for entry in claim.entries}
    marks = [
        Mark(entry=by_id["a"], state=EntryState.PUBLISHED, attempts=0),
        Mark(entry=by_id["b"], state=EntryState.PUBLISHED, attempts=0, sequence_number="1"),
    ]
    desk.subject.store.settle(marks, owner="relay", now=desk.clock())
    early = desk.operator.reconcile(settled_for=900)
    desk.clock.advance(10_000)
    late = desk.operator.reconcile(settled_for=900, seen=lambda _: frozenset({"a"}))

    assert (early.unacknowledged, early.unseen, early.dead_locks) == ((), None, ())
    assert [entry.id for entry in late.unacknowledged] == ["a"]
    assert [entry.id for entry in late.unseen] == ["b"]
    assert [entry.id for entry in late.dead_locks] == ["c"]
