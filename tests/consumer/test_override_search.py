"""
Any interleaving of sends, overrides, holds, redrives, crashes, lost deletions and time.

Every message ends as done or cancelled. Order is no part of it: overrides that contradict each other may break it.
`HYPOTHESIS_PROFILE=nightly` looks at many more and longer ones.
"""

import os

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from tests.support.memory import ProcessLost
from tests.support.overriding import Overridden

LANES = ("HIGH", "MEDIUM", "MAIN")
GROUPS = {"a": "HIGH", "b": "MEDIUM", "c": "MAIN", "d": "MAIN"}
SUITE = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
NIGHTLY = settings(SUITE, max_examples=2_000, stateful_step_count=80, derandomize=False)


class Operated(RuleBasedStateMachine):
    """What may happen while an operator moves things, and what must hold at the end."""

    @initialize(
        batch_size=st.integers(1, 10),
        slots=st.sampled_from([1, 2, 3]),
        room=st.booleans(),
        holds=st.booleans(),
        seed=st.integers(0, 1000),
    )
    def begin(self, batch_size, slots, room, holds, seed):
        lanes = [
            {"name": "HIGH", "threshold": 50, "batch_size": batch_size},
            {"name": "MEDIUM", "threshold": 0, "batch_size": batch_size},
            {"name": "MAIN", "batch_size": batch_size},
        ]
        consumer = {
            "reserved_concurrency": slots,
            "waiting_room": room,
            "idempotency": True,
            "max_attempts": 2,
            "backoff_max": 10,
            "on_dead_letter": {"work": "hold"} if holds else {},
        }
        self.story = Overridden({"lanes": lanes, "consumer": consumer}, environments=slots, seed=seed)
        self.holds = holds
        self.count = 0

    @rule(group=st.sampled_from(sorted(GROUPS)), fates=st.lists(st.booleans(), min_size=1, max_size=5))
    def send(self, group, fates):
        for fails in fates:
            does = ("fail", "fail", "ok") if fails and self.holds else ("ok",)
            self.story.send(GROUPS[group], f"{group}{self.count:04}", *does, group=group)
            self.count += 1

    @rule(priority=st.sampled_from([-100, 0, 60]), number=st.integers(0, 40))
    def prioritize_one(self, priority, number):
        wanted = [f"{group}{number:04}" for group in GROUPS]
        self.story.put("prioritize", priority=priority, ids=tuple(wanted), after=0)

    @rule(priority=st.sampled_from([-100, 60]), group=st.sampled_from(sorted(GROUPS)))
    def prioritize_group(self, priority, group):
        self.story.put("prioritize", priority=priority, group=group, after=0)

    @rule(number=st.integers(0, 40))
    def cancel(self, number):
        self.story.put("cancel", ids=tuple(f"{group}{number:04}" for group in GROUPS), after=0)

    @rule(lane=st.sampled_from(LANES), environment=st.integers(0, 2), deletes=st.booleans())
    def handle(self, lane, environment, deletes):
        story = self.story
        if messages := story.world.receive(lane):
            environment %= len(story.environments)
            story.invoke(lane, messages, environment=environment, deletes=deletes)

    @rule(calls=st.integers(0, 12), after_effect=st.booleans())
    def die_soon(self, calls, after_effect):
        """The environment that makes the call after so many others dies at it."""
        left = iter(range(calls))
        self.story.break_once(
            lambda _operation: next(left, None) is None, ProcessLost(), after_effect=after_effect
        )

    @rule(seconds=st.sampled_from([0.5, 3, 7, 20, 181]))
    def wait(self, seconds):
        self.story.world.clock.advance(seconds)

    def teardown(self):
        if not hasattr(self, "story"):
            return
        story = self.story
        story.world.calls.break_if = story.world.calls.lose_if = lambda _operation, _position: None
        story.world.calls.lost = False
        story.drain()
        while any(story.letters(lane) for lane in LANES) or story.world.holds.found:
            for lane in LANES:
                story.redrive(lane)
            story.drain()
            self._flush()
        assert [story.letters(lane) for lane in LANES] == [[], [], []]
        resolved = {*story.done, *story.cancelled()}
        assert resolved == {one.id for one in story.sent}

    def _flush(self):
        """Let a message of each group follow: it ends a hold whose last copy was never noted as done."""
        for group in {group for _, group in self.story.world.holds.found}:
            self.send(group, [False])
        self.story.drain()


TestOperated = Operated.TestCase
TestOperated.settings = NIGHTLY if os.environ.get("HYPOTHESIS_PROFILE") == "nightly" else SUITE
