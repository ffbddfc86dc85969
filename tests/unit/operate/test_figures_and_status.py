"""What is known of lanes, and what is said where it is not."""

import dataclasses
from datetime import timedelta

import pytest

from lanes.config import LanesConfig
from lanes.depth import LaneDepth
from lanes.errors import AwsError
from lanes.operate.lanes.figures import UNKNOWN, DepthTrend, Drain, LaneFigures, drain_of
from lanes.operate.lanes.mappings import LaneMapping
from lanes.operate.lanes.status import StatusReader

MAPPING = LaneMapping(
    uuid="u", state="Enabled", function_arn="f", batch_size=10, maximum_concurrency=2, reports_failures=True
)


@pytest.mark.parametrize(
    ("depth", "leaving", "arrivals", "expected"),
    [
        (0, None, None, (Drain.EMPTY, timedelta(0))),
        (60, 30.0, 10.0, (Drain.FALLING, timedelta(minutes=3))),
        (60, 10.0, 30.0, (Drain.GROWING, None)),
        (60, 30.0, 30.0, (Drain.STEADY, None)),
        (60, 0.0, 0.0, (Drain.STEADY, None)),
        (60, None, 1.0, (Drain.UNKNOWN, None)),
    ],
)
def test_time_to_drain_counts_what_arrives_too(depth, leaving, arrivals, expected):
    """A lane into which as much is sent as leaves it never ends by itself."""
    assert drain_of(depth, LaneFigures(leaving=leaving, arrivals=arrivals)) == expected


def test_own_counts_go_before_those_of_cloudwatch():
    """A burst that drains still grows for CloudWatch, which averages the minutes in which it came."""
    late = LaneFigures(leaving=100.0, arrivals=300.0)

    assert drain_of(60, late, growth=-30.0) == (Drain.FALLING, timedelta(minutes=2))
    assert drain_of(60, late, growth=0.0) == (Drain.STEADY, None)
    assert drain_of(60, LaneFigures(), growth=6.0) == (Drain.GROWING, None)


def test_a_paused_lane_is_paused_and_not_growing():
    """It waits for you; an empty one has nothing to wait with."""
    assert drain_of(60, LaneFigures(leaving=0.0, arrivals=9.0), is_paused=True) == (Drain.PAUSED, None)
    assert drain_of(0, LaneFigures(), is_paused=True) == (Drain.EMPTY, timedelta(0))


def test_a_trend_is_known_after_ten_seconds_and_forgets_after_a_minute():
    """Each lane has its own."""
    now = [100.0]
    trend = DepthTrend(clock=lambda: now[0])

    def seen(at, depth):
        now[0] = at
        return trend.growth("MAIN", depth)

    assert [seen(100, 500), seen(105, 400), seen(110, 480)] == [None, None, -120.0]
    assert trend.growth("HIGH", 7) is None
    # The readings of the first minute are forgotten.
    assert seen(170, 480) == 0.0
    # As after a pause of the page.
    assert seen(400, 90) is None


def test_a_status_read_again_counts_by_itself():
    """While CloudWatch says that the lane grows."""
    now = [0.0]
    trend = DepthTrend(clock=lambda: now[0])
    grows = {"MAIN": LaneFigures(leaving=10.0, arrivals=40.0)}

    first = status_of(Known(figures=grows), trend=trend).lanes[2]
    now[0] = 30.0
    second = status_of(Known(depth=LaneDepth(backlog=1, in_flight=2), figures=grows), trend=trend).lanes[2]

    assert (first.drain, second.drain) == (Drain.GROWING, Drain.FALLING)
    assert second.time_to_drain == timedelta(seconds=22.5)


def test_the_drain_of_a_paused_lane_is_paused():
    """In the pull engine its mapping, the bell's, is shown as disabled."""
    known = Known(mapping=dataclasses.replace(MAPPING, state="Disabled"))

    assert [lane.drain for lane in status_of(known).lanes] == [Drain.PAUSED] * 3


