"""Redriving and deleting dead letters, on queues in memory that keep SQS's documented rules."""

from collections import defaultdict
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanes.operate.dead_letters import DeadLetterFilter
from lanes.operate.redrive import DeadLetterRun, Task, waves
from lanes.testing.clock import FakeClock
from tests.support.dead_letters import Killed, MemoryDeadLetters, depth_of, taken_from
from tests.support.operating import Trail

ALL = DeadLetterFilter()


@pytest.fixture
def queues():
    """A lane without anything in it."""
    return MemoryDeadLetters(FakeClock())


def run(queues, wanted=ALL, *, copies=True, report=lambda _: None, audit=None, **task):
    """Work through the dead letters once."""
    return DeadLetterRun(
        Task(lane="MAIN", wanted=wanted, copies=copies, **task),
        queues=queues,
        audit=audit or Trail(),
        report=report,
        clock=queues.clock,
        pause=queues.clock.advance,
    ).run()


def by_group(arrived):
    """Give the numbers of each group in the order of arrival."""
    groups = defaultdict(list)
    for group, number in arrived:
        groups[group].append(number)
    return dict(groups)


def _killer(countdown):
    left = iter(range(countdown - 1))

    def kill(_name):
        if next(left, None) is None:
            raise Killed

    return kill


def test_every_dead_letter_goes_back_to_its_lane_in_the_order_of_its_group(queues):
    """More than one receive can show of a group, and several groups."""
    for number in range(60):
        queues.put(number, group=f"g{number % 3}")

    progress = run(queues)

    assert by_group(queues.in_lane()) == {f"g{rest}": list(range(rest, 60, 3)) for rest in range(3)}
    assert (progress.expected, progress.done, progress.left, progress.failed) == (60, 60, 0, {})


@pytest.mark.parametrize("copies", [True, False])
def test_a_run_is_audited_with_what_was_asked_and_how_far_it_came(queues, copies):
    """Also one that is interrupted."""
    trail = Trail()
    for number in range(30):
        queues.put(number, group=f"g{number}")
    asked = {"filter": ALL.describe(), "limit": 12, "rate": 5.0}

    def stop(progress):
        if progress.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(queues, copies=copies, audit=trail, limit=12, rate=5.0, report=stop)

    action = ("dead-letters redrive" if copies else "dead-letters delete", "MAIN")
    assert trail.written == [
        (*action, "started", asked),
        (*action, "interrupted", asked | {"done": 10, "failed": 0}),
    ]


def test_a_call_carries_one_copy_of_each_of_ten_groups(queues):
    """A receive returns ten of one group, and ten calls for those would be a tenth of the speed."""
    for group in range(10):
        for number in range(30):
            queues.put(f"{group}-{number}", group=f"g{group}")

    progress = run(queues)

    assert progress.done == 300
    assert set(queues.batches) == {10}
    assert queues.calls.count("receive") < 40


def test_a_group_alone_takes_one_receive_for_ten_letters(queues):
    """None of a group with a hidden message is delivered, so a second receive would find nothing."""
    for number in range(300):
        queues.put(number)

    progress = run(queues)

    assert progress.done == 300
    assert by_group(queues.in_lane()) == {"g": list(range(300))}
    # One for each ten, one for the end, and one of ten for other groups.
    assert queues.calls.count("receive") <= 30 + 1 + 3


def test_other_groups_are_found_again_beside_one_that_was_alone(queues):
    """They may arrive during the run."""
    for number in range(200):
        queues.put(number)
    arriving = iter(range(100))
    queues.before_call = lambda name: (
        queues.put(f"o{number}", group=f"g{number}")
        if name == "copy" and (number := next(arriving, None)) is not None
        else None
    )

    run(queues)

    assert max(queues.batches) == 10


def test_a_run_ends_with_the_first_empty_receive_if_none_is_left(queues):
    """A second one would take another second; it is made only if SQS counts a dead letter."""
    queues.put(1)

    run(queues)

    assert queues.calls.count("receive") == 2


