"""What every store of the outbox does, in one suite run against all of them."""

from dataclasses import replace

import pytest

from lanes.config import LanesConfig
from lanes.outbox.entry import EntryState
from lanes.outbox.rules import Mark, lane_shares
from lanes.outbox.store import AuditEntry
from tests.support.outbox import new_outbox
from tests.support.outbox_stores import (  # noqa: F401 - fixtures
    clock,
    dynamodb_subject,
    postgres,
    postgresql_subject,
    sqlite_subject,
    subject,
)

CONFIG = LanesConfig()
SHARES = lane_shares(CONFIG)
LOCK = 300.0


class Bench:
    """An outbox, its store and a clock."""

    def __init__(self, stores, time):
        self.subject = stores
        self.store = stores.store
        self.operations = stores.operations
        self.clock = time
        self.outbox = new_outbox(CONFIG, time)
        self.owners = 0

    def write(self, *ids, group=None, priority=0):
        """Write entries one after the other."""
        entries = [
            self.outbox.prepare("order.placed", {"id": one}, id=one, group=group, priority=priority)
            for one in ids
        ]
        self.subject.write(*entries)
        return entries

    def claim(self, limit=10, *, shares=SHARES):
        """Claim as one relay; give the claim and its owner."""
        self.owners += 1
        owner = f"relay/{self.owners}"
        now = self.clock()
        claim = self.store.claim(shares, owner=owner, now=now, locked_until=now + LOCK, limit=limit)
        return claim, owner

    def ids(self, limit=10, *, shares=SHARES):
        """Claim and give the ids."""
        return [entry.id for entry in self.claim(limit, shares=shares)[0].entries]

    def settle(self, claim, owner, **marks):
        """Mark what was claimed, as published unless told otherwise."""
        return self.store.settle(
            [marks.get(entry.id, published(entry)) for entry in claim.entries], owner=owner, now=self.clock()
        )

    def state(self, entry_id):
        """Read an entry's state."""
        return self.operations.entry(entry_id).state


def published(entry):
    return Mark(entry=entry, state=EntryState.PUBLISHED, attempts=entry.attempts, sequence_number="7")


def failed(entry, *, due_at):
    return Mark(
        entry=entry,
        state=EntryState.FAILED,
        attempts=entry.attempts + 1,
        last_error="refused",
        due_at=due_at,
    )


def abandoned(entry):
    return Mark(entry=entry, state=EntryState.ABANDONED, attempts=3, last_error="gone", expires_at=1.0)


@pytest.fixture
def bench(subject, clock):  # noqa: F811 - the fixtures above
    """A store to work on."""
    return Bench(subject, clock)


def test_what_is_written_comes_back_as_it_was(bench):
    """Every field survives the store."""
    (entry,) = bench.write("a", group="g", priority=-7)

    (claimed,) = bench.claim()[0].entries
    assert claimed.message() == entry.message()
    assert (claimed.id, claimed.group, claimed.priority, claimed.lane) == ("a", "g", -7, "MAIN")
    assert claimed.position == entry.position


def test_claims_follow_priority_then_age(bench):
    """The most urgent first, among equals the oldest."""
    bench.write("n1", "n2")
    bench.write("low", priority=-100)
    bench.write("high", priority=50)
    bench.write("n3")

    assert bench.ids() == ["high", "n1", "n2", "n3", "low"]


def test_entries_of_one_moment_are_claimed_by_id(bench):
    """The id decides between entries of one age."""
    first, second = (bench.outbox.prepare("k", None, id=one) for one in ("b", "a"))

    bench.subject.write(first, replace(second, position=first.position))

    assert bench.ids() == ["a", "b"]


def test_a_claim_takes_no_more_than_its_limit(bench):
    """The rest stays for the next one."""
    bench.write("a", "b", "c")

    assert bench.ids(2) == ["a", "b"]
    assert bench.ids(2) == ["c"]
    assert bench.ids(2) == []


def test_claims_of_two_relays_are_disjoint(bench):
    """What one holds the other does not get."""
    bench.write(*"abcdef")

    assert set(bench.ids(3)) | set(bench.ids(3)) == set("abcdef")


def test_a_claimed_entry_says_who_holds_it(bench):
    """State, owner and end of the lock are noted."""
    bench.write("a")
    _, owner = bench.claim()

    entry = bench.operations.entry("a")
    assert entry.state is EntryState.PROCESSING
    assert entry.locked_by == owner
    assert entry.locked_until == pytest.approx(bench.clock() + LOCK)


def test_a_published_entry_is_not_claimed_again(bench):
    """It stays to be looked at, with its number."""
    bench.write("a")
    claim, owner = bench.claim()

    assert {"a"} == bench.settle(claim, owner)
    bench.clock.advance(10_000)
    assert bench.ids() == []
    entry = bench.operations.entry("a")
    assert (entry.state, entry.sequence_number, entry.locked_by) == (EntryState.PUBLISHED, "7", None)


