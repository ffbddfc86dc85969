"""Reading entries and counting them, on every store."""

import pytest

from lanes.outbox.entry import EntryState
from tests.support.outbox_bench import abandoned, failed


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

    status = bench.store.status()
    counted = {state: status.counts.get(state, 0) for state in EntryState if state != EntryState.PUBLISHED}
    assert counted == {
        EntryState.PENDING: 1,
        EntryState.PROCESSING: 1,
        EntryState.FAILED: 1,
        EntryState.ABANDONED: 1,
    }
    assert status.oldest_at == pytest.approx(oldest, abs=0.001)
