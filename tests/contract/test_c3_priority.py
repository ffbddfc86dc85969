"""C3: before each record the consumer knows the state of the higher lanes, and yields when one of them has work."""

import contextlib
from random import Random

import pytest

from lanes.config import LanesConfig
from lanes.mapping.rules import ThrottleBackoff
from lanes.testing.calls import InLine
from lanes.testing.table import OVERRIDES_READ
from simulator.parameters import Unknowns
from simulator.simulated_lanes import SimulatedLanes
from tests.support.memory import Late, aws_error, consumer_of
from tests.support.scenario import Scenario

RECHECK = 0.25


def readings_of(scenario, lane="HIGH"):
    """Return the moments at which the counts of a lane are read from now on."""
    moments = []
    depth = scenario.world.queues.depth

    def noted(name):
        if name == lane:
            moments.append(scenario.world.clock.now)
        return depth(name)

    scenario.world.queues.depth = noted
    return moments


@pytest.mark.parametrize("takes", [0.01, 0.1, 0.24, 0.26, 2.0])
@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("idempotency", [False, True])
def test_the_state_above_is_never_older_than_the_recheck_interval(takes, slots, idempotency):
    """Before every single record of a batch, also one whose attempt is written down before it begins."""
    scenario = Scenario({"consumer": {"reserved_concurrency": slots, "idempotency": idempotency}})
    scenario.world.calls.takes = lambda _operation: scenario.world.clock.advance(0.006)
    scenario.takes = takes
    moments = readings_of(scenario)
    ages = []
    scenario.in_handler = lambda _message: ages.append(scenario.world.clock.now - takes - moments[-1])
    for number in range(10):
        scenario.send("MAIN", f"m{number}")

    scenario.drain()

    assert len(ages) == 10
    assert max(ages) <= RECHECK + 1e-6


def test_a_record_gives_way_to_a_message_that_comes_in_the_calls_before_its_handler():
    """Its attempt was written ahead by then, and doesn't count."""
    scenario = Scenario({"consumer": {"idempotency": True}})
    slow = ["PutItem"]

    def take(operation):
        scenario.world.clock.advance(0.006)
        if operation in slow:
            slow.clear()
            scenario.send("HIGH", "urgent")
            scenario.world.clock.advance(2 * RECHECK)

    scenario.world.calls.takes = take
    scenario.send("MAIN", "waits", "fail", "ok")
    scenario.step("MAIN")
    assert not scenario.starts

    scenario.drain()

    assert scenario.done == ["urgent", "waits"]
    assert [start.attempt for start in scenario.starts] == [1, 1, 2]


def test_one_reading_serves_a_whole_batch_of_short_records():
    """One call for each lane above."""
    scenario = Scenario()
    for number in range(10):
        scenario.send("MAIN", f"m{number}")

    scenario.step("MAIN")

    assert scenario.world.calls.counts["GetQueueAttributes"] == 2
    assert len(scenario.done) == 10


def test_a_long_record_is_preceded_by_a_fresh_reading():
    """Once it is known that this lane's records are long."""
    scenario = Scenario()
    scenario.takes = 1.0
    moments = readings_of(scenario)
    ages = []
    scenario.in_handler = lambda _message: ages.append(scenario.world.clock.now - 1.0 - moments[-1])
    for number in range(5):
        scenario.send("MAIN", f"m{number}")

    scenario.step("MAIN")

    assert max(ages) <= 0.05


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("arrives_at", [0, 3, 8])
@pytest.mark.parametrize("takes", [0.05, 0.3])
def test_the_rest_of_a_batch_yields_within_the_recheck_interval(held, arrives_at, takes):
    """To records that are visible and to those that the mapping has taken out already."""
    scenario = Scenario()
    scenario.takes = takes
    for number in range(10):
        scenario.send("MAIN", f"m{number}")

    def arrive(message):
        if message.id == f"m{arrives_at}":
            scenario.send("HIGH", "high")
            if held:
                scenario.world.receive("HIGH")

    scenario.in_handler = arrive
    scenario.step("MAIN")

    late = [start for start in scenario.starts if int(start.id[1:]) > arrives_at]
    arrived = scenario.starts[arrives_at].at + takes
    assert all(start.at <= arrived + RECHECK for start in late)
    assert len(scenario.done) < 10 or arrived + RECHECK >= scenario.starts[-1].at


