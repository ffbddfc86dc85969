"""What is known of lanes, and what is said where it is not."""

import dataclasses
from datetime import timedelta

import pytest

from lanes.config import LanesConfig
from lanes.consumer.ledger import Blocking, Ending, Entry, Park
from lanes.depth import LaneDepth
from lanes.errors import AwsError
from lanes.operate.figures import UNKNOWN, DepthTrend, Drain, Growth, LaneFigures, drain_of
from lanes.operate.pause import LaneMapping
from lanes.operate.status import StatusReader
from lanes.outbox.store import OutboxStatus

MAPPING = LaneMapping(
    uuid="u", state="Enabled", function_arn="f", batch_size=10, maximum_concurrency=2, reports_failures=True
)


@pytest.mark.parametrize(
    ("depth", "growth", "expected"),
    [
        (0, None, (Drain.EMPTY, timedelta(0))),
        (60, Growth(per_minute=-20.0, over=60), (Drain.FALLING, timedelta(minutes=3))),
        (60, Growth(per_minute=20.0, over=60), (Drain.GROWING, None)),
        (60, Growth(per_minute=0.0, over=60), (Drain.STEADY, None)),
        # CloudWatch's depth is a mean of a minute: half a message is no change.
        (60, Growth(per_minute=0.3, over=100), (Drain.STEADY, None)),
        (60, None, (Drain.NOT_YET, None)),
    ],
)
def test_the_trend_is_that_of_the_depth(depth, growth, expected):
    """Rates of minutes that are over say nothing of now."""
    assert drain_of(depth, growth) == expected


def test_a_paused_lane_is_paused_and_not_growing():
    """It waits for you; an empty one has nothing to wait with."""
    grows = Growth(per_minute=9.0, over=60)
    assert drain_of(60, grows, is_paused=True) == (Drain.PAUSED, None)
    assert drain_of(0, None, is_paused=True) == (Drain.EMPTY, timedelta(0))


def test_a_trend_is_known_after_ten_seconds_and_forgets_after_a_minute():
    """Each lane has its own."""
    now = [100.0]
    trend = DepthTrend(clock=lambda: now[0])

    def seen(at, depth):
        now[0] = at
        growth = trend.growth("MAIN", depth)
        return None if growth is None else growth.per_minute

    assert [seen(100, 500), seen(105, 400), seen(110, 480)] == [None, None, -120.0]
    assert trend.growth("HIGH", 7) is None
    # The readings of the first minute are forgotten.
    assert seen(170, 480) == 0.0
    # As after a pause of the page.
    assert seen(400, 90) is None


def test_a_clock_that_is_set_back_forgets_the_readings_after_it():
    """A reading of the future would turn the trend round."""
    now = [100.0]
    trend = DepthTrend(clock=lambda: now[0])
    trend.growth("MAIN", 500)
    now[0] = 50.0

    assert trend.growth("MAIN", 400) is None


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

    def blocking(self, lane):
        self._allowed("blocking")
        return [BLOCKING] if lane == "MAIN" else []

    def bell(self):
        self._allowed("bell")
        return self._depth

    def of_bell(self):
        return self.of_lane("bell")

    def read(self):
        self._allowed("figures")
        return self._figures


BLOCKING = Entry(
    lane="MAIN",
    message_id="m",
    attempts=7,
    ending=Ending.CRASHED,
    blocking=Blocking(group="acme", kind="payment", id="p-1", since=1_000.0),
    park=Park.REST,
    parked_until=2_000.0,
)
BLOCKS = LanesConfig.from_dict({"consumer": {"on_exhausted": {"payment": "block"}}})
PULL = LanesConfig.from_dict({"consumer": {"engine": "pull"}})


def status_of(known, config=None, trend=None, **reads):
    parts = {"config": config or LanesConfig(), "trend": trend or DepthTrend()} | reads
    return StatusReader(depths=known, mappings=known, figures=known.read, **parts).read()


