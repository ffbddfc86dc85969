"""A slot of the pull engine: its batches, its rings, and its leave."""

from datetime import timedelta

import pytest

from lanes.bell import HEARTBEAT, RETURN_EVERY
from lanes.config import LanesConfig
from lanes.consumer.engines.looks import Looks
from lanes.consumer.engines.pace import SlotTime
from lanes.consumer.engines.starters import ASKS_AGAIN
from lanes.consumer.engines.turn import KEPT_ASIDE
from lanes.consumer.outcome import receive_floor
from lanes.consumer.records import Invocation
from lanes.testing.calls import InLine
from lanes.testing.queues import BELL
from tests.support.memory import Late, aws_error
from tests.support.scenario import Scenario

BESIDE = pytest.mark.parametrize("beside", [InLine, Late], ids=["in line", "late"])


def scenario_with(*, beside=InLine, lanes=None, **consumer):
    """Return a scenario of the pull engine."""
    raw = {"consumer": consumer, "lanes": lanes} if lanes else {"consumer": consumer}
    return Scenario(raw, engine="pull", beside=beside(), environments=consumer.get("reserved_concurrency", 1))


def rings(scenario):
    """Return the groups of the visible rings, and take them out."""
    return [message.group for message in scenario.world.bell.receive(10)]


def returned(scenario):
    """Return the reasons of all returns."""
    return [fields["reason"] for fields in scenario.world.recorder.named("batch_returned")]


class Watched(Late):
    """Remembers the calls that were started beside the handler."""

    def __init__(self):
        self.started = []

    def start(self, call, *, after=0.0):
        self.started.append(super().start(call, after=after))
        return self.started[-1]


class Answering(InLine):
    """Makes calls at once; SQS answers the first one that is waited for, and the others only when they are asked."""

    def start(self, call, *, after=0.0):
        made, made.done = super().start(call, after=after), lambda: False
        return made

    def wait(self, calls):
        calls[0].done = lambda: True


def test_the_time_for_several_lanes_is_that_of_the_slowest():
    """A record that can't end in time would be received for nothing."""
    high, medium, main = LanesConfig.from_dict({}).lanes
    needed = {"HIGH": 1.0, "MEDIUM": 2.0, "MAIN": 8.0}
    invocation = Invocation.of(None, timeout=5.0, monotonic=lambda: 0.0)
    time = SlotTime(invocation, clock=lambda: 0.0, needed=needed, whole=30.0)

    assert time.has_time_for()
    assert time.has_time_for(high, medium, after=3.0)
    assert not time.is_over
    assert not time.has_time_for(high, main)
    assert time.is_over


def test_a_slot_that_leaves_waits_for_the_polls_that_still_run():
    """Their messages would stay hidden for as long as its process could have lived."""
    scenario = scenario_with(beside=Answering, function_timeout=10)
    receive, scenario.takes = scenario.world.queues.receive, 8.5

    def sent_at_the_poll(lane, **options):
        if options["wait"] and not scenario.sent:
            scenario.send("HIGH", "high")
            scenario.send("MAIN", "low")
        return receive(lane, **options)

    scenario.world.queues.receive = sent_at_the_poll

    scenario.step("HIGH")

    assert scenario.done == ["high"]
    counts = scenario.world.queues.live["MAIN"].counts()
    assert (counts.visible, counts.not_visible) == (1, 0)


def test_records_in_hand_yield_to_lanes_that_can_not_be_looked_at_any_more():
    """A message of a higher lane may have come, with no time left for it: the next invocation begins with it."""
    scenario = scenario_with(function_timeout=10)
    scenario.takes = 3.0
    scenario.send("HIGH", "slow")
    scenario.step("HIGH")
    scenario.takes = 0.5
    for number in range(16):
        scenario.send("MEDIUM", f"m{number}")
    began = scenario.world.clock.now
    scenario.in_handler = lambda _message: (
        scenario.send("HIGH", "urgent")
        if scenario.world.clock.now > began + 6.5 and "urgent" not in {sent.id for sent in scenario.sent}
        else None
    )

    scenario.step("MEDIUM")
    scenario.drain()

    place = scenario.done.index("urgent")
    assert scenario.starts_of("urgent")[0].at - began < 7.5
    assert place < len(scenario.done) - 1
    assert returned(scenario) == ["time"]
    scenario.check_kept()