def test_letters_in_hand_are_limited_by_their_visibility_timeout(queues):
    """With a short one the last of a hundred would be visible before its turn."""
    for number in range(200):
        queues.put(number, group=f"g{number}")
    most = []
    queues.before_call = lambda name: most.append(depth_of(queues.dead).in_flight) if name == "copy" else None

    run(queues, hide=timedelta(seconds=6))

    assert max(most) == 20


@settings(max_examples=60, deadline=None)
@given(data=st.data(), count=st.integers(1, 45), groups=st.integers(1, 6))
def test_a_run_killed_at_any_call_loses_none_and_doubles_none(data, count, groups):
    """Ten times in a row, each time started again at once."""
    queues = MemoryDeadLetters(FakeClock())
    for number in range(count):
        queues.put(number, group=f"g{number % groups}")
    for _ in range(10):
        countdown = data.draw(st.integers(1, 40))
        queues.before_call = _killer(countdown)
        try:
            run(queues, hide=timedelta(seconds=10))
        except Killed:
            continue
    queues.before_call = lambda _name: None
    run(queues, hide=timedelta(seconds=10))

    assert by_group(queues.in_lane()) == by_group((f"g{number % groups}", number) for number in range(count))
    assert depth_of(queues.dead).is_empty


def test_what_is_not_meant_stays_where_it_was(queues):
    """A filter by kind leaves the others in the queue, visible and in order."""
    for number in range(20):
        queues.put(number, group=f"g{number}", kind="order.placed" if number % 2 else "order.changed")

    progress = run(queues, DeadLetterFilter(kind="order.pl*"))

    assert sorted(number for _, number in queues.in_lane()) == list(range(1, 20, 2))
    assert (progress.done, progress.kept, progress.left) == (10, 10, 10)
    assert sorted(number for _, number in taken_from(queues.dead)) == list(range(0, 20, 2))


def test_those_behind_ten_that_stay_are_reported_as_left(queues):
    """SQS shows no more of a group while ten of it are held; the run ends and says how many remain."""
    for number in range(15):
        queues.put(number, kind="other" if number < 12 else "order.placed")

    progress = run(queues, DeadLetterFilter(kind="order.placed"))

    assert (progress.done, progress.left) == (0, 15)


def test_a_group_that_a_receive_has_cut_is_looked_through_all_the_same(queues):
    """Ten messages end in the middle of a group; what is meant behind one that stays is still found."""
    for number in range(60):
        queues.put(number, group=f"g{number % 10}", kind="order.placed" if number >= 50 else "other")

    assert run(queues, DeadLetterFilter(kind="order.placed")).done == 10


def test_one_that_the_lane_does_not_take_holds_its_group_and_no_other(queues):
    """Order goes before progress: the later ones of its group stay too, and each says why."""
    for number in range(40):
        queues.put(number, group=f"g{number % 2}")
    queues.refuse = {"order.placed-4"}

    progress = run(queues, hide=timedelta(seconds=3))

    assert by_group(queues.in_lane()) == {"g0": [0, 2], "g1": list(range(1, 40, 2))}
    assert "refused" in progress.failed.values()
    assert any("earlier one of its group" in why for why in progress.failed.values())
    assert progress.left == 18


def test_what_a_killed_run_holds_is_waited_for(queues):
    """Its hold ends some time after the kill; the next run does not go without it."""
    queues.put(1)
    queues.receive("MAIN", limit=10, hold=timedelta(seconds=20))

    assert run(queues).done == 1


def test_someone_who_holds_on_for_good_does_not_keep_the_run(queues):
    """It ends a little after its own hold, and tells what is left."""
    queues.put(1)
    queues.receive("MAIN", limit=10, hold=timedelta(hours=1))

    progress = run(queues, hide=timedelta(seconds=10))

    assert (progress.done, progress.left) == (0, 1)
    assert queues.clock.now < FakeClock().now + 20


