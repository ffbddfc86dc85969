"""
O4: the window of a lane.

The relay keeps at most `lane_window` messages waiting in a lane (off by default), so a large backlog stays where it
can be re-prioritised and cancelled.
"""

from lanes.depth import LaneDepth
from lanes.outbox.rules import lane_shares
from tests.support.outbox import CONFIG, Run


def test_a_lane_without_room_is_passed_over(bench):
    """The window of a lane keeps its entries in the store, in order."""
    bench.write("h1", "h2", "h3", priority=50)
    bench.write("m1")

    assert bench.ids(shares=lane_shares(CONFIG, {"HIGH": 2})) == ["h1", "h2", "m1"]
    assert bench.ids(shares=lane_shares(CONFIG, {"HIGH": -1})) == []
    assert bench.ids() == ["h3"]


def test_the_window_of_a_lane_keeps_the_rest_in_the_store(subject, clock):
    """Only as many leave as the lane has room for, the most urgent of them."""
    full = {"MEDIUM": 3}
    run = Run(
        subject,
        clock,
        depth_of=lambda lane: LaneDepth(backlog=full[lane], in_flight=0),
        lane_window={"MEDIUM": 5},
    )
    run.write("a", "b", "c")
    run.write("d", priority=10)

    run.relay.run_once()
    assert run.sent() == ["d", "a"]
    full["MEDIUM"] = 5
    assert run.relay.run_once().is_idle
    full["MEDIUM"] = 0
    run.relay.run_once()
    assert run.sent() == ["d", "a", "b", "c"]