def test_a_ring_that_fails_does_not_stop_the_work():
    """The heartbeat is there for it."""
    scenario = scenario_with(reserved_concurrency=3)
    scenario.world.calls.break_if = lambda name, _: aws_error() if name == "SendMessageBatch" else None
    for number in range(9):
        scenario.send("HIGH", f"m{number}", group=f"g{number}")

    scenario.step("HIGH")

    assert len(scenario.done) == 9
    assert "bell_not_rung" in [name for name, _ in scenario.world.recorder.problems]


@BESIDE
@pytest.mark.parametrize(("slots", "reasons"), [(1, set()), (2, {"aside"})])
def test_a_batch_that_is_set_aside_for_long_returns_for_a_free_slot(slots, reasons, beside):
    """With one slot there is none, so it stays in hand."""
    scenario = scenario_with(beside=beside, reserved_concurrency=slots)
    scenario.takes = 0.5
    # The lane is known to be deep after this one, so the others are received together.
    scenario.send("MAIN", "before")
    for number in range(4):
        scenario.send("MAIN", f"low{number}", group="g")

    def flood(message):
        if message.id == "low0" or (message.id.startswith("u") and len(scenario.sent) < 2 * KEPT_ASIDE + 8):
            scenario.send("HIGH", f"u{len(scenario.sent)}", group="u")

    scenario.in_handler = flood
    scenario.step("MAIN")

    assert set(returned(scenario)) == reasons
    scenario.drain()
    assert [name for name in scenario.done if name.startswith("low")] == [
        f"low{number}" for number in range(4)
    ]
    assert scenario.done[1] == "low0"
    assert scenario.done[-3:] == ["low1", "low2", "low3"]
    assert {start.attempt for start in scenario.starts} == {1}
    scenario.check_kept()


def test_a_record_that_was_received_often_returns_later():
    """SQS moves a message away after 1,000 receives; untouched returns must not use them up."""
    scenario = scenario_with(reserved_concurrency=2)
    scenario.takes = 1.0
    scenario.send("MAIN", "low", "check")
    for _ in range(99):
        (message,) = scenario.world.receive("MAIN")
        scenario.world.clock.advance(181)
    scenario.in_handler = lambda message: (
        message.id == "low" and scenario.send("HIGH", f"u{len(scenario.sent)}")
    )
    before = scenario.world.clock.now

    scenario.step("MAIN")

    assert [start.receive_count for start in scenario.starts_of("low")] == [100]
    assert message.receive_count == 99
    returns_at = scenario.world.queues.live["MAIN"].next_event_at()
    assert returns_at == pytest.approx(before + receive_floor(100), abs=3)


@pytest.mark.parametrize("lane", ["HIGH", "MEDIUM", "MAIN"])
def test_a_slot_leaves_with_empty_hands(lane):
    """No look is in progress, and nothing that it received stays hidden: also after a batch of an old mapping."""
    beside = Watched()
    scenario = scenario_with(beside=lambda: beside)
    scenario.takes = 0.5
    for number in range(3):
        scenario.send(lane, f"first{number}", group=f"g{number}")
    scenario.step(lane)
    for number in range(30):
        for each in ("HIGH", "MEDIUM", "MAIN"):
            scenario.send(each, f"{each}{number}", group=f"g{number}")

    scenario.invoke(lane, scenario.world.receive(lane))

    assert all(call.done() for call in beside.started)
    for queue in scenario.world.queues.live.values():
        assert queue.counts().not_visible == 0


