"""
R1 to R8 under any interleaving of senders, seals, consumers that die at any call, operators and time.

The oracle knows what happened to each message, and nothing of how a run is stored.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from unittest import mock

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lanes.errors import LanesError
from lanes.message_filter import MessageFilter
from lanes.overrides import Action, Override
from lanes.runs import State
from tests.support.followed import FAULTS, OVER, Followed

EXPIRES_AFTER = 90
OUTSIDE = "outside"
FORTNIGHT = 14 * 86_400
NUMBERS = st.integers(0, 14)
PLANS = st.just([]) | st.lists(st.sampled_from([None] * 12 + list(FAULTS)), max_size=30)
IDS = st.lists(NUMBERS, max_size=8).map(lambda numbers: [f"c-{number}" for number in numbers])


def expires(id):
    """Whether the message of an id expires."""
    return int(id.removeprefix("c-")) % 5 == 4


class Sent(Followed):
    """
    A run some of whose messages expire.

    Attributes:
        ended: ids of messages with the run's mark whose handler returned, since it was emptied.
    """

    def __init__(self, *about, **how):
        super().__init__(*about, **how)
        self.ended = set()

    def _handle(self, message):
        super()._handle(message)
        if message.data != OUTSIDE:
            self.ended.add(message.id)

    def message(self, id):
        found = super().message(id)
        if not expires(id):
            return found
        at = datetime.fromtimestamp(self.world.clock.started_at + EXPIRES_AFTER, UTC)
        return replace(found, expires=at)


class Runs(RuleBasedStateMachine):
    """What may happen to one run, and what must hold whatever happened."""

    @initialize(
        engine=st.sampled_from(["mappings", "pull"]),
        chunks=st.integers(1, 7),
        fan=st.sampled_from([2, 3, 64]),
        idempotency=st.booleans(),
    )
    def begin(self, *, engine, chunks, fan, idempotency):
        self.fan = mock.patch("lanes.runs.FAN", fan)
        self.fan.start()
        self.run = Sent(engine, chunks=chunks, idempotency=idempotency)
        self.idempotency = idempotency
        self.members = None
        self.surely_did, self.died, self.cancelled = set(), set(), set()
        self.told, self.lost_announcements = [], []
        self.before = self.overrides = 0
        for queue in self.run.world.queues.live.values():
            queue.send = self._watched(queue.send)

    def _watched(self, send):
        def watch(body, **how):
            document = json.loads(body)
            if document["type"] != OVER:
                return send(body, **how)
            self._check_announcement(document["data"])
            dies = self.lost_announcements.pop() if self.lost_announcements else None
            if dies == "before":
                self.run.world.calls.crash()
            sent = send(body, **how)
            if dies == "after":
                self.run.world.calls.crash()
            return sent

        return watch

    @rule(ids=IDS, plan=PLANS, dies=st.sampled_from([False, False, True]))
    def send(self, ids, plan, dies):
        """A session sends, and seals unless it dies before; another one may have sealed already."""
        self.run.plan = list(plan)
        fixed = self.run.progress().head.total
        sealed = self.run.send(ids, crash=dies)
        self.run.plan = []
        if fixed is None and self.run.progress().head.total is not None:
            self.members = set(ids)
        assert not sealed or self.members == set(ids)

    @precondition(lambda self: self.members is not None)
    @rule(plan=PLANS)
    def seal_again(self, plan):
        """The sender's job starts again with the same members."""
        self.run.plan = list(plan)
        self.run.send(sorted(self.members))
        self.run.plan = []

    @rule(number=NUMBERS)
    def stray(self, number):
        """A task that was given up sends late, or another program writes the mark."""
        self.run.stray(f"c-{number}")

    @rule(ids=IDS)
    def send_outside(self, ids):
        """Another program sends the same messages, with no mark: none of them may drop a member."""
        messages = [replace(self.run.message(one), data=OUTSIDE) for one in ids]
        with suppress(LanesError):
            self.run.world.producer(source="shop").send_many(messages)

    @rule(dies=st.sampled_from(["before", "after"]))
    def lose_an_announcement(self, dies):
        """The process that announces the end dies as it does so, and so may the next one."""
        self.lost_announcements.append(dies)

    @rule(plan=PLANS, count=st.integers(1, 4))
    def work(self, plan, count):
        self._work(plan, self.run.step, count)

    def _work(self, plan, act, count=1):
        """What a handler has done without any fault around it is surely recorded."""
        self.run.ended.clear()
        self.run.plan = list(plan)
        for _ in range(count):
            act()
        self.run.plan = []
        self.surely_did |= set() if any(plan) or self.lost_announcements else self.run.ended
        self.died |= self.run.dead

    @rule(numbers=st.sets(NUMBERS, max_size=5) | st.just(set(range(15))))
    def break_handlers(self, numbers):
        """From now on the messages of these fail, and no others."""
        self.run.dies = {f"c-{number}" for number in numbers}

    @rule(number=NUMBERS)
    def cancel(self, number):
        self.cancelled.add(f"c-{number}")
        self._override(Action.CANCEL, f"c-{number}")

    @rule(number=NUMBERS)
    def prioritize(self, number):
        self._override(Action.PRIORITIZE, f"c-{number}")

    @rule(copies=st.integers(1, 2))
    def mend_and_redrive(self, copies):
        self.run.dies = set()
        self.run.redrive(copies=copies)

    @rule()
    def start_cold(self):
        self.run.restart()

    @rule(seconds=st.sampled_from([0.05, 1.5, 6, 40, 181, 400]))
    def wait(self, seconds):
        self.run.world.clock.advance(seconds)

    @invariant()
    def counts_are_true(self):
        if not hasattr(self, "run"):
            return
        reading = self.run.progress()
        counts = reading.counts
        assert min(counts.done, counts.dead_lettered, counts.cancelled, counts.expired, counts.left) >= 0
        if reading.head.state in (State.SEALED, State.ENDED):
            assert counts.unassigned == 0
            assert counts.members == reading.head.total == len(self.members)
        assert counts.done <= len(self.run.handled)
        assert counts.done >= self.before, "done never falls"
        assert self.run.announced == [] or self.told
        self.before = counts.done

    def teardown(self):
        if not hasattr(self, "run"):
            return
        try:
            self._end()
        finally:
            self.fan.stop()

    def _end(self):
        run = self.run
        run.dies = set()
        self.lost_announcements.clear()
        if not run.progress().head.sealed_at:
            self.members = self.members if self.members is not None else {"c-0", "c-1"}
            assert run.send(sorted(self.members)), "the job that starts again ends what it began"
        self._work([], run.drain)
        head, counts = run.progress().head, run.progress().counts
        assert (head.state, counts.left) == (State.ENDED, 0)
        assert counts.members == head.total == len(self.members)
        for counted, possible in (
            (counts.done, run.handled),
            (counts.dead_lettered, self.died),
            (counts.cancelled, self.cancelled),
            (counts.expired, set(filter(expires, self.members))),
        ):
            assert counted <= len(possible & self.members)
        assert counts.done >= len(self.surely_did & self.members)
        assert self.told
        assert run.announced == run.announced[:1] * len(run.announced), "always with the same counts"
        assert len(run.announced) == 1 if self.idempotency else run.announced

    def _check_announcement(self, data):
        """R1: every member has an end; which it is, the oracle may not know, but one must have been possible."""
        self.told.append(data)
        late = self.run.world.clock() >= self.run.world.clock.started_at + EXPIRES_AFTER
        ends = self.run.handled | self.died | self.run.dead | self.cancelled
        assert [one for one in self.members or () if one not in ends and not (late and expires(one))] == []
        assert data["total"] == len(self._fixed())

    def _fixed(self):
        """The sealing session may still be at work when it announces the end itself."""
        return self.members if self.members is not None else range(self.run.progress().head.total)

    def _override(self, action, id):
        self.overrides += 1
        world = self.run.world
        override = Override(
            id=f"o{self.overrides}",
            action=action,
            wanted=MessageFilter(ids=(id,)),
            created_at=world.clock(),
            expires_at=world.clock() + FORTNIGHT,
            who="arn:ops",
            why="as asked",
            priority=60 if action is Action.PRIORITIZE else 0,
        )
        world.overrides.add(override)


class TestRuns(Runs.TestCase):
    settings = settings(max_examples=100, stateful_step_count=50, suppress_health_check=list(HealthCheck))


@pytest.mark.deep
class TestRunsDeep(Runs.TestCase):
    """More and longer ones."""

    settings = settings(settings.get_profile("deep"), max_examples=300)
