"""
O2: concurrent claims, and their cost.

A claim is atomic, costs the same at a backlog of a hundred and of a hundred thousand, and two relays never publish
the same entry while its lock lives.
"""

from concurrent.futures import ThreadPoolExecutor

from benchmarks.outbox import dynamodb_costs, postgresql_costs
from lanes.config import LanesConfig
from lanes.outbox.entry import EntryState
from lanes.outbox.rules import lane_shares
from lanes.testing.clock import START
from tests.support.outbox import Bench, new_outbox

CONFIG = LanesConfig()


def test_relays_at_once_claim_different_entries_on_postgresql(postgresql_subject):
    """Four threads take everything, nothing twice, and no group in two places."""
    outbox = new_outbox(CONFIG)
    postgresql_subject.write(
        *(outbox.prepare("k", None, group=f"g{number % 30}" if number % 2 else None) for number in range(300))
    )

    def work(owner):
        taken = []
        while True:
            claim = postgresql_subject.store.claim(
                lane_shares(CONFIG),
                owner=f"{owner}/{len(taken)}",
                now=START,
                locked_until=START + 300,
                limit=7,
            )
            taken.append(claim.entries)
            if claim.is_idle:
                return [entry for entries in taken for entry in entries]

    with ThreadPoolExecutor(4) as threads:
        shares = list(threads.map(work, range(4)))
    ids = [entry.id for share in shares for entry in share]

    assert len(ids) == len(set(ids))
    assert {entry.id for share in shares for entry in share if entry.group is None} == {
        entry.id
        for entry in postgresql_subject.operations.entries({EntryState.PROCESSING})
        if entry.group is None
    }
    assert sum(entry.group is None for share in shares for entry in share) == 150


def test_a_relay_that_loses_the_head_of_a_group_takes_nothing_behind_it(dynamodb_subject, clock):
    """Another relay locks the first entry after this one has read the group, and before it writes."""
    bench = Bench(dynamodb_subject, clock)
    bench.write("a", "b", "c", group="g")
    others = []

    def first(**_):
        events.unregister("before-call.dynamodb.UpdateItem", first)
        others.append(bench.ids(1))

    events = dynamodb_subject.client.meta.events
    events.register("before-call.dynamodb.UpdateItem", first)

    assert bench.ids() == []
    assert others == [["a"]]


def test_a_claim_reads_no_more_from_a_long_backlog_than_from_a_short_one():
    """Counted in read units of DynamoDB."""
    costs = dynamodb_costs((100, 1_000))

    assert costs[1_000]["read_units_per_claim"] <= 1.05 * costs[100]["read_units_per_claim"]
    assert costs[100]["claimed"] == costs[1_000]["claimed"] == 25


def test_a_claim_of_postgresql_scans_no_backlog(postgres):
    """Of a few thousand entries its planner would read all, if it took those of a claim for many more."""
    costs = postgresql_costs(postgres.url, (100, 3_000))

    assert costs[3_000]["rows_per_claim"] <= costs[100]["rows_per_claim"]
