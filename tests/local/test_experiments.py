"""The first experiments on this machine: deployed, run and told."""

import pytest

from local.experiments import Witness, replay_all
from simulator.experiments import named

YIELDED = '{"level": "INFO", "message": "batch_yielded", "lane": "MAIN", "to_lane": "HIGH", "records": 7, "delay": 9}'


class _Run:
    function = "f"
    began_at = 0.0
    experiment = named("three-slots")[0]


def test_lines_of_functions_become_a_course():
    """Work done and batches that made way, whoever printed them; other lines are none of it."""
    witness = Witness()
    for line in ("START", "done MAIN 1", "yields MAIN", YIELDED, "done HIGH 2", "done HIGH 2"):
        witness("f", line)
    witness("another", "done MAIN 3")
    timeline = witness.timeline(_Run())

    assert timeline.lines == [
        "MAIN 1 (group 1)",
        "  MAIN yields",
        "  MAIN yields (7 messages)",
        "HIGH 2 (group 2)",
        "HIGH 2 (group 2)",
    ]
    assert timeline.done == [("MAIN", 1, 1), ("HIGH", 2, 2), ("HIGH", 2, 2)]
    assert witness.wait_for(_Run(), 2, seconds=0)
    assert not witness.wait_for(_Run(), 3, seconds=0)


@pytest.fixture(scope="module")
def timelines():
    """Two FIFO queues, deployed by both patterns and run."""
    [one] = replay_all(named("fifo"))
    return one.timelines


@pytest.mark.deep
def test_two_fifo_queues_go_in_order_on_this_machine(timelines):
    """What had begun, then all of HIGH, then the rest; one batch made way."""
    for timeline in timelines.values():
        lanes = [lane for lane, _, _ in timeline.done]
        first = lanes.index("HIGH")
        assert lanes == ["MAIN"] * first + ["HIGH"] * 5 + ["MAIN"] * (10 - first)
        for lane in ("MAIN", "HIGH"):
            numbers = [number for one, number, _ in timeline.done if one == lane]
            assert numbers == sorted(set(numbers))
        assert sum("yields" in line for line in timeline.lines) >= 1
