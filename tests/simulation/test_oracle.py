"""The oracle over recorded events: each broken promise is found, with its messages."""

import math

import pytest

from lanes.config import LanesConfig
from simulator.oracle import Sent, Work, inversions, recorded_findings, recorded_waits

SENT = [Sent("a1", "HIGH", "a"), Sent("a2", "HIGH", "a"), Sent("b1", "MAIN", "b")]
DONE = [Work("a1", 1, 0, 1, "done"), Work("a2", 1, 1, 2, "done"), Work("b1", 1, 2, 3, "done")]


def found(works, *, sent=SENT, dead=(), left=(), slots=1):
    """Return the names of the broken promises, with their messages."""
    consumer = LanesConfig.from_dict(
        {"consumer": {"reserved_concurrency": slots, "max_attempts": 2}}
    ).consumer
    return recorded_findings(sent, works, dead=dead, left=left, consumer=consumer)


def test_a_run_without_a_fault_breaks_nothing():
    """Neither does a message that is left, nor a foreign handler, which has no slot."""
    assert found([*DONE, Work("other", 7, 0, 9, "done")]) == {}
    assert found(DONE[:2], left=["b1"]) == {}


@pytest.mark.parametrize(
    ("works", "dead", "broken"),
    [
        (DONE[:2], [], {"lost": ["b1"]}),
        (DONE, ["b1", "b1"], {"dead-lettered twice": ["b1"], "done and dead-lettered": ["b1"]}),
        ([*DONE, Work("a1", 1, 9, 9.5, "done")], [], {"done twice": ["a1"]}),
        (
            [Work("a2", 1, 0, 1, "done"), Work("a1", 1, 1, 2, "done"), DONE[2]],
            [],
            {"out of order": [("HIGH", "a", 1)]},
        ),
        (
            [*DONE[:2], Work("b1", 2, 2, 3, "failed"), Work("b1", 2, 3, 4, "done")],
            [],
            {"wrong attempt number": ["b1"]},
        ),
        (
            [*DONE[:2], Work("b1", 1, 2, 3, "failed")],
            ["b1"],
            {"dead-lettered after too few or too many attempts": ["b1"]},
        ),
        ([*DONE[:2], Work("b1", 1, 1.5, 3, "done")], [], {"more running handlers than slots": ["b1"]}),
    ],
)
def test_each_broken_promise_names_its_messages(works, dead, broken):
    """And those that hold are not there."""
    assert {what: found(works, dead=dead).get(what) for what in broken} == broken


LANES = ["HIGH", "MEDIUM", "MAIN"]


def pairs(sent, works):
    """Return the inversions of recorded events."""
    return inversions(recorded_waits(sent, works), works, lanes=LANES, bound=0.3)


def test_a_message_waits_from_its_sending_to_its_first_start():
    """Later attempts change nothing; one that never starts, or only while its resource is away, waits for ever."""
    sent = [Sent("pay", "HIGH", "p", 2), Sent("next", "HIGH", "p", 2), Sent("away", "HIGH", "q", 3)]
    works = [
        Work("pay", 1, 2.5, 2.6, "failed"),
        Work("pay", 2, 9, 10, "done"),
        Work("away", 1, 3, 3, "away"),
    ]

    assert [wait[2:] for wait in recorded_waits(sent, works)] == [
        (2, 2, 2.5),
        (2, 10, math.inf),
        (3, 3, math.inf),
    ]


@pytest.mark.parametrize(("start", "found"), [(1.5, [("pay", "bulk")]), (1.29, [])])
def test_a_record_that_starts_long_after_a_higher_message_began_to_wait_is_an_inversion(start, found):
    """The pair is named; within the bound the lower lane may not know yet."""
    sent = [Sent("bulk", "MAIN", "b"), Sent("pay", "HIGH", "p", 1)]

    assert pairs(sent, [Work("bulk", 1, start, 1.6, "done"), Work("pay", 1, 1.7, 1.8, "done")]) == found


def test_a_middle_lane_may_hold_lower_lanes_back_and_is_held_back_by_higher_ones():
    """Each started record comes once."""
    sent = [Sent("order", "MEDIUM", "o"), Sent("pay", "HIGH", "p"), Sent("bulk", "MAIN", "b")]
    works = [
        Work("order", 1, 1, 1.1, "done"),
        Work("bulk", 1, 0.5, 0.6, "done"),
        Work("pay", 1, 2, 2.1, "done"),
    ]

    assert sorted(pairs(sent, works)) == [("order", "bulk"), ("pay", "order")]


def test_a_higher_message_behind_another_one_of_its_group_holds_nothing_back():
    """From its first start on that one waits no more: between attempts it waits for its backoff."""
    sent = [Sent("head", "HIGH", "h"), Sent("behind", "HIGH", "h", 0.1), Sent("bulk", "MAIN", "b")]
    works = [
        Work("head", 1, 0.1, 0.1, "failed"),
        Work("bulk", 1, 2, 3, "done"),
        Work("head", 2, 4, 5, "done"),
        Work("behind", 1, 5, 6, "done"),
    ]

    assert pairs(sent, works) == []
