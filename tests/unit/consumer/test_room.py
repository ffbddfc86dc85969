"""The waiting room: who gets a slot, in which order, and what becomes of slots whose holders are lost."""

import dataclasses

import pytest

from lanes.consumer.room import GIVING_BACK, LINE_LASTS, LOOK_LATER, WaitingRoom
from lanes.consumer.slots import Occupation, SlotsSnapshot
from lanes.errors import AwsError
from lanes.testing.memory import MemoryRegister
from tests.support.memory import Calls, FakeClock, aws_error

LASTS = 30.0


class House:
    """A register, a clock, and what happens while somebody waits."""

    def __init__(self, slots=1):
        self.clock = FakeClock()
        self.calls = Calls()
        self.register = MemoryRegister(self.calls)
        self.slots = slots
        self.meanwhile = []

    def room(self):
        return WaitingRoom(register=self.register, slots=self.slots, clock=self.clock, pause=self._pause)

    def line(self, environment, *, rank=2):
        rank = 2 if callable(rank) else rank
        return Occupation(
            environment=environment,
            lane=("HIGH", "MEDIUM", "MAIN")[rank],
            records=10,
            busy=True,
            until=self.clock.now + LASTS,
            rank=rank,
        )

    def wait(self, environment, *, rank=2, since=None):
        """Let somebody stand in line who is not looked at further."""
        line = self.line(environment, rank=rank)
        self.register.write(
            dataclasses.replace(
                line, busy=False, waiting_since=since or self.clock.now, until=self.clock.now + LINE_LASTS
            ),
            now=self.clock.now,
            parked_until={},
        )

    def take(self, environment, *, rank=2, patience=5.0, room=None, lasts=0.0):
        room = room or self.room()
        return room.take(
            self.line(environment, rank=rank),
            SlotsSnapshot(),
            patience=patience,
            parked_until={},
            lasts=lasts,
            rank=rank if callable(rank) else lambda _waits, _seen: rank,
        )

    def holders(self):
        return {holder for holder, until in self.register.taken.values() if until > self.clock.now}

    def _pause(self, seconds):
        self.clock.advance(seconds)
        for moment, action in [*self.meanwhile]:
            if moment <= self.clock.now:
                self.meanwhile.remove((moment, action))
                action()


def test_a_free_slot_is_taken_with_one_call():
    """Nobody else has one, so there is nothing to read."""
    house = House()

    assert house.take("a") is not None

    assert house.holders() == {"a"}
    assert house.calls.log == ["UpdateItem"]


def leaving(house, environment, room, *, after):
    """Let who holds a slot give it back so many seconds from now."""

    def leave():
        line = dataclasses.replace(house.line(environment), busy=False)
        house.register.write(line, now=house.clock.now, parked_until={}, frees=room.give_back())

    house.meanwhile.append((house.clock.now + after, leave))


def test_a_slot_has_one_holder():
    """The second waits until its patience is over, and holds nothing."""
    house = House()
    house.take("a")

    assert house.take("b", patience=2.0) is None

    assert house.holders() == {"a"}


def test_as_many_hold_one_as_there_are_slots():
    """And no more."""
    house = House(slots=3)

    taken = [house.take(name, patience=0.5) is not None for name in "abcd"]

    assert taken == [True, True, True, False]
    assert house.holders() == {"a", "b", "c"}


def test_a_slot_that_is_given_back_is_taken_within_a_moment():
    """By whoever is next in line."""
    house = House()
    first = house.room()
    house.take("a", room=first)
    began = house.clock.now
    leaving(house, "a", first, after=1.0)

    assert house.take("b") is not None
    assert 1.0 <= house.clock.now - began <= 1.1


def looks(house):
    return house.calls.counts["GetItem"]


def test_the_first_in_line_takes_a_slot_at_its_holders_likely_end_without_a_look():
    """It knew since its last one when that would be."""
    house = House()
    first = house.room()
    house.take("a", room=first, lasts=1.0)
    began = house.clock.now
    leaving(house, "a", first, after=1.0)

    assert house.take("b") is not None
    assert 1.0 <= house.clock.now - began <= 1.0 + GIVING_BACK + 1e-6
    assert looks(house) <= 1.0 / LOOK_LATER + 1


