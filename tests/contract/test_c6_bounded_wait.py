"""C6: strict priority by default; with `max_wait` a small reserve for what has waited longer."""

from functools import partial

import pytest

from lanes.config import LanesConfig
from lanes.consumer.ledger import Park
from lanes.mapping.rules import ThrottleBackoff
from lanes.testing.fifo.message import GroupOrder
from simulator.oracle import violations
from simulator.parameters import Unknowns
from simulator.simulated_lanes import Pattern, SimulatedLanes
from tests.support.scenario import Scenario

WORK = 0.2


class Flood:
    """One slot under more HIGH traffic than it can bear, with a backlog of MAIN behind it."""

    def __init__(self, *, seconds, seed=1, main=400, work=WORK, **raw):
        max_wait = raw.pop("max_wait", None)
        lanes = [{"name": "HIGH", "threshold": 50}, {"name": "MAIN"}]
        if max_wait is not None:
            lanes[1]["max_wait"] = max_wait
        self.work = work
        config = LanesConfig.from_dict({"lanes": lanes, "consumer": {"engine": "mappings", **raw}})
        self.lanes = SimulatedLanes(config, unknowns=Unknowns(backoff=ThrottleBackoff()), seed=seed)
        began = self.lanes.scheduler.now
        for number in range(main):
            self.lanes.send("MAIN", group=f"m{number}", seconds=work)
        self._flood()
        self.lanes.run(seconds=seconds)
        handled = list(self.lanes.handled)
        self.spent = {lane: work * sum(one.lane == lane for one in handled) for lane in ("HIGH", "MAIN")}
        self.first_main = min((one.started_at - began for one in handled if one.lane == "MAIN"), default=None)

    @property
    def share(self):
        """Share of all handlers' time that MAIN had."""
        return self.spent["MAIN"] / sum(self.spent.values())

    def _flood(self):
        while self.lanes.queues.live["HIGH"].counts().visible < 40:
            self.lanes.send("HIGH", group=f"h{self.lanes.sent}", seconds=self.work)
        self.lanes.scheduler.after(1, self._flood)


def test_strict_priority_serves_nothing_below_an_endless_flood():
    """It is called strict: the lower lane starves, by choice."""
    flood = Flood(seconds=400)

    assert flood.spent["MAIN"] == 0
    assert flood.spent["HIGH"] > 300


@pytest.mark.parametrize("seed", [1, 2])
def test_with_max_wait_the_flood_lets_overdue_messages_through(seed):
    """Once they have waited so long, and never more than the share of the reserve."""
    flood = Flood(seconds=600, seed=seed, max_wait=60)

    assert 60 <= flood.first_main <= 120
    assert 0.01 <= flood.share <= 0.055


@pytest.mark.parametrize("reserve", [0.1, 0.5])
def test_the_share_is_that_of_the_configuration(reserve):
    """An upper bound, of the capacity used."""
    flood = Flood(seconds=600, max_wait=30, reserve=reserve)

    assert 0.01 <= flood.share <= reserve * 1.15


@pytest.mark.parametrize(("work", "seconds"), [(0.02, 120), (5.0, 3000)])
def test_the_share_holds_for_short_and_for_long_records(work, seconds):
    """A long one overdraws the account, which is paid back before the next; no flood is without a gap of a recheck."""
    flood = Flood(seconds=seconds, max_wait=30, work=work, main=1000)

    assert 0 < flood.spent["MAIN"] <= 0.05 * seconds + work + 0.25


def test_nothing_overdue_nothing_served():
    """The reserve acts only where there is such a wait."""
    flood = Flood(seconds=300, max_wait=3600)

    assert flood.spent["MAIN"] == 0


def test_a_reserve_of_nothing_is_strict():
    """As if there were no `max_wait`."""
    flood = Flood(seconds=300, max_wait=10, reserve=0)

    assert flood.spent["MAIN"] == 0


