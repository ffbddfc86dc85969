"""Whatever goes wrong around the consumer in virtual time, the oracle has nothing to say; and it would."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lanes.config import LanesConfig
from lanes.mapping.rules import Winner
from simulator.history import History
from simulator.oracle import violations
from simulator.parameters import Faults, Unknowns, variants
from simulator.simulated_lanes import Pattern, SimulatedLanes
from tests.simulation.loads import history, mixed_load
from tests.simulation.test_slots import schedule

ENGINES = [Pattern.LANES, Pattern.PULL]
ROOT = Path(__file__).resolve().parents[2]
EVERYTHING = Faults(
    call_errors=0.02,
    lost_answers=0.02,
    slow_calls=0.01,
    ledger_throttled=0.05,
    crashes=0.03,
    duplicates=0.02,
    undeleted=0.02,
    redeploy_every=5.0,
)
FAULTS = {
    "call errors": Faults(call_errors=0.05),
    "lost answers": Faults(lost_answers=0.05),
    "slow calls": Faults(slow_calls=0.05),
    "ledger throttled": Faults(ledger_throttled=0.3),
    "crashes": Faults(crashes=0.08),
    "duplicates": Faults(duplicates=0.1),
    "deletions lost": Faults(undeleted=0.1),
    "redeploys": Faults(redeploy_every=2.0),
    "clocks that jump": Faults(clock_jumps=600.0),
    "outages": Faults(outages=5.0),
    "everything": EVERYTHING,
}


@pytest.mark.parametrize("pattern", ENGINES)
@pytest.mark.parametrize(
    ("slots", "name"),
    [
        (1, "everything"),
        *((3, name) for name in FAULTS),
        *(pytest.param(1, name, marks=pytest.mark.nightly) for name in FAULTS if name != "everything"),
    ],
)
def test_nothing_is_lost_reordered_or_miscounted_under(name, slots, pattern):
    """Each fault alone and all together, with idempotency off and on."""
    for idempotency in (False, True):
        lanes = mixed_load(slots=slots, pattern=pattern, faults=FAULTS[name], idempotency=idempotency)

        assert violations(lanes) == []
        assert lanes.dead
        assert lanes.left == 0


@pytest.mark.parametrize("pattern", ENGINES)
@pytest.mark.parametrize("name", variants(Unknowns()))
def test_nothing_is_lost_reordered_or_miscounted_where_aws_is_silent(name, pattern):
    """Over the range of what isn't documented."""
    unknowns = variants(Unknowns())[name]

    assert violations(mixed_load(slots=3, pattern=pattern, unknowns=unknowns, seed=2)) == []


@pytest.mark.parametrize("pattern", ENGINES)
def test_a_run_is_decided_by_its_seed_alone(pattern):
    """With everything going wrong, two runs are the same to the last call."""
    unknowns = Unknowns(call_spread=0.5, noise=0.3, stale=0.5, winner=Winner.OLDEST, first_pollers=1)
    first, again = (
        mixed_load(slots=3, pattern=pattern, faults=EVERYTHING, unknowns=unknowns) for _ in range(2)
    )
    other = mixed_load(slots=3, pattern=pattern, faults=EVERYTHING, unknowns=unknowns, seed=2)

    assert history(first) == history(again)
    assert history(first) != history(other)