class Known:
    """Everything that a status reads; what is in `denied` may not be read."""

    def __init__(self, *, depth=None, figures=None, denied=(), mapping=MAPPING):
        self._mapping = mapping
        self._depth = depth or LaneDepth(backlog=5, in_flight=2)
        self._figures = figures or {}
        self._denied = denied

    def _allowed(self, name):
        if name in self._denied:
            raise AwsError(operation=name, code="AccessDenied", retryable=False)

    def depth(self, _lane):
        self._allowed("depth")
        return self._depth

    def dead_letters(self, lane):
        self._allowed(f"dead letters of {lane}")
        return LaneDepth(backlog=3, in_flight=1)

    def parked(self, _lane):
        self._allowed("parked")
        return 1

    def of_lane(self, _lane):
        self._allowed("mappings")
        return [self._mapping]

    def bell(self):
        self._allowed("bell")
        return self._depth

    def of_bell(self):
        return self.of_lane("bell")

    def read(self):
        self._allowed("figures")
        return self._figures


PULL = LanesConfig.from_dict({"consumer": {"engine": "pull"}})


def status_of(known, config=None, trend=None):
    config = config or LanesConfig()
    trend = trend or DepthTrend()
    return StatusReader(config=config, depths=known, mappings=known, figures=known, trend=trend).read()


def test_a_status_puts_together_what_is_known():
    """Highest lane first; dead letters that someone looks at count too."""
    figures = LaneFigures(oldest_age=timedelta(seconds=9), pace=14.0, leaving=14.0, arrivals=7.0, yields=1.0)

    status = status_of(Known(figures={"MAIN": figures}))

    assert [lane.lane for lane in status.lanes] == ["HIGH", "MEDIUM", "MAIN"]
    main = status.lanes[2]
    assert (main.waiting, main.in_flight, main.parked, main.dead_letters) == (5, 2, 1, 4)
    assert (main.figures, main.mapping, main.time_to_drain) == (figures, "Enabled", timedelta(minutes=1))
    assert status.lanes[0].figures == UNKNOWN
    assert status.notes == []


@pytest.mark.parametrize(
    ("known", "line"),
    [
        (Known(), "engine pull; bell Enabled, 5 rings waiting, 2 in flight"),
        (
            Known(depth=LaneDepth(backlog=0, in_flight=1)),
            "engine pull; bell Enabled, 0 rings waiting, 1 in flight",
        ),
        (
            Known(depth=LaneDepth(backlog=0, in_flight=0)),
            "engine pull; bell Enabled, empty, without a heartbeat",
        ),
        (Known(denied=("bell", "mappings")), "engine pull; bell unknown, rings unknown"),
    ],
)
def test_the_engine_and_its_bell_are_one_line(known, line):
    """An empty bell has lost its heartbeat: one is always in its queue."""
    assert status_of(known, PULL).engine_line == line


def test_the_mapped_engine_has_no_bell():
    """And none is looked for."""
    status = status_of(Known(denied=("bell",)))

    assert (status.engine_line, status.bell, status.notes) == ("engine mappings", None, [])


def test_what_may_not_be_read_is_unknown_and_said_once():
    """The counts are shown all the same."""
    status = status_of(Known(denied=("figures", "mappings", "parked")))

    assert status.lanes[0].waiting == 5
    assert (status.lanes[0].parked, status.lanes[0].mapping) == (None, None)
    assert len(status.notes) == 3
    assert all("AccessDenied" in note for note in status.notes)


def test_a_dead_letter_queue_that_is_gone_hides_nothing_else():
    """At night all other counts are needed most."""
    status = status_of(Known(denied=("dead letters of MEDIUM",)))

    assert [lane.dead_letters for lane in status.lanes] == [4, None, 4]
    (note,) = status.notes
    assert note.startswith("dead letters of MEDIUM unknown: ")


def test_counts_that_may_not_be_read_are_an_error():
    """There is nothing to show without them."""
    with pytest.raises(AwsError, match="AccessDenied"):
        status_of(Known(denied=("depth",)))


def test_an_empty_lane_has_no_oldest_message():
    """CloudWatch may still remember one."""
    known = Known(
        depth=LaneDepth(backlog=0, in_flight=0),
        figures={"HIGH": LaneFigures(oldest_age=timedelta(minutes=4))},
    )

    assert status_of(known).lanes[0].figures.oldest_age is None