def test_a_status_puts_together_what_is_known():
    """Highest lane first; dead letters that someone looks at count too."""
    figures = LaneFigures(oldest_age=timedelta(seconds=9), pace=14.0, leaving=14.0, arrivals=7.0, yields=1.0)

    status = status_of(Known(figures={"MAIN": figures}))

    assert [lane.lane for lane in status.lanes] == ["HIGH", "MEDIUM", "MAIN"]
    main = status.lanes[2]
    assert (main.waiting, main.in_flight, main.parked, main.dead_letters) == (5, 2, 1, 4)
    assert (main.figures, main.mapping, main.drain) == (figures, "Enabled", Drain.NOT_YET)
    assert status.lanes[0].figures == UNKNOWN
    assert status.notes == []


def test_blocked_groups_are_listed_where_a_kind_may_block():
    """With the message, its error and the next try; without the setting no call is made."""
    status = status_of(Known(), BLOCKS)
    assert [len(lane.blocked) for lane in status.lanes] == [0, 0, 1]
    (blocked,) = status.lanes[2].blocked
    assert (blocked.group, blocked.kind, blocked.id, blocked.attempts) == ("acme", "payment", "p-1", 7)
    assert (blocked.since, blocked.next_at) == (1_000.0, 2_000.0)
    assert "process crashed" in blocked.error

    assert [list(lane.blocked) for lane in status_of(Known(denied=("blocking",))).lanes] == [[], [], []]
    denied = status_of(Known(denied=("blocking",)), BLOCKS)
    assert [lane.blocked for lane in denied.lanes] == [None] * 3
    assert any("blocked groups unknown" in note for note in denied.notes)


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


def test_what_stands_still_is_a_symptom_with_its_page():
    """A mapping that is switched off, and an outbox that does not send."""
    trend = DepthTrend(lambda: 1_000.0)
    waiting = OutboxStatus(counts={}, lanes={"HIGH": 3, "MAIN": 1}, oldest_at=400.0, is_complete=False)
    known = Known(mapping=dataclasses.replace(MAPPING, state="Disabled"))

    found = status_of(known, config=BLOCKS, trend=trend, outbox=lambda: waiting).symptoms

    assert [(one.page, one.lane) for one in found] == [
        *(("oldest-age", lane) for lane in ("HIGH", "MEDIUM", "MAIN")),
        ("outbox-oldest-age", ""),
        ("blocked", "MAIN"),
        *(("dead-letters", lane) for lane in ("HIGH", "MEDIUM", "MAIN")),
    ]
    assert [one.text for one in found[2:6]] == [
        "MAIN is not received: its mapping is Disabled; 7 messages in it",
        "the oldest entry of the outbox has waited 10 min; at least 3 of HIGH, 1 of MAIN wait",
        (
            "1 group of MAIN blocked: acme waits behind payment p-1, which fails again and again (the attempt ended "
            "without an answer: its process crashed or ran out of time)"
        ),
        "HIGH has 4 dead letters",
    ]


@pytest.mark.parametrize(("state", "pages"), [("Disabled", {"heartbeat"}), ("Enabled", set())])
def test_a_bell_that_stands_still_stops_all_lanes(state, pages):
    """One symptom for all; one that sends at once has none, nor has an outbox with fresh entries."""
    known = Known(mapping=dataclasses.replace(MAPPING, state=state))
    fresh = OutboxStatus(counts={}, oldest_at=990.0)

    status = status_of(known, config=PULL, trend=DepthTrend(lambda: 1_000.0), outbox=lambda: fresh)

    assert {one.page for one in status.symptoms} == {"dead-letters"} | pages


def test_a_lane_without_its_queue_is_named_and_the_others_are_shown():
    """Whatever else is wrong with it; a queue that may not be read ends the reading as before."""
    known = Known()

    def depth(lane):
        if lane == "MEDIUM":
            raise AwsError(
                operation="GetQueueAttributes",
                code="AWS.SimpleQueueService.NonExistentQueue",
                retryable=False,
            )
        return LaneDepth(backlog=5, in_flight=2)

    known.depth = depth

    status = status_of(known)

    assert [lane.waiting for lane in status.lanes] == [5, 0, 5]
    assert (status.symptoms[0].page, status.symptoms[0].text) == (
        "call-errors",
        "MEDIUM is away: its queue does not exist",
    )
