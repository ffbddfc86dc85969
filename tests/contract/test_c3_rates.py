"""
C3: a rate of a kind (`max_rates`) is taken at the start by the most urgent record of that kind that waits.

It never changes the order of lanes, is used, is never exceeded by more than a second's worth, and holds up no other
kind: in both engines, whatever the number of slots.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from random import Random

import pytest

from lanes.config import LanesConfig
from lanes.consumer.engines.looks import Looks
from lanes.consumer.handlers import Handlers
from lanes.consumer.interceptors.kind_rate import LATE, Times
from lanes.consumer.ledger import Entry
from lanes.testing.clock import FakeClock
from simulator.history import KIND
from simulator.oracle import violations
from simulator.simulated_lanes import SimulatedLanes
from tests.support.memory import World, aws_error, consumer_of, record_with

MAIL = "mail"


@pytest.fixture(params=["mappings", "pull"])
def engine(request):
    """Give each engine: with ten slots mappings serve in place."""
    return request.param


class Mails(SimulatedLanes):
    """Lanes in virtual time with two kinds; messages of a group that begins with `mail` are of the kind with a rate."""

    def __init__(self, engine, *, slots=1, rates=None, seed=1, **root):
        consumer = {**consumer_of(engine), "reserved_concurrency": slots, "max_rates": rates or {}}
        super().__init__(LanesConfig.from_dict({"consumer": consumer, **root}), seed=seed)
        write = self._bodies.write

        def written(**fields):
            body = write(**fields)
            return body.replace(f'"type":"{KIND}"', f'"type":"{MAIL}"') if self.is_mail else body

        self.is_mail = False
        self._bodies = type("Bodies", (), {"write": staticmethod(written)})()

    def send(self, lane, *, group, seconds=0.05, **more):
        """Send a message of the kind that the group's name says."""
        self.is_mail = group.startswith(MAIL)
        super().send(lane, group=group, seconds=seconds, **more)

    def _consumer(self):
        consumer = super()._consumer()

        @consumer.handler(MAIL)
        def mail(message, context):
            self._work(context.lane, message.data, group=message.group, attempt=context.attempt)

        return consumer

    def later(self, seconds, lane, count, *, name=MAIL, work=0.05):
        """Send so many messages, each of a group of its own, some seconds from now."""

        def send():
            for number in range(count):
                self.send(lane, group=f"{name}-{lane}-{seconds}-{number}", seconds=work)

        self.scheduler.after(seconds, send)

    def starts(self, name=MAIL):
        """Return lane and time of each start of a group's messages, in their order."""
        found = [
            (one.started_at - self._began_at, one.lane) for one in self.handled if one.group.startswith(name)
        ]
        return sorted(found)


def most_in(starts, span):
    """Return the most starts within a span of seconds."""
    times = [at for at, _ in starts]
    return max(sum(1 for at in times if begin <= at < begin + span) for begin in times)


@pytest.mark.parametrize("slots", [1, 3, pytest.param(10, marks=pytest.mark.deep)])
@pytest.mark.parametrize(
    "rate",
    [
        6,
        pytest.param(20, marks=pytest.mark.deep),
        *(pytest.param(one, marks=pytest.mark.nightly) for one in (3, 10)),
    ],
)
def test_a_rate_does_not_change_the_order_of_lanes(engine, slots, rate):
    """Twenty wait in MAIN, eight come to HIGH twelve seconds later: they have the next times of the rate."""
    lanes = Mails(engine, slots=slots, rates={MAIL: f"{rate}/min"})
    lanes.later(0.0, "MAIN", 20)
    lanes.later(12.0, "HIGH", 8)

    assert lanes.settle(within=40 * 60 / rate)

    starts = lanes.starts()
    high = [at for at, lane in starts if lane == "HIGH"]
    between = [at for at, lane in starts if lane == "MAIN" and 12.0 + 1 < at < high[-1]]
    assert between == []
    assert most_in(starts, 60.0) <= rate + 1 + LATE * rate / 60
    assert (len(starts) - 1) / (starts[-1][0] - starts[0][0]) >= 0.95 * rate / 60
    assert violations(lanes) == []