def test_a_ring_that_can_not_be_returned_stays_for_its_visibility_timeout():
    """It is answered as kept all the same."""
    scenario = scenario_with(function_timeout=10)
    scenario.takes = 1.0
    for number in range(20):
        scenario.send("HIGH", f"m{number}", group=f"g{number}")
    scenario.world.calls.break_if = lambda name, _: aws_error() if name == "ChangeMessageVisibility" else None
    began = scenario.world.clock.now

    scenario.step("HIGH")

    assert "bell_not_returned" in [name for name, _ in scenario.world.recorder.problems]
    assert "slot-0" not in rings(scenario)
    assert scenario.world.bell.next_event_at() == began + 12
    scenario.world.calls.break_if = lambda _name, _place: None
    scenario.drain()
    scenario.check_kept()


def test_a_ring_comes_back_soon_if_a_lane_could_not_be_received():
    """The other lanes are served meanwhile."""
    scenario = scenario_with()
    receive = scenario.world.queues.receive

    def refuse(lane, **options):
        if lane == "HIGH":
            raise aws_error("ReceiveMessage")
        return receive(lane, **options)

    scenario.world.queues.receive = refuse
    scenario.send("HIGH", "high")
    scenario.send("MAIN", "low")

    scenario.step("HIGH")

    assert scenario.done == ["low"]
    assert rings(scenario) == [HEARTBEAT]
    assert scenario.world.bell.next_event_at() - scenario.world.clock.now == pytest.approx(ASKS_AGAIN, abs=1)
    scenario.world.queues.receive = receive
    scenario.drain()
    scenario.check_kept()


def test_a_heartbeat_returns_and_is_let_go_when_it_is_old():
    """Its successor waits behind it by then."""
    scenario = scenario_with()
    scenario.world.deliver()
    assert scenario.world.bell.next_event_at() - scenario.world.clock.now == pytest.approx(
        RETURN_EVERY, abs=2
    )

    scenario.world.clock.advance(11 * 60 + 1)
    (old,) = scenario.world.bell.receive(1)

    assert scenario.world.invoke(BELL, [old]) == set()


def test_a_lane_with_a_low_maximum_concurrency_is_left_to_the_first_slots():
    """The heartbeat's slot does not serve it, and rings for those that do."""
    lanes = [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "maximum_concurrency": 2}]
    scenario = scenario_with(lanes=lanes, reserved_concurrency=4)
    scenario.send("MAIN", "low")
    scenario.send("HIGH", "high")
    world = scenario.world

    def start(group):
        world.bell.send("ring", group=group, deduplication_id=f"{group} {world.clock.now}")
        received = [message for message in world.bell.receive(10) if message.group == group]
        world.invoke(BELL, received[:1], consumer=scenario.environments[0])
        world.clock.advance(60)

    for group in ("slot-3", "slot-2", HEARTBEAT):
        start(group)
    assert scenario.done == ["high"]
    assert {"slot-0", "slot-1"} <= set(rings(scenario))
    world.clock.advance(60)
    start("slot-1")
    assert scenario.done == ["high", "low"]


def test_a_slot_that_serves_some_lanes_proves_nothing_of_the_others():
    """An old ring is worth more than one look at them: a short poll may miss a message."""
    lanes = [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "maximum_concurrency": 2}]
    scenario = scenario_with(lanes=lanes, reserved_concurrency=4)
    world, receive = scenario.world, scenario.world.queues.receive
    world.queues.receive = lambda lane, **options: receive(lane, **options) if options["wait"] else []
    scenario.send("MAIN", "low")
    rung = {}
    for group in ("slot-0", "slot-3"):
        world.bell.send("ring", group=group, deduplication_id=group)
        (rung[group],) = world.bell.receive(1)
        world.clock.advance(30)

    for group in ("slot-3", "slot-0"):
        world.invoke(BELL, [rung[group]], consumer=scenario.environments[0])

    assert scenario.done == ["low"]


@pytest.mark.parametrize("linger", [0.5, 7])
def test_a_slot_lingers_for_messages(linger):
    """For as long as the settings say, in whole polls."""
    scenario = scenario_with(linger=linger)
    scenario.send("HIGH", "a")

    scenario.step("HIGH")

    stayed = scenario.world.clock.now - scenario.starts[-1].at
    assert max(linger, 1.25) <= stayed <= max(linger, 1.25) + 1.1


