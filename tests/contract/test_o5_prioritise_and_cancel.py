"""
O5: prioritise and cancel waiting entries.

`prioritize(filter, priority)` changes waiting entries by kind, group or source (exact, or a pattern with `*`),
returns how many changed, and writes who changed what and when. `cancel(filter)` likewise.
"""

from dataclasses import replace

import pytest

from lanes.config import LanesConfig
from lanes.errors import ConfigurationError
from lanes.outbox import EntryFilter, EntryState, Operator
from lanes.outbox.dynamodb.operations import DynamoDBOutboxOperations
from lanes.outbox.dynamodb.store import DynamoDBOutboxStore
from lanes.outbox.operations import cancelled_by
from lanes.outbox.rules import Mark, lane_shares
from tests.support.outbox import LOCK, Repeats, abandoned, failed, new_outbox

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
        with pytest.raises(ConfigurationError, match="between -2,147,483,647 and 2,147,483,647"):
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
        ({"kind": "mail.sent"}, "ab"),
        ({"kind": "mail*"}, "abc"),
        ({"kind": "mail?sent"}, ""),
        ({"kind": "mail[.]sent"}, ""),
        ({"kind": "MAIL*"}, ""),
        ({"kind": "mail.sent", "exact": True}, "ab"),
        ({"kind": "mail*", "exact": True}, ""),
        ({"kind": "mail"}, ""),
        ({"group": "g*"}, "ab"),
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


def test_a_preview_counts_and_shows_some(desk):
    """Nothing is changed."""
    preview = desk.operator.preview(EntryFilter(kind="mail*"))

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
    desk.write(*((f"m{number}", "bulk", None, -100) for number in range(150)))
    told = []

    assert desk.operator.prioritize(EntryFilter(kind="bulk"), 0, progress=told.append) == 150
    assert told == [100, 150]


def test_each_relay_is_shown_with_what_it_holds(desk):
    """Two relays at once, by the name before the number of their claim."""
    for relay, limit in (("one", 2), ("two", 1)):
        now = desk.clock()
        shares = lane_shares(CONFIG)
        desk.subject.store.claim(shares, owner=f"{relay}/1", now=now, locked_until=now + 120, limit=limit)

    shown = [(one.relay, one.entries, one.lanes) for one in desk.operator.relays()]
    assert shown == [("one", 2, {"HIGH": 1, "MEDIUM": 1}), ("two", 1, {"MAIN": 1})]
    assert desk.operator.relays()[0].locked_until == pytest.approx(desk.clock() + 120)


def test_what_a_relay_holds_is_left_alone(desk):
    """Neither prioritised nor cancelled."""
    claim = desk.claim(1)
    held = claim.entries[0].id

    assert desk.operator.cancel(EntryFilter()) == 2
    assert desk.subject.operations.entry(held).state is EntryState.PROCESSING


def test_a_cancelled_entry_says_who_did_it_and_is_kept_for_a_while(desk):
    """In a state of its own, which the status counts apart."""
    assert desk.operator.cancel(EntryFilter(group="g1")) == 1
    entry = desk.subject.operations.entry("a")
    assert (entry.state, entry.last_error) == (EntryState.CANCELLED, "cancelled by ops")
    assert entry.expires_at == pytest.approx(desk.clock() + 30 * 86400, abs=1)
    counts = desk.subject.store.status().counts
    assert (counts.get(EntryState.CANCELLED), counts.get(EntryState.ABANDONED, 0)) == (1, 0)


def test_only_a_retry_that_names_the_id_sends_a_cancelled_entry(desk):
    """Two payouts were cancelled and one refund failed: a retry of all of them sends the refund alone."""
    assert desk.operator.cancel(EntryFilter(kind="mail.sent")) == 2
    claim = desk.claim()
    desk.subject.store.settle([abandoned(claim.entries[0])], owner="relay", now=desk.clock())
    cancelled, every = frozenset({EntryState.CANCELLED}), frozenset(EntryState)

    for states in (cancelled, cancelled | {EntryState.ABANDONED}):
        with pytest.raises(ConfigurationError, match="only by their ids"):
            desk.operator.retry(EntryFilter(states=states))
    preview = desk.operator.preview(EntryFilter())
    assert preview.states == {"CANCELLED": 2, "ABANDONED": 1}
    assert desk.operator.retry(EntryFilter(kind="mail*", states=every)) == 1
    assert [entry.id for entry in desk.claim().entries] == ["c"]

    assert desk.operator.retry(EntryFilter(ids=("a",))) == 1
    assert [entry.id for entry in desk.claim().entries] == ["a"]
    assert desk.operator.retry(EntryFilter(ids=("b",), states=cancelled)) == 1
    assert desk.operator.prioritize(EntryFilter(states=cancelled), 5) == 0


def test_an_abandoned_entry_that_holds_its_group_is_cancelled_or_retried(desk):
    """Either lets the group go on; an abandoned entry that holds nothing is not cancelled."""
    desk.write(*((f"{group}{number}", "k", group, -1) for group in "xyz" for number in (1, 2)))
    claim = desk.claim()
    by_id = {entry.id: entry for entry in claim.entries}
    pending = [Mark(entry=by_id[one], state=EntryState.PENDING, attempts=0) for one in ("x2", "y2", "z2")]
    held = [replace(abandoned(by_id[one]), holds_group=True, expires_at=None) for one in ("x1", "y1")]
    desk.subject.store.settle([*pending, *held, abandoned(by_id["z1"])], owner="relay", now=desk.clock())

    assert desk.subject.store.status().held_groups == 2
    assert [entry.id for entry in desk.claim().entries] == ["z2"]
    wanted = EntryFilter(kind="k")
    assert desk.operator.preview(cancelled_by(EntryFilter(ids=("x1", "z1")))).count == 1
    assert desk.operator.cancel(EntryFilter(ids=("x1", "z1"))) == 1
    assert [entry.id for entry in desk.claim().entries] == ["x2"]
    assert desk.operator.retry(EntryFilter(ids=("y1",))) == 1
    assert desk.claim().entries[0].id == "y1"
    assert desk.subject.store.status().held_groups == 0
    assert {entry.state for entry in desk.operator.find(wanted) if entry.id in {"x1", "z1"}} == {
        EntryState.CANCELLED,
        EntryState.ABANDONED,
    }


