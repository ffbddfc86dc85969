"""The oracle over recorded events: each broken promise is found, with its messages."""

import pytest

from lanes.config import LanesConfig
from simulator.oracle import Sent, Work, recorded_findings

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