@pytest.mark.parametrize("after", [0.3, 1.5])
def test_a_holder_that_leaves_at_another_time_than_is_likely_is_followed_soon_all_the_same(after):
    """Nobody has the slot beside it, whenever it leaves."""
    house = House()
    first = house.room()
    house.take("a", room=first, lasts=1.0)
    began = house.clock.now
    leaving(house, "a", first, after=after)

    assert house.take("b") is not None
    assert after <= house.clock.now - began <= after + LOOK_LATER + 1e-6


def test_who_may_be_made_way_for_does_not_rely_on_a_lower_lanes_end():
    """It looks as often as where nothing is known."""
    known, unknown = House(), House()
    for house, lasts in ((known, 10.0), (unknown, 0.0)):
        house.take("main", rank=2, lasts=lasts)
        assert house.take("high", rank=0, patience=2.0) is None

    assert looks(known) == looks(unknown) > 50


def test_a_slot_that_there_is_no_more_is_not_waited_for():
    """After a deploy with fewer slots the line of one who had it may stand for a while."""
    house = House()
    house.take("a")
    gone = dataclasses.replace(house.line("old"), slot=1, ends_about=house.clock.now + LASTS)
    house.register.write(gone, now=house.clock.now, parked_until={})

    assert house.take("b", patience=2.0) is None
    assert looks(house) > 2 * 2.0 / LOOK_LATER


def test_those_far_behind_look_seldom():
    """However many there are, they cost the item that all share little."""
    near, far = House(), House()
    for house, before in ((near, 1), (far, 4)):
        house.take("holder")
        for number in range(before):
            house.wait(f"before{number}", rank=0, since=house.clock.now - 5)
            house.register.lines[f"before{number}"] = dataclasses.replace(
                house.register.lines[f"before{number}"], until=house.clock.now + LASTS
            )
        assert house.take("me", patience=2.0) is None

    assert looks(far) <= 2.0 / LOOK_LATER + 1
    assert looks(near) > 2 * looks(far)


@pytest.mark.parametrize(("rank", "since"), [(0, 5.0), (2, -5.0), (-1, 5.0)])
def test_nobody_takes_a_slot_before_those_who_go_first(rank, since):
    """A higher lane, the same lane for longer, or overdue records."""
    house = House()
    house.wait("other", rank=rank, since=house.clock.now + since)

    assert house.take("me", patience=2.0) is None


@pytest.mark.parametrize(("rank", "since"), [(2, 5.0), (3, -5.0)])
def test_those_who_come_later_or_lower_wait_behind(rank, since):
    """They don't hold anybody up."""
    house = House()
    line = dataclasses.replace(house.line("other"), rank=rank, busy=False, until=house.clock.now + LINE_LASTS)
    house.register.write(
        dataclasses.replace(line, waiting_since=house.clock.now + since), now=house.clock.now, parked_until={}
    )

    assert house.take("me", patience=1.0) is not None


def test_who_becomes_overdue_in_line_goes_before_all_from_then_on():
    """It is asked at each look, and the others are told at once."""
    house = House()
    house.wait("high", rank=0)
    began = house.clock.now
    ranks = []
    house.meanwhile += [
        (began + second, lambda: house.wait("high", rank=0, since=began)) for second in (1.0, 2.0)
    ]
    house.meanwhile.append(
        (began + 1.3, lambda: ranks.extend(line.rank for line in house.register.lines.values()))
    )

    taken, _ = house.take("main", rank=lambda _waits, _seen: -1 if house.clock.now - began > 1.5 else 2)

    assert taken.rank == -1
    assert house.holders() == {"main"}
    assert 1.5 <= house.clock.now - began <= 1.7
    assert ranks == [0, 2]


def test_who_becomes_overdue_in_line_tells_the_others_at_once():
    """Or others that count as overdue would go on along with it, on one account."""
    house = House()
    house.take("holder")
    began = house.clock.now
    told = []
    for moment in (0.4, 0.7):
        house.meanwhile.append((began + moment, lambda: told.append(house.register.lines["main"].rank)))

    house.take("main", rank=lambda _waits, _seen: -1 if house.clock.now - began > 0.5 else 2, patience=1.0)

    assert told == [2, -1]


def test_two_slots_suffice_for_one_above_and_one_below():
    """The lower one takes the second."""
    house = House(slots=2)
    house.wait("high", rank=0)

    assert house.take("main", patience=1.0) is not None