def test_a_run_does_not_depend_on_how_python_hashes_texts():
    """Sets and dictionaries of names decide nothing."""
    program = (
        "from tests.simulation.loads import mixed_load, history\n"
        "from tests.simulation.test_faults import EVERYTHING\n"
        "import hashlib\n"
        "lanes = mixed_load(slots=3, faults=EVERYTHING, backlog=60)\n"
        "print(hashlib.sha256(repr(history(lanes)[:3]).encode()).hexdigest(), lanes.scheduler.events)"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(told) == 1


def test_crashes_kill_invocations_and_start_environments_anew():
    """A fault that does nothing would prove nothing."""
    lanes = mixed_load(slots=3, faults=Faults(crashes=0.2))

    assert lanes.function.times.lost > 3
    assert lanes.function.times.cold_starts > lanes.function.times.lost
    assert any(how == "died" for ends in lanes.history.attempts.values() for _, how in ends)


def test_a_redeploy_replaces_all_environments():
    """Each starts cold again."""
    quiet, redeployed = (mixed_load(slots=3, faults=Faults(redeploy_every=at)) for at in (0.0, 2.0))

    assert redeployed.function.times.cold_starts > quiet.function.times.cold_starts + 10


def test_a_handler_that_outlasts_the_function_is_killed_and_dead_lettered():
    """The timeout ends environment and attempt; the attempts are counted all the same."""
    from lanes.config import LanesConfig
    from simulator.simulated_lanes import SimulatedLanes

    config = {"consumer": {"function_timeout": 5, "max_attempts": 3, "idempotency": True}}
    lanes = SimulatedLanes(LanesConfig.from_dict(config))
    lanes.send("MAIN", group="g", seconds=30)
    lanes.send("MAIN", group="g", seconds=0.1)

    assert lanes.settle(within=10_000)
    assert violations(lanes) == []
    assert (lanes.done, lanes.dead, lanes.function.times.lost) == (1, 1, 3)


def test_redeliveries_do_repeat_work_with_idempotency_off_and_do_not_with_it_on():
    """The faults reach the handler, and the ledger of effects holds them off."""
    off, on = (
        mixed_load(slots=3, faults=Faults(undeleted=0.2), idempotency=idempotency)
        for idempotency in (False, True)
    )

    def repeated(lanes):
        return sum(lanes.history.times_done(place) > 1 for place in lanes.history.places)

    assert repeated(off) > 0
    assert repeated(on) == 0


def test_the_oracle_sees_what_is_lost_twice_or_late():
    """Its own test: a run that is right, made wrong."""
    lanes = mixed_load(slots=1, backlog=30)
    assert violations(lanes) == []

    lanes.history.sent(1.0)
    lanes.handled.append(lanes.handled[0])
    place = next(place for place in lanes.history.places if lanes.history.times_done(place))
    lanes.history.end(place, attempt=1, how="done")
    told = " ".join(violations(lanes))

    assert "lost: 1" in told
    assert "done twice: 1" in told


def test_the_oracle_sees_an_order_that_was_not_kept():
    """A later message of a group that ended before an earlier one."""
    lanes = mixed_load(slots=1, backlog=30)
    for number in (2, 1):
        lanes.handled.append(lanes.handled[0]._replace(number=number, group="late"))

    assert "out of order: 1" in " ".join(violations(lanes))


def test_the_oracle_sees_it_also_if_the_late_message_was_repeated():
    """The first time counts."""
    lanes = mixed_load(slots=1, backlog=30)
    for number in (2, 1, 1):
        lanes.handled.append(lanes.handled[0]._replace(number=number, group="late"))

    assert "out of order: 1" in " ".join(violations(lanes))


def test_the_oracle_lets_work_be_repeated_in_the_lane_that_an_operator_chose():
    """The first of a group was done; its process died, and both were moved before it came again."""
    lanes = mixed_load(slots=1, backlog=30)
    moved = lanes.handled[0]._replace(group="moved")
    lanes.handled.append(moved._replace(number=1))
    for number in (2, 1):
        lanes.handled.append(moved._replace(number=number, lane="elsewhere"))

    assert not [line for line in violations(lanes) if "out of order" in line]


@pytest.mark.parametrize(
    ("attempts", "is_wrong"),
    [
        ([(1, "died"), (1, "died"), (2, "failed")], False),
        ([(1, "died"), (1, "died"), (1, "failed")], True),
        ([(1, "failed"), (2, "died"), (2, "failed")], True),
    ],
    ids=["first", "two", "second"],
)
def test_the_oracle_lets_the_first_attempt_alone_go_uncounted(attempts, is_wrong):
    """Where it killed its process, with idempotency off."""
    lanes = mixed_load(slots=1)
    lanes.history.attempts[1] = attempts

    assert ("wrong attempt number: 1" in " ".join(violations(lanes))) is is_wrong


def test_the_oracle_sees_attempts_that_yields_were_counted_into():
    """A handler told of its third attempt after one failure."""
    lanes = mixed_load(slots=1, backlog=30)
    lanes.history.attempts[1] = [(1, "failed"), (3, "done")]

    assert "wrong attempt number: 1" in " ".join(violations(lanes))


def test_the_history_counts_by_place():
    """Starts, ends and attempts of one message among others."""
    history = History()
    places = [history.sent(1.0) for _ in range(3)]

    assert [history.begin(places[1], at=moment) for moment in (2.0, 3.0)] == [0, 1]
    history.end(places[1], attempt=1, how="failed")
    history.end(places[1], attempt=2, how="done")

    assert [history.times_done(place) for place in places] == [0, 1, 0]
    assert [history.first_begun_at(place) for place in places] == [0.0, 2.0, 0.0]
    assert history.attempts == {2: [(1, "failed"), (2, "done")]}


@pytest.mark.parametrize("fault", ["none", "crashes", "redeploys"])
def test_who_makes_way_at_a_checkpoint_has_failed_nothing(fault):
    """Long records below bursts: they are interrupted half way, again and again, and done in the end."""
    raw = {"consumer": {"reserved_concurrency": 2, "function_timeout": "30s"}}
    lanes = SimulatedLanes(LanesConfig.from_dict(raw), faults=FAULTS.get(fault), seed=5)
    for number in range(30):
        lanes.send("MAIN", group=f"m{number % 6}", seconds=4.0, fault="check")
    schedule(lanes, lanes.chance, "HIGH", first=1.0, span=120.0, rate=0.1, burst=20)

    assert lanes.settle(within=7_200)

    ends = [how for attempts in lanes.history.attempts.values() for _, how in attempts]
    assert ends.count("yielded") > 0
    assert violations(lanes) == []
    assert lanes.done == lanes.sent