def test_a_checkpoint_yields_in_mid_work():
    """The handler starts anew later, with the same attempt."""
    scenario = Scenario()
    scenario.takes = 0.5
    scenario.send("MAIN", "long", "check")
    scenario.in_handler = lambda message: (
        scenario.send("HIGH", "high") if message.id == "long" and len(scenario.starts) == 1 else None
    )

    scenario.step("MAIN")
    assert scenario.done == []
    scenario.drain()

    assert [(start.id, start.attempt) for start in scenario.starts] == [("long", 1), ("high", 1), ("long", 1)]


def test_a_checkpoint_with_nothing_above_goes_on():
    """And reads no oftener than the recheck interval."""
    scenario = Scenario()
    counts = scenario.world.calls.counts

    @scenario.environments[0].handler("stepwise")
    def stepwise(_message, context):
        for _ in range(100):
            context.checkpoint()
            scenario.world.clock.advance(0.01)
        scenario.done.append("stepwise")

    scenario.world.send("MAIN", kind="stepwise")
    scenario.step("MAIN")

    assert scenario.done == ["stepwise"]
    assert counts["GetQueueAttributes"] <= 2 * 5


def test_a_handler_that_catches_exceptions_lets_a_checkpoint_through():
    """It is none that `except Exception` sees."""
    scenario = Scenario()
    reached = []

    @scenario.environments[0].handler("careless")
    def careless(_message, context):
        scenario.send("HIGH", "high")
        scenario.world.clock.advance(1)
        try:
            context.checkpoint()
        except Exception:  # noqa: BLE001 - what a careless handler does
            reached.append("caught")
        reached.append("went on")

    scenario.world.send("MAIN", kind="careless")
    scenario.step("MAIN")

    assert reached == []
    assert scenario.world.recorder.counts["YieldedMessages"] == 1


def test_a_handler_that_swallows_everything_is_taken_at_its_word():
    """It finished, so its record is done; the next one yields."""
    scenario = Scenario()

    @scenario.environments[0].handler("stubborn")
    def stubborn(_message, context):
        scenario.world.send("HIGH", id=context.message_id)
        scenario.world.clock.advance(1)
        with contextlib.suppress(BaseException):
            context.checkpoint()

    scenario.world.send("MAIN", kind="stubborn", group="one")
    second = scenario.world.send("MAIN", kind="stubborn", group="two")

    messages = scenario.world.receive("MAIN")
    assert scenario.world.invoke("MAIN", messages, consumer=scenario.environments[0]) == {second}


def failing_high(*does, behind=0, slots=1):
    """Tell a scenario in which HIGH has one message in backoff, and others behind it in its group."""
    scenario = Scenario(
        {"consumer": {"reserved_concurrency": slots, "backoff_base": 300}}, environments=slots
    )
    scenario.send("HIGH", "fails", "fail", *(does or ("ok",)))
    scenario.step("HIGH")
    for number in range(behind):
        scenario.send("HIGH", f"behind{number}")
    scenario.world.clock.advance(1)
    for number in range(100):
        scenario.send("MAIN", f"m{number}", group=f"g{number}")
    return scenario


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("behind", [0, 1, 40])
def test_a_message_in_backoff_and_those_behind_it_do_not_hold_lower_lanes_back(behind, fresh, slots):
    """It is in flight, but waits for no slot, as an environment that has never seen it learns from the ledger."""
    scenario = failing_high(slots=slots, behind=behind)
    if fresh:
        scenario.environments[0] = scenario._new_environment()

    scenario.step("MAIN")

    assert len(scenario.done) == 10
    assert scenario.world.recorder.counts["YieldedMessages"] == 0


@pytest.mark.parametrize("slots", [1, 3])
def test_not_even_after_its_next_attempt(slots):
    """It comes with nine of those behind it, fails, and lower lanes go on at once; the rest was seen before."""
    scenario = failing_high("fail", behind=40, slots=slots)
    scenario.step("MAIN")
    for attempt in range(2):
        scenario.world.clock.advance(300 * 2 ** (attempt + 1))
        scenario.step("HIGH", environment=slots - 1)
        done = len(scenario.done)

        scenario.step("MAIN")

        assert scenario.starts[-1].lane == "MAIN"
        assert len(scenario.done) == done + 10


@pytest.mark.parametrize("slots", [1, 3])
def test_nor_do_messages_that_join_them(slots):
    """However often one comes: nobody can take it."""
    scenario = failing_high("fail", slots=slots)
    for number in range(10):
        scenario.send("HIGH", f"joins{number}")
        scenario.step("MAIN")
        scenario.world.clock.advance(0.3)

    assert len(scenario.done) == 100
    assert scenario.world.recorder.counts["YieldedMessages"] == 0


