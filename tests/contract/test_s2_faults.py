"""
S2, faults drawn at random.

Workers are killed, connections break, SQS throttles, answers are partial, late, lost, cut, doubled or those of other
calls, and the job is run again until it has ended well. Each row arrives in the order of its group, the manifest agrees
with the queues, and rows that SQS refuses are set aside.
"""

from collections import Counter

import pytest

from spark_jobs.manifest import task
from tests.support.faulty_job import CONCURRENCY, LANES, POISON, FaultyJob, connect_to

SEGMENT_ROWS = 20
# The rows that are not yet written, and the calls in flight.
UNRECORDED = SEGMENT_ROWS + CONCURRENCY * 10


def check(seed, monkeypatch, *, rows):
    """Run a job under the faults of a seed, hold its result against its table, and return it."""
    monkeypatch.setattr(task, "SEGMENT_ROWS", SEGMENT_ROWS)
    job = FaultyJob(seed, rows=rows, unrecorded=UNRECORDED)
    connect_to(job, monkeypatch)
    try:
        job.run()
    finally:
        job.sqs.close()
    table = [row for partition in job.partitions for row in partition]
    good = [row for row in table if POISON not in row["data"]]
    arrived = {lane: list(dict.fromkeys(job.queued(lane))) for lane in LANES}

    assert job.quarantined() == {row["id"] for row in table} - {row["id"] for row in good}
    assert Counter(job.recorded()) == Counter(row["id"] for row in good)
    for lane in LANES:
        wanted = [row for row in good if (row["priority"] > 0) == (lane == "HIGH")]
        for group in {row["group"] for row in table}:
            expected = [row["id"] for row in wanted if row["group"] == group]
            assert [one for of, one in arrived[lane] if of == group] == expected
    return job


def test_each_row_arrives_and_is_recorded_under_any_faults(monkeypatch):
    """A few seeds; together they have every fault and several kills."""
    jobs = [check(seed, monkeypatch, rows=200) for seed in range(6)]

    assert sum(job.kills for job in jobs) >= 6
    assert len(sum((job.sqs.faults for job in jobs), Counter())) == 11


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(start, marks=pytest.mark.nightly if start > 100 else pytest.mark.deep)
        for start in range(100, 300, 40)
    ],
)
def test_no_seed_breaks_a_promise(start, monkeypatch):
    """Two hundred jobs of a thousand rows, forty of them in the deep tests."""
    for seed in range(start, start + 40):
        check(seed, monkeypatch, rows=1_000)