def test_an_interrupted_run_gives_back_what_it_works_on(queues):
    """Another one need not wait for it."""
    for number in range(20):
        queues.put(number, group=f"g{number}")
    copies = iter(range(5))

    def interrupt(name):
        if name == "copy" and next(copies, None) is None:
            raise KeyboardInterrupt

    queues.before_call = interrupt
    with pytest.raises(KeyboardInterrupt):
        run(queues)

    assert depth_of(queues.dead).in_flight == 0
    queues.before_call = lambda _name: None
    run(queues)
    assert sorted(number for _, number in queues.in_lane()) == list(range(20))


def test_a_limit_ends_the_run_early(queues):
    """The rest stays visible."""
    for number in range(30):
        queues.put(number, group=f"g{number % 7}")

    progress = run(queues, limit=12)

    assert (progress.done, progress.left) == (12, 18)
    assert depth_of(queues.dead).backlog == 18


def test_a_rate_is_kept(queues):
    """Thirty at five in a second take about six seconds."""
    for number in range(30):
        queues.put(number, group=f"g{number}")
    started = queues.clock.now

    run(queues, rate=5.0)

    assert queues.clock.now - started == pytest.approx(6.0 + 1.0, abs=2.1)


def test_a_slow_run_receives_no_more_than_it_can_settle_while_it_holds_them(queues):
    """One in ten seconds with a hold of thirty: one at a time."""
    for number in range(5):
        queues.put(number, group=f"g{number}")
    held = []
    queues.before_call = lambda _name: held.append(depth_of(queues.dead).in_flight)

    run(queues, rate=0.1)

    assert max(held) == 1


def test_what_fails_again_at_once_is_sent_once_and_stays(queues):
    """A consumer that still fails gives each copy up while the run works; the run ends all the same."""
    for number in range(30):
        queues.put(number, group=f"g{number % 3}")

    def give_up(name):
        if name == "receive":
            queues.give_up_what_arrived()

    queues.before_call = give_up
    progress = run(queues)

    assert (progress.done, progress.returned, progress.failed, progress.left) == (30, 30, {}, 30)
    assert depth_of(queues.dead).backlog == 30
    assert run(queues).done == 30, "another run means what came back of this one"


def test_two_runs_at_once_do_not_send_what_fails_to_each_other(queues):
    """Each took the other's copies for new dead letters: twelve of two operators were handled sixty times."""
    for number in range(30):
        queues.put(number, group=f"g{number}")
    rounds = iter(range(100))

    def other_run(name):
        if name == "receive" and next(rounds, None) is not None:
            queues.clock.advance(1)
            queues.give_up_what_arrived()
            queues.before_call = lambda _name: None
            letters = queues.receive("MAIN", limit=3, hold=timedelta(seconds=30), wait=False)
            queues.copy(letters)
            queues.delete(letters)
            queues.before_call = other_run

    queues.before_call = other_run
    progress = run(queues)

    assert progress.done <= 30 + 3
    assert progress.returned > 0


def test_deleting_copies_nothing(queues):
    """What is meant is gone, the rest stays."""
    for number in range(10):
        queues.put(number, group=f"g{number}", reason="no handler" if number < 4 else "attempts exhausted")

    progress = run(queues, DeadLetterFilter(reason="NO HANDLER"), copies=False)

    assert (progress.done, progress.left) == (4, 6)
    assert queues.in_lane() == []
    assert "copy" not in queues.calls


def test_progress_is_told_as_it_happens(queues):
    """A bar can be drawn from it."""
    for number in range(25):
        queues.put(number, group=f"g{number}")
    told = []

    run(queues, report=lambda progress: told.append(progress.done))

    assert told == [0, 10, 20, 25]


def test_waves_have_one_of_each_group():
    """In the order of each group."""
    queues = MemoryDeadLetters(FakeClock())
    for number, group in enumerate("aabab"):
        queues.put(number, group=group)
    letters = queues.receive("MAIN", limit=10, hold=timedelta(seconds=1))

    found = [[(one.group, one.event_id[-1]) for one in wave] for wave in waves(letters)]

    assert found == [[("a", "0"), ("b", "2")], [("a", "1"), ("b", "4")], [("a", "3")]]
