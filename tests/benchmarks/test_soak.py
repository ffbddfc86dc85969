"""The soak finds nothing in the consumer as it is, and finds what is broken in one that is not."""

from collections import Counter

import pytest

from benchmarks.soak import command_of, main, soak
from benchmarks.soak_faults import hostile_body
from benchmarks.soak_round import FAULTS, Round, breaches
from lanes.consumer import Consumer

pytestmark = pytest.mark.deep


def test_a_short_soak_breaks_no_promise():
    """A few rounds, whatever they draw; the command runs as long as one likes."""
    seen, breached = soak(rounds=lambda done: done < 6, seed=77, say=print)

    assert breached is None
    assert seen["rounds"] == 6
    assert min(seen["messages"], seen["hostile"], seen["yields"], seen["throttles"], seen["dead_letters"]) > 0


def test_a_round_is_drawn_from_its_seed():
    """So that a breach can be shown again."""
    assert list(Round(seed=5).description()) == list(Round(seed=5).description())
    assert list(Round(seed=5).description()) != list(Round(seed=6).description())
    first, again = Counter(), Counter()
    assert breaches(Round(seed=5, messages=20), first) == breaches(Round(seed=5, messages=20), again)
    assert first == again


def test_a_lane_may_wait_for_higher_lanes_after_a_crash():
    """The slot is back in time, and has the urgent messages of that time before those of the lowest lane."""
    assert Round(seed=600_136).only_crashes
    assert breaches(Round(seed=600_136), Counter()) == []


def test_a_batch_that_is_delivered_twice_may_meet_an_override_once():
    """One delivery cancels a message that the other, which read the overrides before, handles."""
    without = frozenset({"clock_jumps", "hostile", "repeats"})
    assert breaches(Round(seed=700_137, messages=300, without=without), Counter()) == []


def test_a_fault_that_is_left_out_changes_no_other():
    """Or making a round smaller would make it another one."""
    whole = Round(seed=9).faults
    assert whole

    for name in whole:
        rest = Round(seed=9, without=frozenset({name})).faults
        assert rest == {key: value for key, value in whole.items() if key != name}


def test_all_faults_come_up():
    """Within a handful of rounds."""
    assert {name for seed in range(12) for name in Round(seed=seed).faults} == set(FAULTS)


def answers_empty(self, event, context, *, handle=Consumer.handle):
    """Return an empty answer, whatever happened: the mistake of a careless handler."""
    handle(self, event, context)
    return {"batchItemFailures": []}


def test_an_empty_answer_is_found_and_made_small(monkeypatch, capsys):
    """It deletes what was not done: messages are lost, and the command of the small round shows it again."""
    monkeypatch.setattr(Consumer, "handle", answers_empty)

    _, breached = soak(rounds=lambda done: done < 5, seed=2, say=lambda _text: None)

    assert breached is not None
    assert breached.messages <= 20
    assert "lost" in " ".join(breaches(breached, Counter()))
    arguments = command_of(breached).split()[3:]
    assert main(arguments) == 1
    assert "BREACH" in capsys.readouterr().out


@pytest.mark.parametrize("seed", range(3))
def test_hostile_bodies_differ_and_have_a_character(seed):
    """They are told apart by their text alone."""
    chance = Round(seed=seed).chance("bodies")
    bodies = [hostile_body(chance, number) for number in range(200)]

    assert len(set(bodies)) == 200
    assert all(bodies)
