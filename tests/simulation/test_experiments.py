"""The first experiments replayed: what was seen then is seen, and what this product changes about it."""

import pytest

from lanes.errors import ConfigurationError
from simulator.experiments import EXPERIMENTS, named, replay

REPLAYS = {}


def timelines(name):
    """Replay each experiment once."""
    if name not in REPLAYS:
        REPLAYS[name] = replay(*named(name)).timelines
    return REPLAYS[name]


def lanes_of(timeline):
    return [lane for lane, _, _ in timeline.done]


def numbers_of(timeline, lane):
    return [number for one, number, _ in timeline.done if one == lane]


def in_order_within_groups(timeline):
    last = {}
    for lane, number, group in timeline.done:
        if last.get((lane, group), 0) >= number:
            return False
        last[lane, group] = number
    return True


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda one: one.name)
def test_every_message_is_done_by_every_pattern(experiment):
    """And by ours exactly once."""
    expected = sum(count for _, _, count in experiment.sends)
    for name, timeline in timelines(experiment.name).items():
        assert len({(lane, number) for lane, number, _ in timeline.done}) == expected
        if name != "plain":
            assert len(timeline.done) == expected


def test_without_priority_standard_queues_are_mixed_and_out_of_order():
    """Both queues at the same time, in no order."""
    plain, ours, *_ = timelines("no-priority").values()

    assert lanes_of(plain) != sorted(lanes_of(plain))
    assert "MAIN" in lanes_of(plain)[:5]
    assert numbers_of(plain, "MAIN") != sorted(numbers_of(plain, "MAIN"))
    assert "MAIN" not in lanes_of(ours)[:10]


def test_standard_queues_give_priority_without_order_and_with_many_yields():
    """The counts are right only after a while, and each batch that is taken out yields by itself."""
    plain, ours, *_ = timelines("standard").values()

    assert numbers_of(plain, "MAIN") != sorted(numbers_of(plain, "MAIN"))
    assert sum("yields" in line for line in plain.lines) > sum("yields" in line for line in ours.lines)
    assert ours.seconds < plain.seconds


def test_two_fifo_queues_give_a_perfect_order_with_one_yield():
    """Whatever was begun is done, then everything of HIGH, then the rest; the pull engine yields nothing."""
    for name, timeline in timelines("fifo").items():
        assert lanes_of(timeline) == ["MAIN"] * 3 + ["HIGH"] * 5 + ["MAIN"] * 7
        assert in_order_within_groups(timeline)
        assert sum("yields" in line for line in timeline.lines) == (name != "ours, pull")


@pytest.mark.parametrize(
    ("name", "plain", "ours"), [("fifo", 80, 79), ("three-levels", 111, 95), ("three-slots", 66, 59)]
)
def test_the_plain_pattern_waits_for_its_own_visibility_of_thirty_seconds(name, plain, ours):
    """Its work takes 75, 90 and 50: ours gains 3, 15 and 11 %, far less than over a longer visibility."""
    found = timelines(name)

    assert found["plain"].seconds == pytest.approx(plain, abs=1)
    assert ours - 1.5 < found["ours"].seconds < ours


def test_three_levels_empty_in_their_order():
    """MEDIUM yields to HIGH, MAIN to both."""
    for timeline in timelines("three-levels").values():
        assert lanes_of(timeline) == (
            ["MAIN"] * 3 + ["MEDIUM"] * 4 + ["HIGH"] * 3 + ["MEDIUM"] * 1 + ["MAIN"] * 7
        )
        assert in_order_within_groups(timeline)


def test_three_slots_keep_the_order_of_each_group():
    """And at the slot count that was described, HIGH goes before what had not begun."""
    for name, timeline in timelines("three-slots").items():
        assert in_order_within_groups(timeline)
        if name not in ("ours", "ours, pull"):
            order = lanes_of(timeline)
            assert "MAIN" not in order[order.index("HIGH") : order.index("HIGH") + 10]


def test_a_replay_prints_its_lists_side_by_side():
    """For people, and as data for programs."""
    one = replay(*named("fifo"))
    text = one.text().splitlines()

    assert text[0].startswith("fifo: two FIFO queues")
    assert text[2].split() == ["plain", "ours", "ours,", "pull"]
    assert text[3].split() == ["MAIN", "1", "MAIN", "1", "MAIN", "1"]
    assert one.plain()["ours"]["order"][3] == "  MAIN yields (7 messages)"


def test_an_unknown_experiment_is_named_with_the_nearest():
    """Like any wrong name."""
    with pytest.raises(ConfigurationError, match="did you mean 'fifo'"):
        named("fif")
