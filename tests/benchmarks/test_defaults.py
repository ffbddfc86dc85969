"""The comparison of defaults tries what differs from them, and tells what beats them."""

import dataclasses

import pytest

from benchmarks.choices import CHOICES, USUAL
from benchmarks.defaults import Tried, better_everywhere
from lanes.config import LanesConfig

TRIED = Tried(
    choice=CHOICES[0],
    room=False,
    slots=1,
    high_p50=1.0,
    high_p99=0.9,
    medium_p99=1.0,
    work=1.1,
    calls=1.0,
    worst_p99=1.0,
)


def test_the_defaults_are_those_of_an_empty_file():
    """Nothing but names and thresholds is written."""
    written = LanesConfig.from_dict(USUAL.raw(1, room=False))

    assert written.lanes == LanesConfig().lanes
    assert written.consumer == LanesConfig().consumer


@pytest.mark.parametrize(("milliseconds", "room"), [(250, False), (100, True)])
def test_a_choice_that_is_the_default_is_not_tried(milliseconds, room):
    """So 250 ms between two looks is a choice with a waiting room only, and 100 ms without one."""
    recheck = next(choice for choice in CHOICES if choice.value == f"{milliseconds} ms")

    assert not recheck.differs(1, room=room)
    assert recheck.differs(1, room=not room)


def test_every_choice_is_one_that_can_be_deployed():
    """At any number of slots, with its words for readers."""
    for choice in CHOICES:
        for slots in (1, 3, 10):
            assert LanesConfig.from_dict(choice.raw(slots, room=False)).lanes, choice.value
    assert len({(choice.setting, choice.value) for choice in CHOICES}) == len(CHOICES)


def test_a_choice_beats_its_default_only_at_every_number_of_slots():
    """One that does so at some is told apart, and where it is the default there is nothing to beat."""
    one, three, ten = (dataclasses.replace(TRIED, slots=slots) for slots in (1, 3, 10))

    assert better_everywhere([one, three, ten]) == ["yield_delay 1 to 3 s"]
    assert better_everywhere([one, three, dataclasses.replace(ten, work=1.0)]) == []
    assert better_everywhere([one, three, dataclasses.replace(ten, high_p99=1.0)]) == []
    assert better_everywhere([one, three]) == []