@pytest.mark.parametrize("slots", [3, *(pytest.param(one, marks=pytest.mark.deep) for one in (1, 10))])
@pytest.mark.parametrize("rate", [2.0, *(pytest.param(one, marks=pytest.mark.nightly) for one in (0.5, 5.0))])
def test_other_kinds_are_as_without_the_rate(engine, slots, rate):
    """Six hundred of a kind with a rate wait; others of the same lane, above and below are not held up."""
    waits = {}
    for rates in ({MAIL: rate}, {}):
        lanes = Mails(engine, slots=slots, rates=rates)
        if rates:
            lanes.later(0.0, "MAIN", 300)
            lanes.later(0.0, "MEDIUM", 300)
        for second in range(1, 60):
            for lane in ("HIGH", "MEDIUM", "MAIN"):
                lanes.later(second + 0.3, lane, 1, name="other", work=0.1)
        lanes.run(seconds=120)
        others = [one for one in lanes.handled if one.group.startswith("other")]
        if engine == "mappings" and slots == 1:
            others = [one for one in others if one.lane == "HIGH"]
        waits[bool(rates)] = sorted(one.started_at - one.sent_at for one in others)
        if rates:
            starts = lanes.starts()
            # The batches of what returns and the others' work fill the one slot of the mapped engine.
            used = 0.95 if engine == "pull" or slots > 1 else 0.7
            assert len(starts) >= min(used * rate * 115, 590)
            assert most_in(starts, 10.0) <= 10 * rate + 1 + LATE * rate
        assert violations(lanes) == []

    # At first each of the six hundred is received once: ten seconds of one slot.
    assert len(waits[True]) == len(waits[False])
    for share, more in ((0.5, 1.0), (0.95, 12.0)):
        place = int(share * len(waits[True]))
        assert waits[True][place] <= waits[False][place] + more


def test_a_slot_does_not_stay_for_a_rate_while_no_lane_answers(monkeypatch):
    """It would ask none, let no time pass, and begin anew at once."""
    lanes, polls, poll = Mails("pull", rates={MAIL: "6/min"}), Counter(), Looks.poll

    def counted(looks, asked):
        polls[lanes.scheduler.now] += 1
        assert polls[lanes.scheduler.now] < 100, "no time passes"
        return poll(looks, asked)

    monkeypatch.setattr(Looks, "poll", counted)
    lanes.later(0.0, "MAIN", 3)
    lanes.calls.break_if = lambda operation, _: (
        aws_error()
        if operation == "ReceiveMessage" and 3 < lanes.scheduler.now - lanes._began_at < 40
        else None
    )

    assert lanes.settle(within=120)
    assert max(polls.values()) < 10


@pytest.mark.parametrize(
    "seed",
    [pytest.param(seed, marks=pytest.mark.deep if seed < 2 else pytest.mark.nightly) for seed in range(6)],
)
def test_random_rates_lanes_and_slots_keep_the_rate_and_the_order(engine, seed):
    """In each span the rate, and no lower start while a higher one of the kind has waited for a while."""
    chance = Random(seed)
    rate, slots = chance.choice([4, 12, 30, 90]), chance.choice([1, 2, 3, 6, 10])
    lanes = Mails(engine, slots=slots, rates={MAIL: f"{rate}/min"}, seed=seed)
    count = 0
    while count < 60:
        lane, burst = chance.choice(["HIGH", "MEDIUM", "MAIN"]), chance.choice([1, 1, 3, 8])
        lanes.later(chance.uniform(0, 30 * 60 / rate), lane, burst)
        count += burst

    assert lanes.run(seconds=30 * 60 / rate + 3 * count * 60 / rate, until=lambda: lanes.done >= count)

    starts = lanes.starts()
    assert most_in(starts, 60.0) <= rate + 1 + LATE * rate / 60
    waiting = [
        (one.sent_at - lanes._began_at, one.started_at - lanes._began_at, one.lane) for one in lanes.handled
    ]
    order = ["HIGH", "MEDIUM", "MAIN"]
    for (at, lane), (sent, started, other) in itertools.product(starts, waiting):
        if order.index(other) < order.index(lane):
            assert not sent + 2 < at < started, "it started while one above waited"


def test_a_slot_does_not_wait_for_a_record_at_the_time_at_which_it_comes_back():
    """Nothing would be left to wait for, and under a clock that only waits move the slot would never end."""
    world = World({"consumer": {"max_rates": {"work": 1}}}, engine="pull")
    runtime = world.runtime(world.recorder, Random(1))
    slots = runtime.build_engine(Handlers())._services
    rates = slots.next_rated.__self__
    lane = world.config.last_lane
    entry = Entry(lane=lane.name, message_id="m", first_received_at=world.clock.now)

    assert rates.start(lane, record_with(), entry, "work", joins=False) is None
    early = rates.start(lane, record_with(), entry, "work", joins=False)
    comes_back = slots.next_rated()
    assert comes_back == world.clock.now + early.delay + LATE
    world.clock.advance_to(comes_back)

    assert slots.next_rated() == math.inf


def test_a_clock_that_was_ahead_costs_no_more_than_a_pause():
    """Whatever it wrote."""
    lane = LanesConfig().last_lane
    ahead = Times(FakeClock().now + 3600, {0: FakeClock().now + 3600})

    assert ahead.wait(lane, now=FakeClock().now, pause=10.0) <= 10.0 + 2 * LATE
    assert Times.parse(ahead.text) == ahead
