"""
Overrides under faults: each call fails once in every way, and any interleaving with crashes and lost deletions.

One scenario touches each call of a consumer that cancels and sends on, with idempotency on, since a message that is
sent on may come twice. It runs once to count its calls, then once for each call and each kind of fault.
"""

from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from lanes.errors import AwsError
from lanes.events import Event
from lanes.metrics import Metric
from lanes.testing.calls import ProcessKilled
from tests.contract.test_c1_faults import CRASHED, CRASHED_AFTER, REFUSED, UNANSWERED, UNFORESEEN, _break
from tests.support.overriding import Overridden

CANCELLED = {"c1", "c2"}


def tell(slots, *, position=None, fault=None):
    """Tell the scenario, with the call at a position broken, to its end."""
    scenario = Overridden(
        {
            "consumer": {
                "reserved_concurrency": slots,
                "idempotency": True,
                "max_attempts": 2,
                "backoff_max": 5,
            },
            "lanes": [
                {"name": "HIGH", "threshold": 50, "batch_size": 4},
                {"name": "MAIN", "batch_size": 3},
            ],
        },
        environments=slots,
        seed=7,
    )
    scenario.takes = 0.2
    for number in range(6):
        scenario.send("MAIN", f"m{number}", group="moved")
        scenario.send("MAIN", f"g{number}", group="whole")
    for name in ("c1", "k1", "c2", "k2"):
        scenario.send("MAIN", name, group="mixed")
    scenario.send("MAIN", "d", "fail", "fail", "ok", group="dead")
    scenario.put("cancel", ids=tuple(CANCELLED), after=0)
    scenario.put("prioritize", priority=50, group="whole", after=0)
    scenario.put("prioritize", priority=50, ids=("m2",))
    _break(scenario.world.calls, position, fault)
    scenario.drain()
    _redrive(scenario)
    scenario.drain()
    return scenario


def _redrive(scenario):
    """Redrive as an operator does: what failed or was killed is started again."""
    try:
        scenario.redrive()
    except (AwsError, RuntimeError, ProcessKilled):
        scenario.world.calls.killed = False
        scenario.redrive()


def check(scenario, fault=None):
    """
    Each ended once, in the order of its group, in the lane where it should.

    A process that dies between the end of a handler and noting it does the work again, as it would without overrides.
    """
    scenario.done = list(dict.fromkeys(scenario.done)) if fault in (UNFORESEEN, CRASHED) else scenario.done
    assert [one for one in scenario.violations if "before" not in one] == []
    for group in ("m", "g", "k"):
        done = [name for name in scenario.done if name[0] == group]
        assert done == sorted(done), done
    assert set(scenario.cancelled()) == CANCELLED
    assert sorted([*scenario.done, *scenario.cancelled()]) == sorted(one.id for one in scenario.sent)
    assert {scenario.lane_of(f"g{number}") for number in range(6)} == {"HIGH"}
    assert [scenario.lane_of(f"m{number}") for number in range(6)] == ["MAIN"] * 2 + ["HIGH"] * 4
    for lane in scenario.world.queues.live:
        assert (scenario.waiting(lane), scenario.letters(lane)) == ([], [])


@pytest.mark.parametrize("slots", [1, 3])
def test_the_scenario_touches_what_overrides_call(slots):
    """Or the rest of this file would prove less than it says."""
    scenario = tell(slots)

    check(scenario)
    assert scenario.reasons() == ["attempts exhausted"]
    assert {"SendMessage", "PutItem", "UpdateItem", "GetItem overrides"} <= set(scenario.world.calls.counts)


@pytest.mark.parametrize("fault", [REFUSED, UNANSWERED, UNFORESEEN, CRASHED, CRASHED_AFTER])
@pytest.mark.parametrize(("slots", "every"), [(1, 5), (3, 9), pytest.param(1, 1, marks=pytest.mark.deep)])
def test_any_one_call_may_fail(slots, every, fault):
    """Nothing is lost or done twice, and every group keeps its order."""
    calls = len(tell(slots).world.calls.log)
    broken = []
    for position in range(0, calls, every):
        scenario = tell(slots, position=position, fault=fault)
        try:
            check(scenario, fault)
        except AssertionError as error:
            broken.append((position, scenario.world.calls.log[position], str(error)[:300]))

    assert broken == []


