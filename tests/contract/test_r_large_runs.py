"""R5 and R6 of a run that is too large to be read: a sample with its errors, and the exact counts on demand."""

from __future__ import annotations

import dataclasses
from functools import cache
from random import Random

import pytest

from lanes.operate.runs import MOST_READ, READ_TOGETHER, read_progress
from lanes.runs import MEMBERS_PER_CHUNK, Counts, End, Head

ENDS = tuple(end.value for end in End)
COUNTED = (*ENDS, "left", "strangers", "unassigned")


class Chunk:
    """A chunk that knows its counts."""

    def __init__(self, counts):
        self._counts = counts

    def counts(self):
        return self._counts


class LargeTable:
    """A run of so many chunks; `counts_of` makes the counts of one, and `calls` has the size of each call."""

    def __init__(self, counts_of):
        self._counts_of = counts_of
        self.calls = []

    def chunks(self, _mark, indexes):
        self.calls.append(len(indexes))
        return [Chunk(counts) for index in indexes if (counts := self._counts_of(index)) is not None]


def spread(shares, *, members=MEMBERS_PER_CHUNK, seed=0):
    """Return the counts of chunks, whose members have these ends with these shares, as a hash spreads them."""

    @cache
    def counts_of(index):
        random = Random(f"{seed}/{index}")
        found = dict.fromkeys((*shares, "left"), 0)
        for _ in range(max(0, round(random.gauss(members, members**0.5)))):
            left = random.random()
            for name, share in shares.items():
                left -= share
                if left < 0:
                    found[name] += 1
                    break
            else:
                found["left"] += 1
        return Counts(**found)

    return counts_of


def sealed(name, chunks, total):
    return Head(name=name, chunks=chunks, total=total, sealed_at=1.0)


def whole(counts_of, chunks):
    return sum((counts_of(index) or Counts() for index in range(chunks)), Counts())


def misses(table, heads, truth):
    """Return how often an estimate was further off than its error, by name."""
    readings = [read_progress(table, head) for head in heads]
    return {
        name: sum(
            abs(getattr(one.counts, name) - getattr(truth, name)) > getattr(one.errors, name)
            for one in readings
        )
        for name in COUNTED
    }


SHARES = [
    {"done": 0.41, "dead_lettered": 0.001, "cancelled": 0.00002},
    {"done": 0.5, "expired": 0.1},
    {"done": 0.99999},
    {},
]
CHUNKS = 8_000


@pytest.mark.parametrize("shares", SHARES)
def test_r5_the_truth_is_within_the_error_of_a_sample(shares):
    """In 95 of 100 runs; with 60 names, nine misses have a chance of one in three hundred."""
    counts_of = spread(shares)
    truth = whole(counts_of, CHUNKS)
    heads = [sealed(f"run-{number}", CHUNKS, truth.members) for number in range(60)]

    missed = misses(LargeTable(counts_of), heads, truth)

    assert max(missed.values()) <= 8, missed


@pytest.mark.deep
@pytest.mark.parametrize("shares", SHARES)
def test_r5_the_truth_is_within_the_error_of_many_samples(shares):
    """With 200 names, 21 misses have a chance of one in a thousand."""
    counts_of = spread(shares, seed=1)
    truth = whole(counts_of, CHUNKS)
    heads = [sealed(f"run-{number}", CHUNKS, truth.members) for number in range(200)]

    missed = misses(LargeTable(counts_of), heads, truth)

    assert max(missed.values()) <= 20, missed


def test_r5_before_the_seal_only_what_is_sealed_is_counted():
    """As in an exact reading: the ends of a chunk that is not sealed may be a stranger's, and some have no item."""
    members = spread({"done": 0.5})

    def counts_of(index):
        if index % 3 == 0:
            return members(index)
        return Counts(unassigned=members(index).done) if index % 3 == 1 else None

    truth = whole(counts_of, CHUNKS)
    heads = [Head(name=f"run-{number}", chunks=CHUNKS, total=40 * CHUNKS) for number in range(60)]

    missed = misses(LargeTable(counts_of), heads, truth)

    assert max(missed.values()) <= 8, missed
    reading = read_progress(LargeTable(counts_of), heads[0])
    assert reading.left == reading.head.total - reading.ended


def test_r5_a_billion_are_read_in_twenty_calls():
    """With an error below 0.35 % of them, and of rare ends a small one; --exact reads them all."""
    table = LargeTable(spread({"done": 0.41, "dead_lettered": 0.00005}))
    head = sealed("november", 25_000_000, 1_000_000_000)

    found = read_progress(table, head)

    assert table.calls == [READ_TOGETHER] * (MOST_READ // READ_TOGETHER)
    assert not found.is_exact
    assert abs(found.counts.done - 410_000_000) <= found.errors.done <= 3_500_000
    assert abs(found.counts.dead_lettered - 50_000) <= found.errors.dead_lettered <= 150_000
    assert found.ended + found.left == head.total

    small = sealed("november", 3 * MOST_READ, 1)
    exact = read_progress(table, small, exact=True)
    assert exact.is_exact
    assert exact.counts == whole(table._counts_of, small.chunks)


def test_r6_done_never_falls_from_one_sample_to_the_next():
    """Each reading of a run has the same chunks."""
    chunks, total, last = 5 * MOST_READ, 200_000 * 5, -1
    for step in range(11):
        found = read_progress(
            LargeTable(lambda index, step=step: Counts(done=step + index % 3, left=40 - step - index % 3)),
            sealed("november", chunks, total),
        )
        assert found.counts.done > last
        last = found.counts.done


@pytest.mark.parametrize("dead", [0, 3])
def test_a_large_run_that_has_ended_is_told_by_its_end(dead):
    """A sample might miss its few dead letters, and a script would take it for a success; a redrive moves only them."""
    table = LargeTable(lambda _index: pytest.fail("nothing is read"))
    final = Counts(done=1_000_000_000 - dead, dead_lettered=dead)
    head = dataclasses.replace(sealed("nov", 25_000_000, 1_000_000_000), ended_at=2.0, final=final)

    found = read_progress(table, head)

    assert found.counts == final
    assert (found.is_exact, found.has_failed) == (dead == 0, dead > 0)
    assert (found.errors.done, found.errors.dead_lettered) == (dead, dead)


def test_a_large_run_that_was_closed_has_failed():
    """Though its sample may show none that is left."""
    counts_of = spread({"done": 1.0})
    head = dataclasses.replace(sealed("nov", 25_000_000, 1_000_000_000), closed_at=2.0)

    assert read_progress(LargeTable(counts_of), head).has_failed


def test_a_run_with_far_fewer_members_than_expected_has_a_reading():
    """Its sample may have no member at all."""
    head = sealed("nov", 25_000_000, 3)

    found = read_progress(LargeTable(lambda _index: Counts()), head)

    assert (found.left, found.counts.done) == (3, 0)
    assert found.errors.done >= 3
