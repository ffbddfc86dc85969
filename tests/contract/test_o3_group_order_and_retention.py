"""
O3: the order of a group, and retention.

Published and abandoned entries are removed after their retention. A relay never publishes an entry of a group before
an earlier entry of the same group and lane.
"""

import re
from dataclasses import replace

import pytest

from lanes.message import LARGEST_BODY_BYTES
from lanes.outbox import EntryFilter, Operator
from lanes.outbox.entry import EntryState
from lanes.outbox.rules import Mark
from tests.support.outbox import LOCK, Run, abandoned, failed
from tests.support.sending import ACCEPT, REFUSE


def test_a_group_is_claimed_in_order(bench):
    """Also when a later entry of the lane is more urgent."""
    bench.write("a", group="g", priority=0)
    bench.write("b", group="g", priority=40)
    bench.write("x", priority=10)

    assert bench.sent() == ["x", "a", "b"]


def test_a_group_goes_out_in_one_claim_where_it_can(bench):
    """The beginning of a group without a gap is claimed at once."""
    bench.write("a", "b", "c", group="g")

    assert bench.ids(2) == ["a", "b"]


def test_a_later_entry_waits_while_an_earlier_one_waits_for_its_retry(bench):
    """A failed head holds its group back, not others."""
    bench.write("a", "b", group="g")
    claim, owner = bench.claim(1)
    bench.settle(claim, owner, a=failed(claim.entries[0], due_at=bench.clock() + 60))
    bench.write("x", group="h")

    assert bench.ids() == ["x"]
    bench.clock.advance(61)
    assert bench.sent() == ["a", "b"]


def test_an_abandoned_entry_lets_its_group_go_on(bench):
    """Nothing waits for what will never be sent."""
    bench.write("a", "b", group="g")
    claim, owner = bench.claim(1)
    assert bench.ids() == []
    bench.settle(claim, owner, a=abandoned(claim.entries[0]))

    assert bench.ids() == ["b"]


def test_an_abandoned_entry_holds_its_group_where_you_choose_so(subject, clock):
    """Until an operator decides; other groups and entries without a group go on, and retention spares it."""
    fails = {"a1", "x"}
    run = Run(subject, clock, plan=lambda one: REFUSE if one in fails else ACCEPT, on_abandoned="hold")
    for group in "ab":
        run.write(f"{group}1", f"{group}2", group=group)
    run.write("x", "y")
    for _ in range(4):
        run.relay.run_until(clock() + 1)
        clock.advance(4000)

    assert run.sent() == ["b1", "y", "b2"]
    assert (run.state("a1"), run.state("a2")) == (EntryState.ABANDONED, EntryState.PENDING)
    assert subject.operations.entry("x").expires_at
    clock.advance(40 * 24 * 3600)
    subject.store.remove_expired(now=clock(), limit=100)
    assert {one.id for one in subject.operations.entries(frozenset(EntryState))} == {"a1", "a2"}

    fails.clear()
    operator = Operator(store=subject.operations, config=run.config, who="ops", clock=clock)
    assert operator.retry(EntryFilter(group="a")) == 1
    run.relay.run_until(clock() + 1)
    assert run.sent()[-2:] == ["a1", "a2"]


FAULTS = {
    "not JSON": lambda body: body[:-1],
    "a bad time": lambda body: re.sub(r'"time":"[^"]*"', '"time":"yesterday"', body),
    "too large": lambda body: body.replace('"n":', f'"x":"{"x" * LARGEST_BODY_BYTES}","n":'),
    "refused": None,
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("first", [pytest.param(0, marks=pytest.mark.deep), 2])
def test_an_entry_holds_its_group_for_whatever_reason_it_was_abandoned(subject, clock, fault, first):
    """Also before its send: later entries of the same claim do not pass it, and the earlier ones are sent."""
    bad = f"g{first}"
    if fault == "too large" and hasattr(subject, "client"):
        pytest.skip("an item of DynamoDB has at most 400 KB")
    refuses = fault == "refused"
    plan = lambda one: REFUSE if refuses and one == bad else ACCEPT  # noqa: E731
    run = Run(subject, clock, plan=plan, on_abandoned="hold", max_attempts=1)
    entries = [run.outbox.prepare("k", {"n": number}, id=f"g{number}", group="g") for number in range(6)]
    if not refuses:
        entries[first] = replace(entries[first], body=FAULTS[fault](entries[first].body))
    subject.write(*entries)
    run.write("other")
    for _ in range(3):
        run.relay.run_until(clock() + 1)
        clock.advance(400)

    assert sorted(run.sent()) == sorted([*(f"g{number}" for number in range(first)), "other"])
    assert run.state(bad) is EntryState.ABANDONED
    assert subject.store.status().held_groups == 1


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

    assert bench.ids(20) == ["x"]
    assert bench.claim(20)[0].is_idle


def test_parked_entries_come_back_by_themselves(bench):
    """The relay that has the first one dies; another one sends it, and they follow."""
    bench.write("a", "b", group="g")
    bench.claim(1)
    assert bench.ids() == []

    bench.clock.advance(LOCK + 1)
    assert bench.sent() == ["a", "b"]


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


def test_a_group_waits_for_its_failed_entry_and_no_other_does(subject, clock):
    """Order is kept in the lane, though the later ones were in the same batch."""
    fails = {"a"}
    run = Run(subject, clock, plan=lambda one: REFUSE if one in fails else ACCEPT)
    run.write("a", "b", "c", group="g")
    run.write("x", group="h")

    run.relay.run_until(clock() + 1)
    assert run.sent() == ["x"]
    fails.clear()
    clock.advance(61)
    run.relay.run_until(clock() + 1)
    assert run.sent() == ["x", "a", "b", "c"]
    assert run.state("c") is EntryState.PUBLISHED