def test_a_new_message_of_another_group_still_counts():
    """Its mapping takes it out within milliseconds, which proves that it isn't stuck."""
    scenario = failing_high(behind=40)
    for _ in range(100):
        scenario.step("MAIN")
        scenario.world.clock.advance(0.2)
    for number in range(10):
        scenario.send("MAIN", f"more{number}", group=f"more{number}")

    scenario.send("HIGH", "urgent", group="other")
    scenario.world.receive("HIGH")
    before = len(scenario.starts)
    scenario.step("MAIN")

    assert len(scenario.starts) == before


def test_a_paused_lane_does_not_hold_lower_lanes_back():
    """Nobody takes its messages out, so they wait for no slot."""
    scenario = Scenario()
    scenario.send("HIGH", "paused")
    for number in range(20):
        scenario.send("MAIN", f"m{number}", group=f"g{number}")
    for _ in range(200):
        scenario.step("MAIN")
        scenario.world.clock.advance(0.1)

    assert len(scenario.done) == 20
    assert "paused" not in scenario.done


@pytest.mark.parametrize(
    ("waiting", "yields"), [(1, False), (10, False), (11, False), (20, False), (21, True), (60, True)]
)
def test_a_lower_lane_does_not_yield_while_a_slot_is_free_for_all_that_waits(waiting, yields):
    """Three slots: two batches above find theirs, a third one needs ours."""
    scenario = Scenario({"consumer": {"reserved_concurrency": 3}}, environments=3)
    scenario.send("MAIN", "main")
    for number in range(waiting):
        scenario.send("HIGH", f"h{number}", group=f"g{number}")

    scenario.step("MAIN")

    assert (scenario.done == []) is yields


def test_lanes_above_share_the_free_slots():
    """One batch of HIGH and one of MEDIUM take both of them; a second one of MEDIUM needs ours."""
    scenario = Scenario({"consumer": {"reserved_concurrency": 3}}, environments=3)
    scenario.send("HIGH", "high")
    scenario.send("MEDIUM", "medium")
    scenario.send("MAIN", "first")
    scenario.step("MAIN")
    assert scenario.done == ["first"]
    scenario.world.clock.advance(0.3)

    for number in range(15):
        scenario.send("MEDIUM", f"m{number}", group=f"g{number}")
    scenario.send("MAIN", "second")
    scenario.step("MAIN")

    assert scenario.done == ["first"]
    assert scenario.world.recorder.named("batch_yielded")[0]["to_lane"] == "MEDIUM"


def test_a_slot_that_another_environment_holds_is_not_free():
    """It tells so in the register."""
    scenario = Scenario({"consumer": {"reserved_concurrency": 2}}, environments=2)
    scenario.send("MEDIUM", "medium")
    for number in range(5):
        scenario.send("HIGH", f"h{number}", group=f"g{number}")
    scenario.send("MAIN", "main")
    seen = []

    def meanwhile(message):
        if message.id == "medium":
            scenario.step("MAIN", environment=1)
            seen.extend(scenario.done)

    scenario.in_handler = meanwhile
    scenario.step("MEDIUM", environment=0)

    assert seen == []


def test_records_that_run_elsewhere_do_not_wait():
    """They are in flight, and their environment says so."""
    scenario = Scenario({"consumer": {"reserved_concurrency": 2}}, environments=2)
    for number in range(10):
        scenario.send("HIGH", f"h{number}", group=f"g{number}")
    scenario.send("MAIN", "main")
    scenario.in_handler = lambda message: scenario.step("MAIN", environment=1) if message.id == "h3" else None

    scenario.step("HIGH", environment=0)

    assert scenario.done.index("main") < scenario.done.index("h3")


def test_a_lane_that_runs_as_much_as_it_may_does_not_claim_another_slot():
    """Its mapping's maximum concurrency is used up, so yielding would leave the slot to nobody."""
    scenario = Scenario(
        {
            "consumer": {"reserved_concurrency": 3},
            "lanes": [{"name": "HIGH", "threshold": 50, "maximum_concurrency": 2}, {"name": "MAIN"}],
        },
        environments=3,
    )
    for number in range(60):
        scenario.send("HIGH", f"h{number}", group=f"g{number}")
    scenario.send("MAIN", "main")

    def meanwhile(message):
        if message.id == "h0":
            scenario.step("HIGH", environment=1)
        elif message.id == "h10":
            scenario.step("MAIN", environment=2)

    scenario.in_handler = meanwhile
    scenario.step("HIGH", environment=0)

    assert "main" in scenario.done


