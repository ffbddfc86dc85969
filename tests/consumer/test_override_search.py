"""
Any interleaving of sends, overrides, crashes, lost deletions and time.

Every message ends as done or cancelled, and each group is done in its order, also if overrides contradict each other.
"""

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from lanes.testing.calls import ProcessKilled
from tests.support.overriding import Overridden

LANES = ("HIGH", "MEDIUM", "MAIN")
GROUPS = {"a": "HIGH", "b": "MEDIUM", "c": "MAIN", "d": "MAIN"}
SUITE = settings(max_examples=60, stateful_step_count=40, suppress_health_check=list(HealthCheck))


class Operated(RuleBasedStateMachine):
    """What may happen while an operator moves things, and what must hold at the end."""

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