def test_each_failed_call_that_is_reported_is_counted():
    """The alarm on failed calls adds them up, so one that is only logged would wake nobody."""
    calls, reported = len(tell(3).world.calls.log), Counter()
    for position in range(calls):
        recorder = tell(3, position=position, fault=REFUSED).world.recorder
        problems = [name for name, _ in recorder.problems if name != Event.HANDLER_FAILED]
        assert recorder.counts[Metric.AWS_ERRORS] == len(problems), problems
        reported.update(problems)

    assert {Event.DEAD_LETTER_NOT_SENT, Event.MESSAGE_NOT_DIVERTED} <= set(reported)


LANES = ("HIGH", "MEDIUM", "MAIN")
GROUPS = {"a": "HIGH", "b": "MEDIUM", "c": "MAIN", "d": "MAIN"}
SUITE = settings(max_examples=60, stateful_step_count=40, suppress_health_check=list(HealthCheck))


class Operated(RuleBasedStateMachine):
    """
    What may happen while an operator moves things, and what must hold at the end.

    Every message ends as done or cancelled, and each group is done in its order, also if overrides contradict.
    """

    @initialize(
        batch_size=st.integers(1, 10),
        slots=st.sampled_from([1, 2, 3]),
        seed=st.integers(0, 1000),
    )
    def begin(self, batch_size, slots, seed):
        lanes = [
            {"name": "HIGH", "threshold": 50, "batch_size": batch_size},
            {"name": "MEDIUM", "threshold": 0, "batch_size": batch_size},
            {"name": "MAIN", "batch_size": batch_size},
        ]
        consumer = {
            "reserved_concurrency": slots,
            "idempotency": True,
            "backoff_max": 10,
        }
        self.scenario = Overridden({"lanes": lanes, "consumer": consumer}, environments=slots, seed=seed)
        self.count = 0

    @rule(group=st.sampled_from(sorted(GROUPS)), fates=st.lists(st.booleans(), min_size=1, max_size=5))
    def send(self, group, fates):
        for fails in fates:
            does = ("fail", "ok") if fails else ("ok",)
            self.scenario.send(GROUPS[group], f"{group}{self.count:04}", *does, group=group)
            self.count += 1

    @rule(priority=st.sampled_from([-100, 0, 60]), number=st.integers(0, 40))
    def prioritize_one(self, priority, number):
        wanted = [f"{group}{number:04}" for group in GROUPS]
        self.scenario.put("prioritize", priority=priority, ids=tuple(wanted), after=0)

    @rule(priority=st.sampled_from([-100, 60]), group=st.sampled_from(sorted(GROUPS)))
    def prioritize_group(self, priority, group):
        self.scenario.put("prioritize", priority=priority, group=group, after=0)

    @rule(number=st.integers(0, 40))
    def cancel(self, number):
        self.scenario.put("cancel", ids=tuple(f"{group}{number:04}" for group in GROUPS), after=0)

    @rule(lane=st.sampled_from(LANES), environment=st.integers(0, 2), deletes=st.booleans())
    def handle(self, lane, environment, deletes):
        scenario = self.scenario
        if messages := scenario.world.receive(lane):
            environment %= len(scenario.environments)
            scenario.invoke(lane, messages, environment=environment, deletes=deletes)

    @rule(calls=st.integers(0, 12), after_effect=st.booleans())
    def die_soon(self, calls, after_effect):
        """The environment that makes the call after so many others dies at it."""
        left = iter(range(calls))
        self.scenario.break_once(
            lambda _operation: next(left, None) is None, ProcessKilled(), after_effect=after_effect
        )

    @rule(seconds=st.sampled_from([0.5, 3, 7, 20, 181]))
    def wait(self, seconds):
        self.scenario.world.clock.advance(seconds)

    def teardown(self):
        if not hasattr(self, "scenario"):
            return
        scenario = self.scenario
        scenario.world.calls.break_if = scenario.world.calls.lose_if = lambda _operation, _position: None
        scenario.world.calls.killed = False
        scenario.drain()
        assert [scenario.letters(lane) for lane in LANES] == [[], [], []]
        resolved = {*scenario.done, *scenario.cancelled()}
        assert resolved == {one.id for one in scenario.sent}
        for group in GROUPS:
            done = list(dict.fromkeys(name for name in scenario.done if name.startswith(group)))
            assert done == sorted(done)


class TestOperated(Operated.TestCase):
    settings = SUITE


@pytest.mark.nightly
class TestOperatedDeep(Operated.TestCase):
    """More and longer ones."""

    settings = settings.get_profile("deep")