@pytest.mark.parametrize("slots", [1, 2])
def test_records_that_are_done_and_not_deleted_yet_do_not_wait(slots):
    """The mapping deletes them after the invocation; the same environment may have begun another one by then."""
    scenario = Scenario({"consumer": {"reserved_concurrency": slots}}, environments=slots)
    for number in range(30):
        scenario.send("HIGH", f"h{number}", group=f"g{number}")
    scenario.send("MAIN", "main")
    batches = [scenario.world.receive("HIGH") for _ in range(3)]
    for batch in batches[:2]:
        scenario.invoke("HIGH", batch)
    scenario.invoke("HIGH", batches[2], deletes=False)
    scenario.world.clock.advance(0.02)

    scenario.step("MAIN")

    assert scenario.done[-1] == "main"


def test_a_lane_yields_to_higher_lanes_only():
    """HIGH never yields, MEDIUM to HIGH, MAIN to both."""
    scenario = Scenario()
    for lane in ("HIGH", "MEDIUM", "MAIN"):
        for number in range(3):
            scenario.send(lane, f"{lane}{number}", group=f"g{number}")

    for lane in ("MAIN", "MEDIUM", "HIGH"):
        scenario.step(lane)

    assert [start.lane for start in scenario.starts] == ["HIGH"] * 3
    assert [event["to_lane"] for event in scenario.world.recorder.named("batch_yielded")] == ["HIGH", "HIGH"]


def test_a_failed_reading_yields():
    """Not knowing is a reason to; the lower lane's handlers start only where it is known that they may."""
    scenario = Scenario()
    scenario.send("MAIN", "main")
    scenario.break_once(lambda operation: operation == "GetQueueAttributes", aws_error())

    scenario.step("MAIN")

    assert scenario.starts == []
    assert "higher_lanes_unknown" in [name for name, _ in scenario.world.recorder.problems]


def test_what_one_slot_remembers_of_a_wait_ends_soon():
    """The lane above was served by another environment, of which this one has not heard."""
    scenario = Scenario(environments=2)
    for number in range(3):
        scenario.send("MAIN", f"m{number}", group=f"g{number}")
    scenario.send("HIGH", "high")
    scenario.step("MAIN", 1, environment=0)
    scenario.step("HIGH", environment=1)
    assert scenario.done == ["high"]

    scenario.step("MAIN", 1, environment=0)
    scenario.world.clock.advance(1.01)
    scenario.step("MAIN", 1, environment=0)

    assert len(scenario.done) >= 2


def test_priority_switched_off_never_yields():
    """Nor is any count read: a batch costs the one call that lets it return if its process dies."""
    scenario = Scenario({"enabled": False})
    for number in range(3):
        scenario.send("HIGH", f"high{number}")
        scenario.send("MAIN", f"main{number}")
        scenario.step("MAIN")
        scenario.step("HIGH")

    assert len(scenario.done) == 6
    assert scenario.world.calls.counts == {OVERRIDES_READ: 1, "ChangeMessageVisibilityBatch": 6}


@pytest.mark.parametrize("work", [0.01, 0.2, 1.5])
@pytest.mark.parametrize(("burst_size", "every"), [(5, 20), (25, 60)])
def test_with_one_slot_no_lower_record_starts_while_a_higher_one_has_waited(work, burst_size, every):
    """Behind mapping rules, throttles and deletions that take their time: no inversion in the whole run."""
    config = LanesConfig.from_dict({"consumer": {"engine": "mappings", "function_timeout": 30}})
    unknowns = Unknowns(backoff=ThrottleBackoff())
    lanes, random = SimulatedLanes(config, unknowns=unknowns, seed=1), Random(1)

    def burst():
        for _ in range(random.randrange(1, burst_size + 1)):
            lanes.send("HIGH", group=f"g{random.randrange(20)}", seconds=work)
        if lanes.done < 300:
            lanes.scheduler.after(random.expovariate(1 / (every * work)), burst)

    for number in range(250):
        lanes.send("MAIN", group=f"g{number % 120}", seconds=work)
    lanes.scheduler.after(0.1, burst)
    lanes.run(seconds=4000 * work + 60, until=lambda: lanes.done >= 300)

    assert lanes.done >= 300
    assert lanes.settle(within=600)
    high = [one for one in lanes.handled if one.lane == "HIGH"]
    for one in (one for one in lanes.handled if one.lane == "MAIN"):
        waiting = [each.sent_at for each in high if each.sent_at < one.started_at < each.started_at]
        assert one.started_at - min(waiting, default=one.started_at) <= RECHECK + work + 0.05