def test_a_failed_entry_waits_for_its_next_attempt(bench):
    """It is no candidate before, and one with its old priority after."""
    bench.write("a", priority=50)
    claim, owner = bench.claim()
    bench.settle(claim, owner, a=failed(claim.entries[0], due_at=bench.clock() + 60))
    bench.write("b")

    assert bench.ids() == ["b"]
    bench.clock.advance(61)
    bench.write("c", priority=49)
    (first, second) = bench.claim()[0].entries
    assert (first.id, first.attempts, first.last_error, second.id) == ("a", 1, "refused", "c")


def test_an_expired_lock_is_taken_over(bench):
    """Another relay gets the entry when the lock has ended, not before."""
    bench.write("a")
    bench.claim()

    bench.clock.advance(LOCK - 1)
    assert bench.ids() == []
    bench.clock.advance(2)
    claim, _ = bench.claim()
    assert [entry.id for entry in claim.entries] == ["a"]
    assert claim.taken_over == 1


def test_a_late_relay_can_not_mark_what_another_took(bench):
    """Its marks change nothing and it is told so."""
    bench.write("a")
    late, late_owner = bench.claim()
    bench.clock.advance(LOCK + 1)
    claim, owner = bench.claim()

    assert frozenset() == bench.settle(late, late_owner, a=abandoned(late.entries[0]))
    assert bench.operations.entry("a").locked_by == owner
    assert {"a"} == bench.settle(claim, owner)
    assert frozenset() == bench.settle(late, late_owner, a=abandoned(late.entries[0]))
    assert bench.state("a") is EntryState.PUBLISHED


def test_a_group_is_claimed_in_order(bench):
    """Also when a later entry of the lane is more urgent."""
    bench.write("a", group="g", priority=0)
    bench.write("b", group="g", priority=40)
    bench.write("x", priority=10)

    first, owner = bench.claim()
    assert [entry.id for entry in first.entries] == ["x", "a"]
    assert first.parked == 1
    bench.settle(first, owner)
    assert bench.ids() == ["b"]


def test_a_group_goes_out_in_one_claim_where_it_can(bench):
    """The beginning of a group without a gap is claimed at once."""
    bench.write("a", "b", "c", group="g")

    assert bench.ids(2) == ["a", "b"]


def test_a_later_entry_waits_while_an_earlier_one_is_held(bench):
    """Another relay can't overtake within the group, and the group goes on when the first is done."""
    bench.write("a", "b", group="g")
    claim, owner = bench.claim(1)

    assert bench.ids() == []
    bench.settle(claim, owner)
    assert bench.ids() == ["b"]


def test_a_later_entry_waits_while_an_earlier_one_waits_for_its_retry(bench):
    """A failed head holds its group back, not others."""
    bench.write("a", "b", group="g")
    claim, owner = bench.claim(1)
    bench.settle(claim, owner, a=failed(claim.entries[0], due_at=bench.clock() + 60))
    bench.write("x", group="h")

    assert bench.ids() == ["x"]
    bench.clock.advance(61)
    claim, owner = bench.claim()
    assert [entry.id for entry in claim.entries] == ["a"]
    bench.settle(claim, owner)
    assert bench.ids() == ["b"]


def test_an_abandoned_entry_lets_its_group_go_on(bench):
    """Nothing waits for what will never be sent."""
    bench.write("a", "b", group="g")
    claim, owner = bench.claim(1)
    assert bench.ids() == []
    bench.settle(claim, owner, a=abandoned(claim.entries[0]))

    assert bench.ids() == ["b"]


def test_a_group_keeps_its_order_in_each_lane_alone(bench):
    """An urgent entry does not wait for bulk work of its group."""
    bench.write("bulk", group="g", priority=-100)
    claim, owner = bench.claim()
    bench.settle(claim, owner, bulk=failed(claim.entries[0], due_at=bench.clock() + 60))
    bench.write("urgent", group="g", priority=100)

    assert bench.ids() == ["urgent"]


def test_parked_entries_are_not_looked_at_again(bench):
    """The second claim finds neither the waiting group nor anything else to do."""
    bench.write(*(f"g{number}" for number in range(12)), group="g", priority=40)
    claim, owner = bench.claim(1)
    bench.settle(claim, owner, g0=failed(claim.entries[0], due_at=bench.clock() + 60))
    bench.write("x")

    assert bench.claim(20)[0].parked == 11
    assert bench.claim(20)[0].is_idle


def test_parked_entries_come_back_by_themselves(bench):
    """Where nobody wakes them, since a relay died between two steps, they are candidates again in the end."""
    bench.write("a", "b", group="g")
    bench.claim(1)
    assert bench.ids() == []

    bench.clock.advance(LOCK + 1)
    assert bench.ids() == ["a", "b"]


def test_an_entry_given_back_is_a_candidate_at_once(bench):
    """Untried entries wait for nothing."""
    bench.write("a")
    claim, owner = bench.claim()
    entry = claim.entries[0]
    bench.settle(claim, owner, a=Mark(entry=entry, state=EntryState.PENDING, attempts=0))

    assert bench.ids() == ["a"]


