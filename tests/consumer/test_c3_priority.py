"""C3: before each record the consumer knows the state of the higher lanes, and yields when one of them has work."""

import contextlib
from random import Random

import pytest

from lanes.testing.overrides import BOARD_READ
from tests.support.memory import World, aws_error
from tests.support.single_slot import SingleSlot
from tests.support.story import Story

RECHECK = 0.25
GRACE = 1.0


def readings_of(story, lane="HIGH"):
    """Return the moments at which the counts of a lane are read from now on."""
    moments = []
    depth = story.world.queues.depth

    def noted(name):
        if name == lane:
            moments.append(story.world.clock.now)
        return depth(name)

    story.world.queues.depth = noted
    return moments


@pytest.mark.parametrize("takes", [0.01, 0.1, 0.24, 0.26, 2.0])
@pytest.mark.parametrize("slots", [1, 3])
def test_the_state_above_is_never_older_than_the_recheck_interval(takes, slots):
    """Before every single record of a batch."""
    story = Story({"consumer": {"reserved_concurrency": slots}})
    story.world.calls.takes = lambda _operation: story.world.clock.advance(0.006)
    story.takes = takes
    moments = readings_of(story)
    ages = []
    story.in_handler = lambda _message: ages.append(story.world.clock.now - takes - moments[-1])
    for number in range(10):
        story.send("MAIN", f"m{number}")

    story.drain()

    assert len(ages) == 10
    assert max(ages) <= RECHECK + 1e-6


def test_one_reading_serves_a_whole_batch_of_short_records():
    """One call for each lane above."""
    story = Story()
    for number in range(10):
        story.send("MAIN", f"m{number}")

    story.step("MAIN")

    assert story.world.calls.log == [BOARD_READ, *["GetQueueAttributes"] * 2]
    assert len(story.done) == 10


def test_a_long_record_is_preceded_by_a_fresh_reading():
    """Once it is known that this lane's records are long."""
    story = Story()
    story.takes = 1.0
    moments = readings_of(story)
    ages = []
    story.in_handler = lambda _message: ages.append(story.world.clock.now - 1.0 - moments[-1])
    for number in range(5):
        story.send("MAIN", f"m{number}")

    story.step("MAIN")

    assert max(ages) <= 0.05


@pytest.mark.parametrize("held", [True, False])
@pytest.mark.parametrize("arrives_at", [0, 3, 8])
@pytest.mark.parametrize("takes", [0.05, 0.3])
def test_the_rest_of_a_batch_yields_within_the_recheck_interval(held, arrives_at, takes):
    """To records that are visible and to those that the mapping has taken out already."""
    story = Story()
    story.takes = takes
    for number in range(10):
        story.send("MAIN", f"m{number}")

    def arrive(message):
        if message.id == f"m{arrives_at}":
            story.send("HIGH", "high")
            if held:
                story.world.receive("HIGH")

    story.in_handler = arrive
    story.step("MAIN")

    late = [start for start in story.starts if int(start.id[1:]) > arrives_at]
    arrived = story.starts[arrives_at].at + takes
    assert all(start.at <= arrived + RECHECK for start in late)
    assert len(story.done) < 10 or arrived + RECHECK >= story.starts[-1].at


def test_a_checkpoint_yields_in_mid_work():
    """The handler starts anew later, with the same attempt."""
    story = Story()
    story.takes = 0.5
    story.send("MAIN", "long", "check")
    story.in_handler = lambda message: (
        story.send("HIGH", "high") if message.id == "long" and len(story.starts) == 1 else None
    )

    story.step("MAIN")
    assert story.done == []
    story.drain()

    assert [(start.id, start.attempt) for start in story.starts] == [("long", 1), ("high", 1), ("long", 1)]


def test_a_checkpoint_with_nothing_above_goes_on():
    """And reads no oftener than the recheck interval."""
    story = Story()
    counts = story.world.calls.counts

    @story.environments[0].handler("stepwise")
    def stepwise(_message, context):
        for _ in range(100):
            context.checkpoint()
            story.world.clock.advance(0.01)
        story.done.append("stepwise")

    story.world.send("MAIN", kind="stepwise")
    story.step("MAIN")

    assert story.done == ["stepwise"]
    assert counts["GetQueueAttributes"] <= 2 * 5