def test_an_overdue_message_keeps_its_priority_and_its_lane():
    """It is served from its own lane, and what it sends inherits what it had."""
    scenario = Scenario({"lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "max_wait": 60}]})
    scenario.send("MAIN", "overdue")
    scenario.warm_up()
    scenario.world.clock.advance(120)
    scenario.send("HIGH", "high")
    scenario.world.receive("HIGH")

    scenario.step("MAIN")

    assert scenario.done == ["overdue"]
    assert scenario.starts[0].lane == "MAIN"
    assert scenario.world.recorder.named("message_handled")[0]["priority"] is None
    assert scenario.world.recorder.counts["ReserveMessages"] == 1


def test_what_fails_from_the_reserve_is_noted_as_waiting():
    """Though it was known beforehand that a higher lane waits: only a batch that makes way as a whole needs no note."""
    scenario = Scenario({"lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "max_wait": 60}]})
    overdue = scenario.send("MAIN", "overdue", "fail", group="a")
    scenario.warm_up()
    scenario.world.clock.advance(120)
    scenario.send("HIGH", "high")
    scenario.world.receive("HIGH")
    scenario.send("MAIN", "young", group="b")
    first, second = scenario.world.receive("MAIN", 1), scenario.world.receive("MAIN", 1)
    scenario.invoke("MAIN", second)

    scenario.invoke("MAIN", first)

    assert [start.id for start in scenario.starts] == ["overdue"]
    assert scenario.world.ledger.entries["MAIN", overdue].park is Park.REST


def test_what_is_saved_up_is_bounded():
    """An hour of quiet doesn't let an hour's share through at once."""
    scenario = Scenario({"lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "max_wait": 60}]})
    for number in range(100):
        scenario.send("MAIN", f"m{number}", group=f"g{number}")
    scenario.warm_up()
    scenario.world.clock.advance(3600)
    scenario.send("HIGH", "high")
    scenario.world.receive("HIGH")
    scenario.takes = 1.0

    while (ready := scenario.world.receive("MAIN")) and len(scenario.starts) < 50:
        scenario.invoke("MAIN", ready)

    assert len(scenario.starts) <= 0.05 * 60 + 2


MAX_WAIT, GRACE = 30.0, 5.0


def flooded(
    slots,
    *,
    max_wait=MAX_WAIT,
    main_every=8.0,
    work=WORK,
    groups=1000,
    faults=("",),
    span=240.0,
    unknowns=None,
    **consumer,
):
    """Run slots of the pull engine under more HIGH than they can bear, with a few messages of MAIN, and a while on."""
    main = {"name": "MAIN"} | ({"max_wait": max_wait} if max_wait else {})
    raw = {
        "consumer": {"engine": "pull", "reserved_concurrency": slots, **consumer},
        "lanes": [{"name": "HIGH", "threshold": 50}, main],
    }
    lanes = SimulatedLanes(LanesConfig.from_dict(raw), pattern=Pattern.PULL, unknowns=unknowns)
    for number in range(int(span * slots * 1.2 / work)):
        at = number * work / slots / 1.2
        lanes.scheduler.after(at, partial(lanes.send, "HIGH", group=f"h{number}", seconds=work))
    for number in range(int(span * slots / main_every)):
        fault = faults[number % len(faults)]
        send = partial(lanes.send, "MAIN", group=f"m{number % groups}", seconds=work, fault=fault)
        lanes.scheduler.after(number * main_every / slots, send)
    lanes.run(seconds=span)
    return lanes


def main_of(lanes):
    """Return the handled messages of MAIN."""
    return [one for one in lanes.handled if one.lane == "MAIN"]


@pytest.mark.parametrize("slots", [1, 3, pytest.param(10, marks=pytest.mark.nightly)])
def test_overdue_messages_start_within_five_seconds_of_their_longest_wait(slots):
    """As far as the reserve of a twentieth reaches; these need half of it."""
    lanes = flooded(slots)

    waits = [one.started_at - one.sent_at for one in main_of(lanes)]
    assert len(waits) >= 0.8 * (240 - MAX_WAIT - GRACE) * slots / 8
    assert max(waits) <= MAX_WAIT + GRACE
    assert violations(lanes) == []


def test_overdue_messages_start_in_time_where_returned_groups_go_to_the_back():
    """Each invocation receives the youngest first; at one slot nothing is lost by receiving all."""
    lanes = flooded(1, max_wait=90.0, main_every=5.0, unknowns=Unknowns(group_order=GroupOrder.BACK))

    assert max(one.started_at - one.sent_at for one in main_of(lanes)) <= 90.0 + GRACE
    assert violations(lanes) == []


@pytest.mark.parametrize("slots", [1, pytest.param(3, marks=pytest.mark.deep)])
def test_overdue_messages_start_in_time_behind_others_of_their_groups(slots):
    """A receive brings a whole group; those of it that are not overdue hold up no other group."""
    lanes = flooded(slots, main_every=1.5, work=0.03, groups=10, span=90.0)

    assert max(one.started_at - one.sent_at for one in main_of(lanes)) <= MAX_WAIT + GRACE
    assert violations(lanes) == []


@pytest.mark.parametrize("slots", [1, 2])
def test_groups_keep_their_order_behind_an_overdue_message_that_fails(slots):
    """Those in hand behind it return with it, also while records wait for a rate."""
    faults = ("once", "", "", "check", "", "once", "")
    lanes = flooded(
        slots,
        main_every=1.0,
        work=0.05,
        groups=5,
        faults=faults,
        span=150.0,
        reserve=0.2,
        max_rate=15 * slots,
    )

    assert len(main_of(lanes)) > 50 * slots
    assert violations(lanes) == []


def share_under_a_flood(slots, *, high_groups, work=WORK, span=300.0, **consumer):
    """Return MAIN's share of the slot time that a flood of HIGH in so many groups could use."""
    main = {"name": "MAIN", "max_wait": MAX_WAIT}
    raw = {
        "consumer": {"engine": "pull", "reserved_concurrency": slots, **consumer},
        "lanes": [{"name": "HIGH", "threshold": 50}, main],
    }
    lanes = SimulatedLanes(LanesConfig.from_dict(raw), pattern=Pattern.PULL)
    for number in range(int(span * slots / work)):
        lanes.send("HIGH", group=f"h{number % high_groups}", seconds=work)
        lanes.send("MAIN", group=f"m{number % (10 * slots)}", seconds=work)
    lanes.run(seconds=span)
    assert violations(lanes) == []
    share = sum(one.finished_at - one.started_at for one in main_of(lanes)) / (slots * span)
    # Each group occupies one slot at a time.
    return share - max(0, slots - high_groups) / slots


@pytest.mark.parametrize("slots", [1, pytest.param(3, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("high_groups", [1, 2, 5, 30])
def test_the_reserve_is_charged_while_higher_records_are_in_hand(slots, high_groups):
    """The queue shows none of them then: their groups are locked by the slot itself."""
    assert 0.03 <= share_under_a_flood(slots, high_groups=high_groups) <= 0.06


@pytest.mark.parametrize("work", [0.02, pytest.param(1.5, marks=pytest.mark.deep)])
def test_the_reserve_is_charged_for_short_and_long_records_beside_one_group(work):
    """A batch that is overdue ends with the account."""
    assert 0.03 <= share_under_a_flood(1, high_groups=1, work=work, span=150.0) <= 0.06


@pytest.mark.parametrize(
    ("max_rate", "share", "settings"),
    [
        (2, 0.05, {"max_rate": 2}),
        pytest.param(10, 0.1, {"max_rate": 10}, marks=pytest.mark.deep),
        pytest.param(10, 0.1, {"max_rates": {"work": 10}}, marks=pytest.mark.deep),
    ],
)
def test_records_from_the_reserve_keep_the_rate(max_rate, share, settings):
    """They take a part of it: the time that they wait for it is charged as well."""
    lanes = flooded(1, max_wait=20.0, main_every=0.2, work=0.01, span=120.0, reserve=share, **settings)

    starts = sorted(one.started_at for one in lanes.handled)
    spans = [later - earlier for earlier, later in zip(starts, starts[max_rate * 10 :], strict=False)]
    assert min(spans) > 9.8
    assert len(starts) <= 120 * max_rate + 1
    assert 0.5 * share <= len(main_of(lanes)) / len(starts) <= 1.2 * share


@pytest.mark.parametrize("reserve", [pytest.param(0.05, marks=pytest.mark.deep), 0.2])
def test_the_reserve_of_slots_is_no_more_than_its_share(reserve):
    """However many messages are overdue."""
    lanes = flooded(3, reserve=reserve, main_every=0.3)

    overdue = sum(one.finished_at - one.started_at for one in main_of(lanes))
    assert 0.7 * reserve <= overdue / (240 * 3 - 3 * MAX_WAIT) <= 1.2 * reserve


def test_slots_are_strict_without_a_longest_wait():
    """The lower lane starves, by choice; only before the flood has built up is it served."""
    lanes = flooded(3, max_wait=None)

    assert all(one.started_at - lanes.handled[0].started_at < 15 for one in main_of(lanes))
    assert len(main_of(lanes)) < 5