@BESIDE
@pytest.mark.parametrize("slots", [1, 3])
def test_an_overdue_record_that_fails_holds_its_group(slots, beside):
    """Those behind it are in the same hands, and must not be served from the reserve before it."""
    lanes = [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "max_wait": 20, "visibility_timeout": 180}]
    settings = {"reserved_concurrency": slots, "reserve": 0.5, "linger": 30, "function_timeout": 30}
    scenario = scenario_with(beside=beside, lanes=lanes, **settings)
    scenario.warm_up()
    scenario.takes = 0.4
    for number in range(3):
        scenario.send("MAIN", f"low{number}", *(("ok",) if number == 2 else ("fail", "ok")))
    scenario.world.receive("MAIN")
    scenario.world.clock.advance(178)
    receive = scenario.world.queues.receive

    def flood(message=None):
        if message is None or (message.id.startswith("u") and len(scenario.sent) < 60):
            scenario.send("HIGH", f"u{len(scenario.sent)}", group="u")

    def flood_from_then_on(lane, **options):
        found = receive(lane, **options)
        if lane == "MAIN" and found and len(scenario.sent) == 3:
            flood()
        return found

    scenario.world.queues.receive, scenario.in_handler = flood_from_then_on, flood

    scenario.drain()

    assert [name for name in scenario.done if name.startswith("low")] == ["low0", "low1", "low2"]
    scenario.check_kept()


@BESIDE
def test_records_in_hand_of_other_lanes_return_before_a_long_one(beside):
    """Another slot may be free for them; the polls of an idle slot ask all lanes at once."""
    scenario = scenario_with(beside=beside, reserved_concurrency=3, linger=5)
    scenario.takes = 2.0
    scenario.send("MEDIUM", "first")
    receive = scenario.world.queues.receive

    def sent_at_the_poll(lane, **options):
        if options["wait"] and scenario.done and len(scenario.sent) == 1:
            scenario.send("MEDIUM", "long")
            scenario.send("MAIN", "other")
        return receive(lane, **options)

    scenario.world.queues.receive = sent_at_the_poll
    scenario.step("MEDIUM")

    assert returned(scenario) == ["aside"]
    scenario.drain()
    assert scenario.done[:2] == ["first", "long"]
    scenario.check_kept()


def test_records_return_though_their_entries_can_not_be_read():
    """The failed call is reported; their next receive has no known cause."""
    scenario = scenario_with(reserved_concurrency=3, linger=5)
    scenario.takes = 2.0
    scenario.send("MEDIUM", "first")
    scenario.send("MAIN", "other")
    (other,) = scenario.world.receive("MAIN")
    receive = scenario.world.queues.receive

    def visible_at_the_poll(lane, **options):
        if options["wait"] and scenario.done and len(scenario.sent) == 2:
            scenario.send("MEDIUM", "long")
            scenario.world.queues.live["MAIN"].change_visibility(other.receipt_handle, timedelta(0))
        return receive(lane, **options)

    scenario.world.queues.receive = visible_at_the_poll
    scenario.world.calls.break_if = lambda name, _: aws_error() if name == "BatchGetItem" else None
    scenario.step("MEDIUM")

    assert returned(scenario) == ["aside", "unprepared"]
    assert scenario.world.recorder.problems == [("ledger_not_read", {"lane": "MAIN"})]
    assert scenario.world.recorder.counts["ConsumerCallErrors"] == 2
    scenario.world.calls.break_if = lambda _name, _place: None
    scenario.drain()
    scenario.check_kept()