def test_a_handler_that_catches_exceptions_lets_a_checkpoint_through():
    """It is none that `except Exception` sees."""
    story = Story()
    reached = []

    @story.environments[0].handler("careless")
    def careless(_message, context):
        story.send("HIGH", "high")
        story.world.clock.advance(1)
        try:
            context.checkpoint()
        except Exception:  # noqa: BLE001 - what a careless handler does
            reached.append("caught")
        reached.append("went on")

    story.world.send("MAIN", kind="careless")
    story.step("MAIN")

    assert reached == []
    assert story.world.recorder.counts["YieldedMessages"] == 1


def test_a_handler_that_swallows_everything_is_taken_at_its_word():
    """It finished, so its record is done; the next one yields."""
    story = Story()

    @story.environments[0].handler("stubborn")
    def stubborn(_message, context):
        story.world.send("HIGH", id=context.message_id)
        story.world.clock.advance(1)
        with contextlib.suppress(BaseException):
            context.checkpoint()

    story.world.send("MAIN", kind="stubborn", group="one")
    second = story.world.send("MAIN", kind="stubborn", group="two")

    messages = story.world.receive("MAIN")
    assert story.world.invoke("MAIN", messages, consumer=story.environments[0]) == {second}


def failing_high(*does, behind=0, slots=1):
    """Tell a story in which HIGH has one message in backoff, and others behind it in its group."""
    story = Story({"consumer": {"reserved_concurrency": slots, "backoff_base": 300}}, environments=slots)
    story.send("HIGH", "fails", "fail", *(does or ("ok",)))
    story.step("HIGH")
    for number in range(behind):
        story.send("HIGH", f"behind{number}")
    story.world.clock.advance(1)
    for number in range(100):
        story.send("MAIN", f"m{number}", group=f"g{number}")
    return story


@pytest.mark.parametrize("slots", [1, 3])
def test_a_message_in_backoff_does_not_hold_lower_lanes_back(slots):
    """It is in flight, but waits for no slot."""
    story = failing_high(slots=slots)

    story.step("MAIN")

    assert len(story.done) == 10
    assert story.world.recorder.counts["YieldedMessages"] == 0


@pytest.mark.parametrize("slots", [1, 3])
def test_nor_in_an_environment_that_has_never_seen_it(slots):
    """The ledger tells."""
    story = failing_high(slots=slots)
    story.environments[0] = story._new_environment()

    story.step("MAIN")

    assert len(story.done) == 10


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("behind", [1, 40])
def test_messages_behind_it_in_its_group_do_not_hold_lower_lanes_back(slots, behind):
    """They are visible, but nobody can take them: for a moment they count, then no more."""
    story = failing_high(slots=slots, behind=behind)
    began = story.world.clock.now
    while len(story.done) < 100 and story.world.clock.now < began + 60:
        story.step("MAIN")
        story.world.clock.advance(0.1)

    assert story.starts[1].at - began <= GRACE + 15
    assert story.starts[-1].at - story.starts[1].at <= 15


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("behind", [1, 40])
def test_nor_do_they_for_a_moment(behind, fresh, slots):
    """Neither where it was seen to fail nor in an environment that knows nothing: the next batch is done whole."""
    story = failing_high(slots=slots, behind=behind)
    if fresh:
        story.environments[0] = story._new_environment()

    story.step("MAIN")

    assert len(story.done) == 10
    assert story.world.recorder.counts["YieldedMessages"] == 0


@pytest.mark.parametrize("slots", [1, 3])
def test_not_even_after_its_next_attempt(slots):
    """It comes with nine of those behind it, fails, and lower lanes go on at once; the rest was seen before."""
    story = failing_high("fail", behind=40, slots=slots)
    story.step("MAIN")
    for attempt in range(2):
        story.world.clock.advance(300 * 2 ** (attempt + 1))
        story.step("HIGH", environment=slots - 1)
        done = len(story.done)

        story.step("MAIN")

        assert story.starts[-1].lane == "MAIN"
        assert len(story.done) == done + 10


@pytest.mark.parametrize("slots", [1, 3])
def test_nor_do_messages_that_join_them(slots):
    """However often one comes: nobody can take it."""
    story = failing_high("fail", slots=slots)
    for number in range(10):
        story.send("HIGH", f"joins{number}")
        story.step("MAIN")
        story.world.clock.advance(0.3)

    assert len(story.done) == 100
    assert story.world.recorder.counts["YieldedMessages"] == 0