def test_a_line_of_a_lost_environment_holds_nobody_up_for_long():
    """It isn't written anew."""
    house = House()
    house.wait("lost", rank=0)
    began = house.clock.now

    assert house.take("me", patience=10.0) is not None

    assert house.clock.now - began == pytest.approx(LINE_LASTS, abs=0.1)


def test_a_slot_of_a_lost_environment_is_free_when_its_line_ends():
    """Not before: it may be at work."""
    house = House()
    house.take("lost")
    began = house.clock.now

    assert house.take("me", patience=60.0) is not None

    assert house.clock.now - began == pytest.approx(LASTS, abs=0.1)


def test_who_waits_says_so_again_and_again():
    """Or it would be taken for lost."""
    house = House()
    house.take("a")
    seen = []
    for second in range(1, 9):
        house.meanwhile.append(
            (
                house.clock.now + second,
                lambda: seen.append(house.register.read("x").waiting(house.clock.now, "MAIN")),
            )
        )

    house.take("b", patience=10.0)

    assert seen == [1] * 8


def test_a_higher_lane_that_comes_at_the_same_moment_goes_first():
    """Its line stood there when the slot was taken, so the slot goes back."""
    house = House()
    came = []

    def comes(_operation):
        if not came:
            came.append("high")
            house.wait("high", rank=0)

    house.calls.takes = comes

    assert house.take("main", patience=1.0) is None
    assert house.holders() == set()


def test_a_slot_that_was_taken_although_the_answer_was_lost_is_given_back():
    """Whoever fails to learn that it has it must not keep it."""
    house = House()
    house.calls.lose_if = lambda operation, _: aws_error() if operation == "UpdateItem" else None
    room = house.room()

    with pytest.raises(AwsError):
        house.take("a", room=room)
    house.calls.lose_if = lambda _operation, _: None
    assert house.holders() == {"a"}
    line = dataclasses.replace(house.line("a"), busy=False)
    house.register.write(line, now=house.clock.now, parked_until={}, frees=room.give_back())

    assert house.holders() == set()


def test_a_slot_whose_giving_back_failed_is_given_back_with_what_is_told_next():
    """Else nobody had it until this environment's invocation could run no more."""
    house = House()
    room = house.room()
    house.take("a", room=room)
    house.calls.break_if = lambda _operation, _: aws_error()
    with pytest.raises(AwsError):
        room.step_aside(house.line("a"), since=house.clock.now, parked_until={})
    assert house.holders() == {"a"}

    assert room.give_back() == 0


def test_a_slot_that_goes_to_a_higher_lane_is_kept_in_mind_until_that_was_told():
    """The lane came at the same moment, and the call that gives the slot back failed."""
    house = House()
    room = house.room()
    take = house.register.take

    def taken(*args, **fields):
        house.wait("high", rank=0)
        return take(*args, **fields)

    house.register.take = taken
    house.calls.break_if = lambda _operation, _: aws_error() if house.holders() else None
    with pytest.raises(AwsError):
        house.take("main", room=room)
    assert house.holders() == {"main"}

    assert room.give_back() == 0


def test_a_slot_that_somebody_else_was_faster_to_take_is_nothing_to_give_back():
    """It never was this environment's."""
    house = House()
    house.take("a")
    room = house.room()

    assert house.take("b", room=room, patience=0.5) is None

    assert room.give_back() is None


def test_stepping_aside_lets_the_higher_lane_in_and_brings_the_slot_back():
    """The records stay in hand meanwhile."""
    house = House()
    main, high = house.room(), house.room()
    house.take("main", room=main)
    house.wait("high", rank=0)
    since = house.clock.now

    def high_comes():
        assert house.take("high", rank=0, room=high) is not None

    def high_leaves():
        line = dataclasses.replace(house.line("high", rank=0), busy=False)
        house.register.write(line, now=house.clock.now, parked_until={}, frees=high.give_back())

    house.meanwhile += [(since + 0.02, high_comes), (since + 1.0, high_leaves)]
    seen = main.step_aside(house.line("main"), since=since, parked_until={})
    taken = main.take(
        house.line("main"), seen, patience=5.0, parked_until={}, rank=lambda _waits, _seen: 2, since=since
    )

    assert taken is not None
    assert house.holders() == {"main"}
    assert 1.0 <= house.clock.now - since <= 1.15