def test_records_in_hand_of_a_lane_that_was_paused_return(monkeypatch):
    """With them in hand no poll waits, so the slot would go round and round until its time is over."""
    scenario, polls = scenario_with(), []
    receive, poll = scenario.world.queues.receive, Looks.poll

    def arriving(lane, **options):
        if options["wait"] and not scenario.sent:
            scenario.send("HIGH", "urgent")
            scenario.send("MAIN", "paused")
        return receive(lane, **options)

    def counted(looks, lanes):
        polls.append(lanes)
        assert len(polls) < 100
        return poll(looks, lanes)

    def pause(_message):
        paused = scenario.environments[0]._engine._services.paused
        paused._known, paused._read_at = {"MAIN"}, scenario.world.clock.now

    scenario.world.queues.receive, scenario.in_handler = arriving, pause
    monkeypatch.setattr(Looks, "poll", counted)
    scenario.step("HIGH")

    assert (scenario.done, returned(scenario), scenario.violations) == (["urgent"], ["aside"], [])
    assert scenario.world.queues.live["MAIN"].counts().visible == 1


@pytest.mark.parametrize("is_fresh", [True, False], ids=["fresh", "late"])
def test_a_record_that_killed_its_process_pauses_and_gets_an_invocation_of_its_own(is_fresh):
    """Others in the same hand are served first; where it starts late, it may be killed at the same point again."""
    scenario = scenario_with(idempotency=True, backoff_base=20)
    scenario.send("MAIN", "deadly", "crash", "ok", group="deadly")
    scenario.send("MAIN", "next", group="next")
    scenario.step("MAIN")
    scenario.world.clock.advance(40)

    scenario.step("MAIN")
    assert (scenario.done, returned(scenario)) == (["next"], ["crashed"])
    scenario.world.clock.advance(20)
    if not is_fresh:
        scenario.send("HIGH", "urgent")
    scenario.send("MAIN", "beside", group="beside")
    held = []
    scenario.in_handler = lambda message: (
        message.id == "deadly" and held.extend(scenario.world.queues.live["MAIN"].counts())
    )
    scenario.step("MAIN")
    scenario.drain()

    assert scenario.done == ["next", *([] if is_fresh else ["urgent", "beside"]), "deadly"] + (
        ["beside"] if is_fresh else []
    )
    # Only itself: in a fresh invocation the other one is visible for other slots.
    assert held[:2] == ([1, 1] if is_fresh else [0, 1])
    assert [start.attempt for start in scenario.starts_of("deadly")] == [1, 2]


@pytest.mark.parametrize("slots", [1, 2])
def test_a_batch_that_is_set_aside_for_a_moment_goes_on_and_deletes_each_record_once(slots):
    """Its first record before the higher lane is served; its second one fails, and is done later in the same slot."""
    scenario = scenario_with(reserved_concurrency=slots)
    scenario.takes = 0.05
    scenario.send("MAIN", "warm")
    scenario.step("MAIN")
    before = scenario.world.calls.counts["DeleteMessageBatch"]
    scenario.send("MAIN", "first")
    scenario.send("MAIN", "second", "fail", "ok")
    scenario.in_handler = lambda message: (
        message.id == "first" and (scenario.send("HIGH", "urgent"), scenario.world.clock.advance(0.3))
    )

    scenario.step("MAIN")

    assert scenario.done == ["warm", "first", "urgent", "second"]
    assert scenario.world.calls.counts["DeleteMessageBatch"] - before == 3
    assert returned(scenario) == []


@BESIDE
@pytest.mark.parametrize(("slots", "free"), [(1, [0]), (2, [2])])
def test_a_batch_does_not_wait_in_hand_behind_a_long_record_of_a_higher_lane(slots, free, beside):
    """A slot that is free can take it; with one slot there is none, so it stays in hand."""
    scenario = scenario_with(beside=beside, reserved_concurrency=slots)
    scenario.send("MEDIUM", "known")
    scenario.send("MAIN", "deep")
    for name in ("first", "second", "third"):
        scenario.send("MAIN", name, group="g")
    visible = []

    def work(message):
        if message.id == "first":
            scenario.send("MEDIUM", "long")
        scenario.world.clock.advance(2.0 if message.id in ("known", "long") else 0.5)
        if message.id == "long":
            visible.append(scenario.world.queues.live["MAIN"].counts().visible)

    scenario.in_handler = work
    scenario.step("MEDIUM")
    scenario.drain()

    assert visible == free
    assert scenario.done == ["known", "deep", "first", "long", "second", "third"]
    scenario.check_kept()
