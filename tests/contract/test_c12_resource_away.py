"""C12: when the resource is away, nothing burns: no attempt, no dead letter, few tries, and the urgent ones first."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
from collections import Counter
from datetime import timedelta
from functools import partial
from itertools import pairwise
from random import Random

import pytest

from lanes import Consumer, DeadLetter, LanesConfig, Retry, Unavailable
from lanes.consumer.signals import Yielded
from lanes.errors import ConfigurationError
from lanes.metrics import Metric
from lanes.testing import InMemoryLanes, ProcessKilled
from lanes.testing.table import MemoryPauses
from simulator.oracle import violations
from simulator.simulated_lanes import Pattern, SimulatedLanes
from tests.support.memory import IN_PLACE, World, consumer_of

MINUTE = timedelta(minutes=1)
WORK = 0.1
AWAY_FROM, AWAY_UNTIL = 60, 1260


def simulated(engine, slots, *, messages=0):
    """Return lanes in virtual time, with messages in fifty groups of MAIN."""
    raw = {
        "consumer": {**consumer_of(engine), "reserved_concurrency": slots, "function_timeout": 60},
        "lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MAIN"}],
    }
    pattern = Pattern.PULL if engine == "pull" else Pattern.LANES
    lanes = SimulatedLanes(LanesConfig.from_dict(raw), pattern=pattern)
    for number in range(messages):
        lanes.send("MAIN", group=f"m{number % 50}", seconds=WORK)
    return lanes


class Bank:
    """A resource that answers, is away, or answers one of so many calls not."""

    def __init__(self, is_away):
        self.is_away, self.refused_at = is_away, []

    def __call__(self, seconds):
        if found := self.is_away(seconds):
            self.refused_at.append(seconds)
        return found

    @property
    def refused(self):
        return len(self.refused_at)


@pytest.mark.parametrize("slots", [1, pytest.param(3, marks=pytest.mark.deep)])
def test_an_outage_burns_nothing_and_ends_with_the_urgent_ones(engine, slots):
    """Twenty minutes away: one try a slot and pause, no attempt, groups in order, and HIGH first when it is back."""
    lanes = simulated(engine, slots, messages=slots * 1000)
    bank = lanes.away = Bank(lambda seconds: AWAY_FROM <= seconds < AWAY_UNTIL)
    for at in range(0, AWAY_UNTIL, 20):
        lanes.scheduler.after(at, partial(lanes.send, "HIGH", group=f"h{at}", seconds=WORK))
    began = lanes.scheduler.now

    assert lanes.settle(within=AWAY_UNTIL + 3600)

    counts = lanes.tally.counts
    assert (lanes.dead, counts[Metric.FAILED]) == (0, 0)
    assert not violations(lanes)
    # Pauses of 1, 2, 4, ... 60 s, and the three calls before the first one.
    assert bank.refused <= slots * (3 + 6 + (AWAY_UNTIL - AWAY_FROM) / 60 + 1)
    assert counts[Metric.UNAVAILABLE] == bank.refused
    if slots == 1:
        # Not one try more in a pause, by a record of another lane either.
        pauses = [later - earlier for earlier, later in pairwise(bank.refused_at[2:])]
        assert all(pause >= min(60, 2**number) for number, pause in enumerate(pauses))
    after = sorted(
        (one.started_at, one.lane) for one in lanes.handled if one.started_at - began >= AWAY_UNTIL
    )
    assert after[0][0] - began - AWAY_UNTIL <= 61
    assert [lane for _, lane in after[:10]] == ["HIGH"] * 10


@pytest.mark.parametrize("lasts", [2, 4, 6, 8, 12, 20])
def test_with_one_slot_urgent_messages_are_first_however_short_the_outage(engine, lasts):
    """While some of them have not said so, they have the tries that are for such messages."""
    lanes = simulated(engine, 1)
    for number in range(400):
        lanes.send("MAIN", group=f"m{number % 50}", seconds=0.01)
    began = lanes.scheduler.now
    lanes.away = lambda at: 1 <= at < 1 + lasts
    for number in range(16):
        urgent = partial(lanes.send, "HIGH", group=f"h{number}", seconds=0.01)
        lanes.scheduler.after(1, urgent)

    assert lanes.settle(within=600)

    after = sorted((one.started_at, one.lane) for one in lanes.handled if one.started_at - began >= 1 + lasts)
    assert [lane for _, lane in after[:16]] == ["HIGH"] * 16


@pytest.mark.parametrize("begins", [1, pytest.param(3, marks=pytest.mark.nightly), 9])
@pytest.mark.parametrize("arrives", [1.5, pytest.param(3, marks=pytest.mark.deep)])
def test_urgent_messages_that_were_tried_are_first_as_well(engine, begins, arrives):
    """They return when their pause has ended, not so long after the end of a batch that waited for the resource."""
    lanes = simulated(engine, 1)
    for number in range(1500):
        lanes.send("MAIN", group=f"m{number % 50}", seconds=0.01)
    began, back = lanes.scheduler.now, begins + 25
    lanes.away = lambda at: begins <= at < back
    for number in range(16):
        urgent = partial(lanes.send, "HIGH", group=f"h{number % 8}", seconds=0.01)
        lanes.scheduler.after(begins + arrives, urgent)

    assert lanes.settle(within=600)

    after = sorted((one.started_at, one.lane) for one in lanes.handled if one.started_at - began >= back)
    assert [lane for _, lane in after[:16]] == ["HIGH"] * 16


@pytest.mark.parametrize("engine", ["pull", IN_PLACE])
def test_slots_that_wait_hold_nothing(engine):
    """So the first of them that finds the resource back finds all that is urgent."""
    lanes = simulated(engine, 4, messages=100)
    for number in range(20):
        lanes.send("HIGH", group=f"h{number % 10}", seconds=WORK)
    lanes.away = lambda _seconds: True
    lanes.run(seconds=AWAY_FROM + 30)

    assert sum(queue.counts().not_visible for queue in lanes.queues.live.values()) == 0


@pytest.mark.parametrize("slots", [pytest.param(10, marks=pytest.mark.nightly), 4])
@pytest.mark.parametrize("engine", ["pull", IN_PLACE])
def test_with_several_slots_few_lower_records_start_before_the_last_urgent_one(engine, slots):
    """At most three a slot."""
    lanes, back = simulated(engine, slots, messages=slots * 200), 200
    lanes.away = lambda seconds: 5 <= seconds < back
    for at in range(0, back, 5):
        lanes.scheduler.after(at, partial(lanes.send, "HIGH", group=f"h{at}", seconds=WORK))
    began = lanes.scheduler.now

    assert lanes.settle(within=600)

    after = sorted((one.started_at, one.lane) for one in lanes.handled if one.started_at - began >= back)
    urgent = [place for place, (_, lane) in enumerate(after) if lane == "HIGH"]
    assert urgent[-1] + 1 - len(urgent) <= 3 * slots


def test_a_slot_receives_nothing_again_and_again_in_a_pause():
    """A record above, for which a batch is set aside, finds the resource away, and would be in hand again at once."""
    lanes = simulated("pull", 1)
    lanes.away = lambda seconds: seconds >= 1
    for number in range(30):
        lanes.send("MAIN", group=f"m{number}", seconds=WORK)
        lanes.scheduler.after(1, partial(lanes.send, "HIGH", group=f"h{number}", seconds=WORK))

    lanes.run(seconds=30)

    assert max(queue.most_received() for queue in lanes.queues.live.values()) <= 10


@pytest.mark.parametrize(
    ("engine", "slots"), [("mappings", 1), (IN_PLACE, 4), ("pull", 1), ("pull", 2), ("pull", 4)]
)
@pytest.mark.parametrize("after", [0.02, 0.5, 1, 1.5, 3])
def test_no_record_in_hand_makes_others_come_and_go_in_a_pause(engine, slots, after):
    """A slot with some of MAIN in hand looks at HIGH first, which returns at once."""
    lanes = simulated(engine, slots)
    lanes.away = lambda seconds: seconds < 15
    for number in range(40):
        lanes.send("MAIN", group=f"m{number % 10}", seconds=0.008)
    for number in range(16):
        lanes.scheduler.after(after, partial(lanes.send, "HIGH", group=f"h{number % 8}", seconds=0.008))

    lanes.run(seconds=14)

    assert max(queue.most_received() for queue in lanes.queues.live.values()) <= 10


@pytest.mark.parametrize("slots", [1, pytest.param(3, marks=pytest.mark.deep)])
def test_a_slot_that_receives_spends_few_receives_for_each_try(slots):
    """Two hours away: once a pause, and once more where it leaves the try to others, which is every fourth."""
    lanes = simulated("pull", slots, messages=500)
    for number in range(400):
        at = AWAY_FROM + number
        lanes.scheduler.after(at, partial(lanes.send, "HIGH", group=f"h{number % 20}", seconds=WORK))
    lanes.run(seconds=AWAY_FROM)
    lanes.away = lambda _seconds: True

    lanes.run(seconds=7200)

    assert slots * 7100 / 60 <= lanes.refused <= slots * (7200 / 60 + 10)
    assert max(queue.most_received() for queue in lanes.queues.live.values()) <= 1.25 * 7200 / 60 + 10


def test_no_slot_waits_for_the_resource_of_paused_lanes():
    """An operator who pauses them during a long outage pays for no slot."""
    world = World({"consumer": {"function_timeout": 600}}, engine="pull")
    pauses = MemoryPauses(world.calls)
    consumer = Consumer(dataclasses.replace(world.consumer._runtime, pauses=pauses))

    @consumer.handler("work", resource="bank")
    def refuse(_message):
        raise Unavailable(after=timedelta(minutes=15))

    for number in range(30):
        world.send("MAIN", group=f"g{number}")
    world.step("MAIN", consumer=consumer)
    for lane in world.config.lanes:
        pauses.pause(lane.name)
    began = world.clock.now

    world.step("MAIN", consumer=consumer)

    assert world.clock.now - began < 10


@pytest.mark.parametrize("slots", [1, pytest.param(3, marks=pytest.mark.deep)])
def test_calls_that_fail_now_and_then_cost_little(engine, slots):
    """One in ten refused: no dead letter, and at most a tenth more time than without."""
    ends = {}
    for share in (0.0, 0.1):
        lanes = simulated(engine, slots, messages=slots * 600)
        chance = Random(5)
        lanes.away = Bank(lambda _seconds, chance=chance, share=share: chance.random() < share)
        began = lanes.scheduler.now

        assert lanes.settle(within=3600)

        assert lanes.dead == 0
        ends[share] = max(one.finished_at for one in lanes.handled) - began

    assert ends[0.1] < 1.1 * ends[0.0] + 4


def test_a_resource_that_refuses_half_of_its_calls_dead_letters_nothing(engine):
    """It is the resource that is to blame, not the message that it refused often: hardly an attempt counts."""
    lanes = simulated(engine, 3, messages=400)
    chance = Random(5)
    bank = lanes.away = Bank(lambda _seconds: chance.random() < 0.5)

    assert lanes.settle(within=24 * 3600)

    assert lanes.dead == 0
    assert lanes.tally.counts[Metric.FAILED] <= 0.01 * bank.refused


@pytest.mark.parametrize(("slots", "lane"), [(1, "MAIN"), pytest.param(3, "HIGH", marks=pytest.mark.deep)])
def test_a_message_that_says_so_alone_burns_nothing_and_holds_up_nobody(engine, slots, lane):
    """Others of its resource are handled meanwhile, so it alone is tried more and more rarely, without an attempt."""
    ends = {}
    for fault in ("", "away"):
        lanes = simulated(engine, slots)
        lanes.send(lane, group="bad", seconds=WORK, fault=fault)
        for number in range(slots * 1000):
            lanes.send("MAIN", group=f"m{number % 50}", seconds=WORK)
        began = lanes.scheduler.now

        lanes.run(seconds=1800)

        assert (lanes.dead, lanes.tally.counts[Metric.FAILED]) == (0, 0)
        ends[fault] = max(one.finished_at for one in lanes.handled if one.group != "bad") - began
    assert lanes.done == slots * 1000
    assert 10 <= lanes.refused <= 30
    assert ends["away"] < 1.15 * ends[""]


@pytest.mark.parametrize("block", [False, True])
def test_a_message_that_is_away_alone_for_too_long_is_a_dead_letter(engine, block):
    """A day after others were handled, with its reason; one that blocks its group stays."""
    settings = {"on_exhausted": {"closed": "block"}} if block else {}
    desk = Desk(engine, resources={"closed": "bank", "pay": "bank"}, max_attempts=1, **settings)
    lanes = desk.lanes

    def refuse(_message):
        raise Unavailable(reason="no account")

    desk.instead["closed"] = refuse
    lanes.producer.send("closed", {})
    for number in range(60):
        lanes.producer.send("pay", {}, group=f"{number}")
        lanes.run_for(timedelta(minutes=30))
        if number == 40:
            assert not lanes.journal.dead_lettered

    assert desk.calls["pay"] == 60
    assert not lanes.journal.failed
    if block:
        assert not lanes.journal.dead_lettered
    else:
        lanes.assert_dead_lettered("closed", reason="unavailable")


def test_an_outage_longer_than_that_dead_letters_nothing(engine):
    """Thirty hours away, and since nothing was handled meanwhile, its time begins again with each try."""
    desk = Desk(engine, max_attempts=1)
    with desk.lanes.away():
        for number in range(5):
            desk.lanes.producer.send("pay", {}, group=str(number))
        desk.lanes.run_for(timedelta(hours=30), most_handlings=100_000)
    desk.lanes.run_until_idle()

    assert len(desk.lanes.journal.handled) == 5
    assert not desk.lanes.journal.dead_lettered


@pytest.mark.parametrize("slots", [1, pytest.param(3, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("part", ["4 urgent messages", "a fifth of the groups"])
def test_whatever_part_is_away_the_rest_goes_on(engine, slots, part):
    """For good: a few urgent messages before all others, or a fifth of the groups, the first that come."""
    lanes, is_fifth = simulated(engine, slots), part == "a fifth of the groups"
    for number in range(0 if is_fifth else 4):
        lanes.send("HIGH", group=f"bad{number}", seconds=WORK, fault="away")
    for number in range(slots * 1500):
        group = number % 100
        fault = "away" if is_fifth and group < 20 else ""
        send = partial(lanes.send, "MAIN", group=f"m{group}", seconds=WORK, fault=fault)
        # Half of what the slots can do.
        lanes.scheduler.after(5 + number * WORK * 2 / slots, send)

    lanes.run(seconds=320)

    assert lanes.done >= 0.9 * slots * (1200 if is_fifth else 1500)
    assert (lanes.dead, lanes.tally.counts[Metric.FAILED]) == (0, 0)
    assert not violations(lanes)


@pytest.mark.parametrize("after", [None, timedelta(minutes=2)])
def test_everybody_sees_for_how_long_it_has_been_away(engine, after):
    """Each minute, however long the pauses are: the alarm rests on that."""
    world = World({"consumer": {"function_timeout": 60}}, engine=engine)

    @world.consumer.handler("work", resource="bank")
    def refuse(_message):
        raise Unavailable(after=after)

    for number in range(20):
        world.send("MAIN", group=f"g{number}")
    began = world.clock.now
    while world.clock.now < began + 1200:
        world.step("MAIN")
        world.clock.advance(1)
    reported = world.recorder.durations[Metric.AWAY]

    assert len(reported) >= 10
    assert reported == sorted(reported)
    assert reported[-1] > 1_000_000


def test_everybody_sees_for_how_long_one_message_has_been_away_alone(engine):
    """Also while others are handled."""
    world = World({"consumer": {"function_timeout": 60}}, engine=engine)

    @world.consumer.handler("work", resource="bank")
    def refuse(message):
        if message.group == "closed":
            raise Unavailable

    world.send("MAIN", group="closed")
    began = world.clock.now
    while world.clock.now < began + 1800:
        world.send("MAIN", group="open")
        world.step("MAIN")
        world.clock.advance(10)
    reported = world.recorder.durations[Metric.AWAY]

    assert 3 <= len(reported) <= 30
    assert reported == sorted(reported)
    assert reported[-1] > 300_000


@pytest.mark.parametrize("few", [1, 3])
def test_a_few_messages_that_say_so_where_no_others_were_hold_up_none(engine, few):
    """They come first after each pause, being urgent, but one of the others that came since is tried as well."""
    lanes = simulated(engine, 1)
    for number in range(few):
        lanes.send("HIGH", group=f"bad{number}", seconds=WORK, fault="away")
    lanes.run(seconds=400)
    for number in range(50):
        lanes.send("MAIN", group=f"m{number % 5}", seconds=WORK)

    assert lanes.run(seconds=300, until=lambda: lanes.done == 50)


class Desk:
    """Lanes in memory with handlers that fail as told: `errors` by kind, one for each call, or code of a test."""

    def __init__(self, engine, *, unavailable=(), resources=None, **settings):
        self.errors: dict[str, list[BaseException | None]] = {}
        self.calls: Counter[str] = Counter()
        self.instead = {}
        consumer = Consumer(unavailable=unavailable)
        for kind, resource in (resources or {"pay": ""}).items():
            consumer.handler(kind, resource=resource)(partial(self.work, kind))
        config = LanesConfig.from_dict({"consumer": {**consumer_of(engine), **settings}})
        self.lanes = InMemoryLanes(consumer, config=config)

    def work(self, kind, message):
        self.calls[kind] += 1
        if kind in self.instead:
            self.instead[kind](message)
        errors = self.errors.get(kind, [])
        if errors and (error := errors.pop(0)) is not None:
            raise error


@pytest.mark.parametrize("several", [False, True], ids=["one resource", "several"])
@pytest.mark.parametrize("took", [0, 10], ids=["refused", "timed out"])
@pytest.mark.parametrize("few", [1, 3])
def test_however_long_their_calls_take_a_few_messages_hold_up_none(engine, few, took, several):
    """A client that waits for an answer takes its time, as a slot does until it has the next record."""
    resources = {"bad": "bank", "pay": "bank"} | ({"mail": ""} if several else {})
    desk = Desk(engine, resources=resources, function_timeout=120)
    lanes = desk.lanes

    def refuse(_message):
        lanes.clock.advance(took)
        raise Unavailable

    desk.instead["bad"] = refuse
    for number in range(few):
        lanes.producer.send("bad", {}, group=f"bad{number}", priority=100)
    lanes.run_for(timedelta(minutes=10))
    for number in range(20):
        lanes.producer.send("pay", {}, group=str(number))
    lanes.run_for(timedelta(minutes=30))

    assert desk.calls["pay"] == 20


def nested(*errors):
    """Return errors in a group in a group."""
    return BaseExceptionGroup("outer", [BaseExceptionGroup("tasks", errors)])


@pytest.mark.parametrize(
    "error",
    [
        Unavailable(),
        ConnectionRefusedError("no route"),
        nested(Unavailable()),
        nested(ConnectionResetError(), asyncio.CancelledError(), Unavailable(after=MINUTE)),
        nested(Yielded(), Unavailable()),
    ],
    ids=["signal", "type", "group", "mixed group", "beside a yield"],
)
@pytest.mark.parametrize("idempotency", [False, True])
def test_it_is_no_attempt_however_it_is_said(engine, error, idempotency):
    """As a signal, as an exception of a type that means it, alone or in groups; its claim is given back."""
    desk = Desk(engine, unavailable=(ConnectionError,), idempotency=idempotency, max_attempts=1)
    desk.errors["pay"] = [error] * 12
    desk.lanes.producer.send("pay", {})
    desk.lanes.run_until_idle()

    assert desk.calls["pay"] == 13
    desk.lanes.assert_handled("pay", attempt=1)
    assert not desk.lanes.journal.failed


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (nested(Unavailable(), ValueError("no")), "attempts exhausted"),
        (nested(Unavailable(), Retry()), "attempts exhausted"),
        (nested(Unavailable(), DeadLetter("broken")), "broken"),
    ],
    ids=["error", "retry", "dead letter"],
)
def test_another_error_beside_it_counts(engine, error, reason):
    """Else one task that finds the resource away would hide the mistake of another."""
    desk = Desk(engine, max_attempts=1)
    desk.errors["pay"] = [error]
    desk.lanes.producer.send("pay", {})
    desk.lanes.run_until_idle()

    assert desk.calls["pay"] == 1
    desk.lanes.assert_dead_lettered("pay", reason=reason)


def test_a_pause_is_as_long_as_the_handler_asked_for(engine):
    """Five minutes at the third refusal in a row, so a later message waits as long."""
    desk = Desk(engine)
    desk.errors["pay"] = [Unavailable(after=timedelta(minutes=5))] * 3
    for number in range(6):
        desk.lanes.producer.send("pay", {}, group=str(number))
    began = desk.lanes.clock.now
    desk.lanes.run_until_idle()

    assert desk.calls["pay"] == 9
    assert min(one.at.timestamp() for one in desk.lanes.journal.handled) - began >= 300


@pytest.mark.parametrize("minutes", [7, pytest.param(61, marks=pytest.mark.deep)])
def test_of_several_resources_the_urgent_one_is_tried_first(engine, minutes):
    """No slot waits for it, and all of its records return again and again: whenever it is back, HIGH goes first."""
    for seconds in range(0, 60, 13):
        desk = Desk(engine, resources={"pay": "bank", "mail": ""})
        lanes = desk.lanes
        with lanes.away("bank"):
            for number in range(12):
                lanes.producer.send("pay", {"n": number}, group=str(number))
            lanes.run_for(timedelta(minutes=minutes))
            lanes.producer.send("pay", {"n": "urgent"}, priority=100)
            lanes.run_for(timedelta(minutes=2, seconds=seconds))
        lanes.run_until_idle()

        pays = [one.message.data["n"] for one in lanes.journal.handled if one.message.kind == "pay"]
        # Some tries are for those that have not said so, and each of several slots may start three of them before.
        first = pays[: 18 if engine == IN_PLACE else 2]
        assert (seconds, "urgent" in first, len(pays)) == (seconds, True, 13)


def test_a_test_lets_a_resource_be_away(engine):
    """In a line: its messages wait without an attempt for hours, others go on, and then the urgent one is first."""
    desk = Desk(engine, resources={"pay": "bank", "mail": ""})
    lanes = desk.lanes
    with lanes.away("bank"):
        for number in range(4):
            lanes.producer.send("pay", {"n": number}, group=str(number))
        lanes.producer.send("mail", {})
        lanes.run_for(timedelta(hours=2))
        lanes.assert_handled("mail")
        assert desk.calls["pay"] == 0
        lanes.producer.send("pay", {"n": "urgent"}, priority=100)
        lanes.run_for(timedelta(minutes=5))
    lanes.run_until_idle()

    pays = [one.message.data["n"] for one in lanes.journal.handled if one.message.kind == "pay"]
    assert "urgent" in pays[: 18 if engine == IN_PLACE else 1]
    assert len(pays) == 5
    assert not lanes.journal.failed
    assert all(one.attempt == 1 for one in lanes.journal.handled)


def test_records_of_another_resource_go_on(engine):
    """The bank is away for ten minutes; mail is sent at once, and payments wait in their order."""
    desk = Desk(engine, resources={"pay": "bank", "mail": "mail"})
    desk.errors["pay"] = [Unavailable(after=timedelta(minutes=10))] * 3
    for number in range(6):
        desk.lanes.producer.send("pay", {"n": number}, group=f"p{number % 2}", priority=100)
        desk.lanes.producer.send("mail", {}, group=f"m{number}")
    desk.lanes.run_until_idle()

    handled = desk.lanes.journal.handled
    mails = [one for one in handled if one.message.kind == "mail"]
    assert len(mails) == 6
    assert max(one.at for one in mails) < min(one.at for one in handled if one.message.kind == "pay")
    for group in ("p0", "p1"):
        numbers = [one.message.data["n"] for one in handled if one.message.group == group]
        assert numbers == sorted(numbers)
    assert desk.calls["pay"] == 9


def test_the_log_says_which_resource_is_away_and_why(engine):
    """After each call that lets a slot pause, for each of its resources, and when it is back."""
    world, is_away, reason = World(engine=engine), True, "refused"

    def work(name, _message):
        if is_away:
            raise Unavailable(reason=f"{name} {reason}")

    for name in ("bank", "mail"):
        world.consumer.handler(name, resource=name)(partial(work, name))
    for reason in ("refused", "closed"):
        is_away = True
        for name in ("bank", "mail"):
            for number in range(4):
                world.send("MAIN", name, {}, group=f"{name}-{reason}-{number}")
        for _ in range(5):
            world.step("MAIN")
            world.clock.advance(10)
        is_away = False
        for _ in range(20):
            world.clock.advance(70)
            world.step("MAIN")

    told = [fields for event, fields in world.recorder.problems if event == "resource_away"]
    for name, why in itertools.product(("bank", "mail"), ("closed", "refused")):
        tries = [one for one in told if (one["resource"], one["reason"]) == (name, f"{name} {why}")]
        assert [one["tries"] for one in tries] == list(range(3, 3 + len(tries)))
        assert len(tries) > 1
        assert len({one["since"] for one in tries}) == 1
        assert all(one["since"] < one["next_at"] for one in tries)
    back = [fields["resource"] for event, fields in world.recorder.events if event == "resource_back"]
    assert sorted(back) == ["bank", "bank", "mail", "mail"]


def test_a_message_that_is_early_comes_again_without_an_attempt(engine):
    """`Retry(counts=False)`: a snooze, for this message alone."""
    desk = Desk(engine, max_attempts=1)
    desk.errors["pay"] = [Retry(after=timedelta(minutes=10), counts=False)] * 3
    began = desk.lanes.clock.now
    desk.lanes.producer.send("pay", {})
    desk.lanes.run_until_idle()

    desk.lanes.assert_handled("pay", attempt=1)
    assert not desk.lanes.journal.failed
    assert desk.lanes.clock.now - began >= 1800


@pytest.mark.parametrize("error", [Unavailable(), Retry(counts=False)], ids=["away", "early"])
def test_it_is_no_attempt_when_a_later_record_of_its_batch_kills_the_process(engine, error):
    """Its count, which was written ahead, is taken back before the next record starts."""
    desk = Desk(engine, resources={"pay": "bank", "mail": ""}, idempotency=True, max_attempts=1)
    desk.errors["pay"] = [error]
    desk.errors["mail"] = [ProcessKilled()]
    desk.lanes.producer.send("pay", {})
    desk.lanes.producer.send("mail", {})
    desk.lanes.run_until_idle()

    assert desk.calls == {"pay": 2, "mail": 1}
    desk.lanes.assert_handled("pay", attempt=1)
    desk.lanes.assert_dead_lettered("mail", reason="attempts exhausted")


def test_messages_of_a_batch_handler_say_it_each_for_itself(engine):
    """The others of the call are done; it is tried with one message while the resource is away."""
    calls, away = [], [True]
    consumer = Consumer()

    @consumer.batch_handler("pay")
    def pay(messages):
        calls.append(len(messages))
        if len(calls) == 1:
            return {messages[0].id: Unavailable()}
        if away[0] and len(calls) < 8:
            raise Unavailable
        return None

    lanes = InMemoryLanes(consumer, config=LanesConfig.from_dict({"consumer": consumer_of(engine)}))
    for number in range(30):
        lanes.producer.send("pay", {}, group=str(number))
    lanes.run_until_idle()

    assert len(lanes.journal.handled) == 30
    assert not lanes.journal.failed
    # Three calls in a row, then one message a try.
    assert calls[4:8] == [1] * 4


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        (ConnectionError, TypeError, r"unavailable=\(ConnectionError,\)"),
        (["down"], TypeError, "types of exceptions, such as ConnectionError, not 'down'"),
        ((Exception,), ConfigurationError, "Exception has a meaning of its own"),
        ((Retry,), ConfigurationError, "Retry has a meaning of its own"),
        ((KeyboardInterrupt,), TypeError, "KeyboardInterrupt"),
    ],
    ids=["alone", "text", "all", "signal", "interrupt"],
)
def test_types_that_cannot_mean_it_are_refused(given, error, said):
    """A mistake in a handler must not be taken for an outage."""
    with pytest.raises(error, match=said):
        Consumer(unavailable=given)


def test_a_pause_that_is_no_time_is_refused():
    """As that of `Retry`."""
    with pytest.raises(TypeError, match=r"Unavailable\(after=\.\.\.\)"):
        Unavailable(after=5)


@pytest.mark.parametrize(
    ("after", "longest"),
    [
        (timedelta(seconds=-30), 60),
        (timedelta(0), 60),
        (timedelta(milliseconds=1), 1),
        (timedelta(days=1), 900),
    ],
)
def test_a_pause_has_bounds_and_is_never_an_error(engine, after, longest):
    """What a resource says of its return may be wrong: nothing burns, and nothing waits for long."""
    desk = Desk(engine, max_attempts=1)
    desk.errors["pay"] = [Unavailable(after=after) for _ in range(6)]
    for number in range(8):
        desk.lanes.producer.send("pay", {}, group=str(number))

    desk.lanes.run_until_idle()

    assert len(desk.lanes.journal.handled) == 8
    assert not desk.lanes.journal.failed
    assert desk.lanes.clock.now - desk.lanes.journal.sent[0].at.timestamp() < 6 * longest + 60