def test_a_new_message_of_another_group_still_counts():
    """Its mapping takes it out within milliseconds, which proves that it isn't stuck."""
    story = failing_high(behind=40)
    for _ in range(100):
        story.step("MAIN")
        story.world.clock.advance(0.2)
    for number in range(10):
        story.send("MAIN", f"more{number}", group=f"more{number}")

    story.send("HIGH", "urgent", group="other")
    story.world.receive("HIGH")
    before = len(story.starts)
    story.step("MAIN")

    assert len(story.starts) == before


def test_a_paused_lane_does_not_hold_lower_lanes_back():
    """Nobody takes its messages out, so they wait for no slot."""
    story = Story()
    story.send("HIGH", "paused")
    for number in range(20):
        story.send("MAIN", f"m{number}", group=f"g{number}")
    for _ in range(200):
        story.step("MAIN")
        story.world.clock.advance(0.1)

    assert len(story.done) == 20
    assert "paused" not in story.done


@pytest.mark.parametrize(
    ("waiting", "yields"), [(1, False), (10, False), (11, False), (20, False), (21, True), (60, True)]
)
def test_a_lower_lane_does_not_yield_while_a_slot_is_free_for_all_that_waits(waiting, yields):
    """Three slots: two batches above find theirs, a third one needs ours."""
    story = Story({"consumer": {"reserved_concurrency": 3}}, environments=3)
    story.send("MAIN", "main")
    for number in range(waiting):
        story.send("HIGH", f"h{number}", group=f"g{number}")

    story.step("MAIN")

    assert (story.done == []) is yields


def test_lanes_above_share_the_free_slots():
    """One batch of HIGH and one of MEDIUM take both of them; a second one of MEDIUM needs ours."""
    story = Story({"consumer": {"reserved_concurrency": 3}}, environments=3)
    story.send("HIGH", "high")
    story.send("MEDIUM", "medium")
    story.send("MAIN", "first")
    story.step("MAIN")
    assert story.done == ["first"]
    story.world.clock.advance(0.3)

    for number in range(15):
        story.send("MEDIUM", f"m{number}", group=f"g{number}")
    story.send("MAIN", "second")
    story.step("MAIN")

    assert story.done == ["first"]
    assert story.world.recorder.named("batch_yielded")[0]["to_lane"] == "MEDIUM"


def test_a_slot_that_another_environment_holds_is_not_free():
    """It tells so in the register."""
    story = Story({"consumer": {"reserved_concurrency": 2}}, environments=2)
    story.send("MEDIUM", "medium")
    for number in range(5):
        story.send("HIGH", f"h{number}", group=f"g{number}")
    story.send("MAIN", "main")
    seen = []

    def meanwhile(message):
        if message.id == "medium":
            story.step("MAIN", environment=1)
            seen.extend(story.done)

    story.in_handler = meanwhile
    story.step("MEDIUM", environment=0)

    assert seen == []


def test_records_that_run_elsewhere_do_not_wait():
    """They are in flight, and their environment says so."""
    story = Story({"consumer": {"reserved_concurrency": 2}}, environments=2)
    for number in range(10):
        story.send("HIGH", f"h{number}", group=f"g{number}")
    story.send("MAIN", "main")
    story.in_handler = lambda message: story.step("MAIN", environment=1) if message.id == "h3" else None

    story.step("HIGH", environment=0)

    assert story.done.index("main") < story.done.index("h3")


def test_a_lane_that_runs_as_much_as_it_may_does_not_claim_another_slot():
    """Its mapping's maximum concurrency is used up, so yielding would leave the slot to nobody."""
    story = Story(
        {
            "consumer": {"reserved_concurrency": 3},
            "lanes": [{"name": "HIGH", "threshold": 50, "maximum_concurrency": 2}, {"name": "MAIN"}],
        },
        environments=3,
    )
    for number in range(60):
        story.send("HIGH", f"h{number}", group=f"g{number}")
    story.send("MAIN", "main")

    def meanwhile(message):
        if message.id == "h0":
            story.step("HIGH", environment=1)
        elif message.id == "h10":
            story.step("MAIN", environment=2)

    story.in_handler = meanwhile
    story.step("HIGH", environment=0)

    assert "main" in story.done