BESIDE = pytest.mark.parametrize("beside", [InLine, Late], ids=["in line", "late"])


def looks_at_high(scenario):
    """Return the moments at which HIGH is asked for messages from now on."""
    moments = []
    receive = scenario.world.queues.receive

    def noted(lane, **options):
        if lane == "HIGH":
            moments.append(scenario.world.clock.now)
        return receive(lane, **options)

    scenario.world.queues.receive = noted
    return moments


@BESIDE
@pytest.mark.parametrize("takes", [0.01, 0.1, 0.24, 0.26, 2.0])
@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("idempotency", [False, True])
def test_the_last_look_of_a_slot_is_never_older_than_the_recheck_interval(takes, slots, beside, idempotency):
    """Before every single record in the pull engine too."""
    settings = {"reserved_concurrency": slots, "idempotency": idempotency, "recheck_interval": f"{RECHECK}s"}
    scenario = Scenario({"consumer": settings}, engine="pull", beside=beside())
    scenario.world.calls.takes = lambda _operation: scenario.world.clock.advance(0.006)
    scenario.takes = takes
    moments = looks_at_high(scenario)
    ages = []
    scenario.in_handler = lambda _message: ages.append(scenario.world.clock.now - takes - moments[-1])
    for number in range(10):
        scenario.send("MAIN", f"m{number}")

    scenario.drain()

    assert len(ages) == 10
    assert max(ages) <= RECHECK + 1e-6


@BESIDE
@pytest.mark.parametrize("arrives_at", [0, 3, 8])
@pytest.mark.parametrize("takes", [0.05, 0.3])
def test_a_slot_sets_its_batch_aside_within_the_recheck_interval(arrives_at, takes, beside):
    """And goes on with it afterwards, without another receive."""
    scenario = Scenario(engine="pull", beside=beside())
    scenario.takes = takes
    for number in range(10):
        scenario.send("MAIN", f"m{number}")
    scenario.in_handler = lambda message: (
        scenario.send("HIGH", "urgent") if message.id == f"m{arrives_at}" else None
    )

    scenario.step("MAIN")

    ran_before = scenario.done.index("urgent") - arrives_at - 1
    assert ran_before * takes <= RECHECK
    assert [name for name in scenario.done if name != "urgent"] == [f"m{number}" for number in range(10)]
    assert {start.receive_count for start in scenario.starts} == {1}
    assert scenario.world.recorder.counts["YieldedMessages"] == 0


@BESIDE
def test_lanes_are_set_aside_one_for_another(beside):
    """MAIN for MEDIUM, and that for HIGH; each goes on where it was."""
    scenario = Scenario(engine="pull", beside=beside())
    scenario.takes = 0.3
    sends = {"main0": "MEDIUM", "medium0": "HIGH"}
    scenario.in_handler = lambda message: [
        scenario.send(lane, f"{lane.lower()}{number}")
        for number in range(2)
        if (lane := sends.get(message.id)) is not None
    ]
    scenario.send("MAIN", "main0")
    scenario.send("MAIN", "main1")

    scenario.step("MAIN")

    assert scenario.done == ["main0", "medium0", "high0", "high1", "medium1", "main1"]


@pytest.mark.parametrize("set_by", [-100.0, 100.0])
@pytest.mark.parametrize("engine", ["mappings", "pull"])
def test_high_does_not_wait_longer_for_a_clock_that_was_set(engine, set_by):
    """With one slot, soon after its environment began; a mapping's own retries take eight seconds at most here."""
    raw = {
        "consumer": {**consumer_of(engine)},
        "lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MAIN"}],
    }
    lanes = SimulatedLanes(LanesConfig.from_dict(raw), seed=4)
    began, now = lanes.scheduler.now, lanes.scheduler.clock
    lanes._injector.clock = lambda: lambda: now() + (set_by if now() > began + 12 else 0.0)
    for number in range(400):
        lanes.send("MAIN", group=f"m{number}", seconds=1.0)
    for number in range(60):
        lanes.scheduler.after(
            3.0 * number, lambda number=number: lanes.send("HIGH", group=f"h{number}", seconds=0.05)
        )

    lanes.run(seconds=200)

    assert len(lanes.handled.waits("HIGH")) == 60
    assert lanes.handled.waits("HIGH")[-1] < 10