def test_a_lane_without_room_is_passed_over(bench):
    """The window of a lane keeps its entries in the store, in order."""
    bench.write("h1", "h2", "h3", priority=50)
    bench.write("m1")

    assert bench.ids(shares=lane_shares(CONFIG, {"HIGH": 2})) == ["h1", "h2", "m1"]
    assert bench.ids(shares=lane_shares(CONFIG, {"HIGH": -1})) == []
    assert bench.ids() == ["h3"]


def test_priority_can_be_raised_and_lowered_while_an_entry_waits(bench):
    """The next claim follows the new order."""
    a, _, c = bench.write("a", "b", "c")

    assert bench.operations.prioritize([c], priority=100, lane="HIGH", now=bench.clock()) == 1
    assert bench.operations.prioritize([a], priority=-100, lane="MAIN", now=bench.clock()) == 1
    assert bench.ids() == ["c", "b", "a"]
    assert bench.operations.entry("c").lane == "HIGH"


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
    claim, _ = bench.claim(2)
    assert [entry.id for entry in claim.entries] == ["x"]
    (a,) = [one for one in bench.operations.entries({EntryState.PENDING}) if one.id == "a"]

    bench.operations.prioritize([a], priority=-100, lane="MAIN", now=bench.clock())
    assert bench.ids() == ["b", "a"]


def test_a_cancelled_entry_is_abandoned_and_frees_its_group(bench):
    """It says who cancelled it."""
    bench.write("a", group="g")
    bench.write("b", group="g", priority=1)
    assert bench.ids(1) == []
    (a,) = [one for one in bench.operations.entries({EntryState.PENDING}) if one.id == "a"]

    assert bench.operations.cancel([a], reason="cancelled by me", now=1.0, expires_at=2.0) == 1
    assert bench.ids() == ["b"]
    entry = bench.operations.entry("a")
    assert (entry.state, entry.last_error) == (EntryState.ABANDONED, "cancelled by me")


def test_an_abandoned_entry_can_be_retried(bench):
    """It is pending again with all its attempts."""
    bench.write("a", group="g")
    claim, owner = bench.claim()
    bench.settle(claim, owner, a=abandoned(claim.entries[0]))
    (entry,) = bench.operations.entries({EntryState.ABANDONED})

    assert bench.operations.retry([entry], now=bench.clock()) == 1
    (again,) = bench.claim()[0].entries
    assert (again.id, again.attempts) == ("a", 0)


def test_finished_entries_go_after_their_retention(bench):
    """And no others."""
    bench.write("old", "young", "waiting")
    claim, owner = bench.claim(2)
    old, young = claim.entries
    now = bench.clock()
    bench.store.settle(
        [
            Mark(entry=old, state=EntryState.PUBLISHED, attempts=0, expires_at=now + 10),
            Mark(entry=young, state=EntryState.ABANDONED, attempts=0, expires_at=now + 1000),
        ],
        owner=owner,
        now=now,
    )

    assert bench.store.remove_expired(now=now + 5, limit=10) == 0
    assert bench.store.remove_expired(now=now + 11, limit=10) == 1
    assert bench.operations.entry("old") is None
    assert {"young", "waiting"} == {one.id for one in bench.operations.entries(frozenset(EntryState))}


def test_entries_are_found_by_state_and_only_once(bench):
    """Each state on its own, however many there are."""
    bench.write(*(f"p{number}" for number in range(120)))
    claim, owner = bench.claim(2)
    bench.settle(claim, owner, p1=failed(claim.entries[1], due_at=bench.clock() + 60))

    found = [entry.id for entry in bench.operations.entries({EntryState.PENDING})]
    assert len(found) == len(set(found)) == 118
    assert [entry.id for entry in bench.operations.entries({EntryState.PUBLISHED})] == ["p0"]
    assert [entry.id for entry in bench.operations.entries({EntryState.FAILED})] == ["p1"]


def test_the_standing_counts_what_is_unfinished(bench):
    """Counts by state and the age of the oldest."""
    bench.write("a", "b", "c", "d")
    oldest = bench.clock()
    claim, owner = bench.claim(3)
    a, b, _ = claim.entries
    bench.store.settle([abandoned(a), failed(b, due_at=bench.clock() + 9)], owner=owner, now=bench.clock())

    standing = bench.store.standing()
    counted = {state: standing.counts.get(state, 0) for state in EntryState if state != EntryState.PUBLISHED}
    assert counted == {
        EntryState.PENDING: 1,
        EntryState.PROCESSING: 1,
        EntryState.FAILED: 1,
        EntryState.ABANDONED: 1,
    }
    assert standing.oldest_at == pytest.approx(oldest, abs=0.001)


def test_the_audit_keeps_who_changed_what(bench):
    """Latest first."""
    for number in (1, 2):
        bench.operations.add_audit(
            AuditEntry(
                action="prioritize",
                who="ops",
                at=bench.clock() + number,
                filter="kind ~ a",
                before="priority 0 to 5",
                after="priority 100",
                changed=number,
            )
        )

    assert [audit.changed for audit in bench.operations.audits()] == [2, 1]
    assert bench.operations.audits()[0].who == "ops"
    assert bench.ids() == []