@pytest.mark.parametrize("slots", [1, 2])
def test_records_that_are_done_and_not_deleted_yet_do_not_wait(slots):
    """The mapping deletes them after the invocation; the same environment may have begun another one by then."""
    story = Story({"consumer": {"reserved_concurrency": slots}}, environments=slots)
    for number in range(30):
        story.send("HIGH", f"h{number}", group=f"g{number}")
    story.send("MAIN", "main")
    batches = [story.world.receive("HIGH") for _ in range(3)]
    for batch in batches[:2]:
        story.invoke("HIGH", batch)
    story.invoke("HIGH", batches[2], deletes=False)
    story.world.clock.advance(0.02)

    story.step("MAIN")

    assert story.done[-1] == "main"


def test_a_lane_yields_to_higher_lanes_only():
    """HIGH never yields, MEDIUM to HIGH, MAIN to both."""
    story = Story()
    for lane in ("HIGH", "MEDIUM", "MAIN"):
        for number in range(3):
            story.send(lane, f"{lane}{number}", group=f"g{number}")

    for lane in ("MAIN", "MEDIUM", "HIGH"):
        story.step(lane)

    assert [start.lane for start in story.starts] == ["HIGH"] * 3
    assert [event["to_lane"] for event in story.world.recorder.named("batch_yielded")] == ["HIGH", "HIGH"]


def test_a_failed_reading_yields():
    """Not knowing is a reason to; the lower lane's handlers start only where it is known that they may."""
    story = Story()
    story.send("MAIN", "main")
    story.break_once(lambda operation: operation == "GetQueueAttributes", aws_error())

    story.step("MAIN")

    assert story.starts == []
    assert "higher_lanes_unknown" in [name for name, _ in story.world.recorder.problems]


def test_what_one_slot_remembers_of_a_wait_ends_soon():
    """The lane above was served by another environment, of which this one has not heard."""
    story = Story(environments=2)
    for number in range(3):
        story.send("MAIN", f"m{number}", group=f"g{number}")
    story.send("HIGH", "high")
    story.step("MAIN", 1, environment=0)
    story.step("HIGH", environment=1)
    assert story.done == ["high"]

    story.step("MAIN", 1, environment=0)
    story.world.clock.advance(1.01)
    story.step("MAIN", 1, environment=0)

    assert len(story.done) >= 2


def test_a_newer_reading_replaces_an_older_one_that_was_clear():
    """Another lane asked in between and found HIGH at work."""
    story = Story()
    story.send("MAIN", "before")
    story.step("MAIN")
    story.world.clock.advance(0.1)
    gate = story.environments[0]._prepared().gate
    story.send("HIGH", "high")
    main, medium = story.world.config.lane("MAIN"), story.world.config.lane("MEDIUM")

    assert gate.lane_above(main, expected=5.0).name == "HIGH"
    assert gate.lane_above(medium, expected=0.01).name == "HIGH"


def test_priority_switched_off_never_yields():
    """Nor is any count read."""
    story = Story({"enabled": False})
    for number in range(3):
        story.send("HIGH", f"high{number}")
        story.send("MAIN", f"main{number}")
        story.step("MAIN")
        story.step("HIGH")

    assert len(story.done) == 6
    assert story.world.calls.log == [BOARD_READ]


@pytest.mark.parametrize("work", [0.01, 0.2, 1.5])
@pytest.mark.parametrize(("burst_size", "every"), [(5, 20), (25, 60)])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_with_one_slot_no_lower_record_starts_while_a_higher_one_has_waited(work, burst_size, every, seed):
    """Behind mapping rules, throttles and deletions that take their time: no inversion in the whole run."""
    world = World({"consumer": {"function_timeout": 30}}, seed=seed)
    slot = SingleSlot(world, seed=seed)
    random = Random(seed)
    waiting, inversions, done = {}, [], []

    @world.consumer.handler("work")
    def handle(message, context):
        waiting.pop(message.id, None)
        if context.lane == "MAIN" and waiting:
            waited = world.clock.now - min(waiting.values())
            if waited > RECHECK + work + 0.05:
                inversions.append((message.id, waited))
        slot.work(work)
        done.append(message.id)

    def burst():
        for number in range(random.randrange(1, burst_size + 1)):
            name = f"high{world.clock.now}{number}"
            waiting[name] = world.clock.now
            world.send("HIGH", id=name, group=f"g{random.randrange(20)}")
        if len(done) < 300:
            slot.at(random.expovariate(1 / (every * work)), burst)

    for number in range(250):
        world.send("MAIN", id=f"main{number}", group=f"g{number % 120}")
    slot.at(0.1, burst)
    slot.run(4000 * work + 60, until=lambda: len(done) >= 300)

    assert len(done) >= 300
    assert inversions == []