def test_published_entries_are_never_sent_again(desk):
    """A retry leaves them, whatever it selects."""
    claim = desk.claim()
    marks = [Mark(entry=one, state=EntryState.PUBLISHED, attempts=0) for one in claim.entries]
    desk.subject.store.settle(marks, owner="relay", now=desk.clock())

    assert desk.operator.retry(EntryFilter()) == 0
    assert desk.operator.retry(EntryFilter(states=frozenset({EntryState.PUBLISHED}))) == 0
    assert desk.operator.retry(EntryFilter(ids=("a",))) == 0


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
    handled = frozenset({by_id["a"].identity, replace(by_id["b"], kind="other").identity})
    late = desk.operator.reconcile(settled_for=900, seen=lambda _: handled)

    assert (early.unacknowledged, early.unseen, early.dead_locks) == ((), None, ())
    assert [entry.id for entry in late.unacknowledged] == ["a"]
    assert [entry.id for entry in late.unseen] == ["b"]
    assert [entry.id for entry in late.dead_locks] == ["c"]


def test_a_held_entry_keeps_its_priority(bench):
    """What is being sent is not changed any more."""
    (entry,) = bench.write("a")
    bench.claim()

    assert bench.operations.prioritize([entry], priority=100, lane="HIGH", now=bench.clock()) == 0
    assert bench.operations.cancel([entry], reason="no", now=bench.clock(), expires_at=1.0) == 0


def test_a_failed_entry_takes_its_new_priority_along(bench):
    """It still waits for its retry, then goes where it belongs."""
    bench.write("a")
    claim, owner = bench.claim()
    bench.settle(claim, owner, a=failed(claim.entries[0], due_at=bench.clock() + 60))
    (entry,) = bench.operations.entries({EntryState.FAILED})

    assert bench.operations.prioritize([entry], priority=100, lane="HIGH", now=bench.clock()) == 1
    assert bench.ids() == []
    bench.clock.advance(61)
    bench.write("b", priority=60)
    assert bench.ids() == ["a", "b"]


def test_an_entry_that_was_parked_since_it_was_read_takes_its_new_priority(bench):
    """And one that was woken since; a relay at work keeps no operator from what waits."""
    bench.write("a", "b", group="g")
    read = list(bench.operations.entries({EntryState.PENDING}))
    bench.claim(1)
    assert bench.ids() == []

    (parked,) = [one for one in bench.operations.entries({EntryState.PENDING}) if one.is_parked]
    assert bench.operations.prioritize(read, priority=100, lane="HIGH", now=bench.clock()) == 1
    assert bench.operations.prioritize([parked], priority=50, lane="HIGH", now=bench.clock()) == 0
    assert bench.ids() == ["b"]
    bench.write("c", "d", group="h")
    bench.claim(1)
    bench.ids()
    (parked,) = [one for one in bench.operations.entries({EntryState.PENDING}) if one.is_parked]
    bench.clock.advance(LOCK + 1)
    assert bench.claim(shares=[])[0].ripened
    assert bench.operations.prioritize([parked], priority=100, lane="HIGH", now=bench.clock()) == 1
    assert bench.operations.entry("d").priority == 100


def test_moving_the_first_of_a_group_to_another_lane_frees_the_next(bench):
    """A parked entry doesn't wait for one that has left its lane."""
    bench.write("a", group="g")
    bench.write("b", group="g", priority=1)
    bench.write("x", priority=2)
    assert bench.ids(1) == ["x"]
    (a,) = [one for one in bench.operations.entries({EntryState.PENDING}) if one.id == "a"]

    bench.operations.prioritize([a], priority=-100, lane="MAIN", now=bench.clock())
    assert bench.ids() == ["b", "a"]


@pytest.mark.parametrize("verb", ["prioritize", "cancel", "retry"])
def test_a_change_whose_answer_was_lost_is_counted(dynamodb_subject, clock, verb):
    """The repeat finds the entry changed, by itself; the next one of its group waits for nothing."""
    desk = Desk(dynamodb_subject, clock)
    desk.write(("a", "mail.sent", "g", 7), ("b", "mail.sent", "g", 7))
    if verb == "retry":
        desk.operator.cancel(EntryFilter(ids=frozenset({"a"})))
    clock.advance(0.1234567)
    store = DynamoDBOutboxStore(
        table=dynamodb_subject.name, client=Repeats(dynamodb_subject.client), concurrency=1
    )
    operator = Operator(store=DynamoDBOutboxOperations(store), config=CONFIG, who="ops", clock=clock)
    change = {
        "prioritize": lambda of: operator.prioritize(of, 60),
        "cancel": operator.cancel,
        "retry": operator.retry,
    }

    assert change[verb](EntryFilter(ids=frozenset({"a"}))) == 1
    assert dynamodb_subject.operations.audits()[0].changed == 1
