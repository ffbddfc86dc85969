"""
Any interleaving of both engines' invocations with sends, failures, crashes, lost deletions, operators and time.

The deep form runs more and longer ones, the nightly one many more.
"""

import json
from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    precondition,
    rule,
)

from lanes.consumer.attempts import EXHAUSTED
from lanes.events import Event
from lanes.testing.calls import InLine
from tests.support.memory import IN_PLACE, Late, aws_error
from tests.support.overriding import Overridden
from tests.support.scenario import FAILURES

MAX_ATTEMPTS = 3
LANES = ("HIGH", "MEDIUM", "MAIN")
LEDGER_WRITES = {"PutItem", "BatchWriteItem"}
COSTLY = FAILURES | {"crash"}

SUITE = settings(max_examples=80, suppress_health_check=list(HealthCheck))

healthy = st.just(("ok",)) | st.just(("check",))
troubled = st.lists(
    st.sampled_from(["fail", "retry", "exit", "check", "crash"]), min_size=1, max_size=MAX_ATTEMPTS - 1
).map(lambda does: (*does, "ok"))
hopeless = st.sampled_from([("fail",), ("retry",), ("exit",), ("crash",), ("dead",), ("crash", "fail")])


class Lanes(RuleBasedStateMachine):
    """What may happen to lanes, and what must hold whatever happened."""

    held = Bundle("held")

    @initialize(
        engine=st.sampled_from(["mappings", "pull", IN_PLACE]),
        beside=st.sampled_from([InLine, Late]),
        batch_size=st.integers(1, 10),
        slots=st.sampled_from([1, 2, 2, 3]),
        idempotency=st.booleans(),
        blocks=st.booleans(),
        takes=st.sampled_from([0.01, 0.3, 7.0]),
        seed=st.integers(0, 1000),
    )
    def begin(self, *, engine, beside, batch_size, slots, idempotency, blocks, takes, seed):
        slots = 2 * len(LANES) if engine == IN_PLACE else slots
        lanes = [
            {"name": "HIGH", "threshold": 50, "batch_size": batch_size},
            {"name": "MEDIUM", "threshold": 0, "batch_size": batch_size},
            {"name": "MAIN", "batch_size": batch_size},
        ]
        consumer = {
            "reserved_concurrency": slots,
            # Longer than all that other slots do meanwhile: nothing here kills an invocation at its timeout.
            "function_timeout": 900,
            "idempotency": idempotency,
            "max_attempts": MAX_ATTEMPTS,
            "backoff_max": 60,
            "on_exhausted": {"work": "block" if blocks else "dead_letter"},
        }
        self.scenario = Overridden(
            {"lanes": lanes, "consumer": consumer},
            environments=slots + 1,
            seed=seed,
            engine=engine,
            beside=beside(),
        )
        self.scenario.takes = takes
        self.idempotency = idempotency
        self.blocks = blocks
        self.fates = {}
        self.ids = {}
        self.twinned = Counter()
        self.failed = Counter()
        self.arrivals = self.company = self.twins = self.refused_deletions = 0
        self.slots = slots
        self.busy = []
        self.slow_writes = []
        self.has_moved = False
        self.scenario.in_handler = self._in_mid_work
        self.scenario.world.calls.takes = self._during_a_call
        self.scenario.world.calls.break_if = self._refused

    @rule(
        lane=st.sampled_from(LANES),
        group=st.sampled_from("ab"),
        fates=st.lists(healthy | healthy | troubled | hopeless, min_size=1, max_size=6),
    )
    def send(self, lane, group, fates):
        for does in fates:
            self._send(lane, group, does)

    @precondition(lambda self: self.idempotency and self.fates)
    @rule(lane=st.sampled_from(LANES), number=st.integers(0, 60))
    def send_again(self, lane, number):
        """A producer repeats an id, in another group and perhaps another lane."""
        name = sorted(self.fates)[number % len(self.fates)]
        self.scenario.send(lane, name, *self.fates[name], group="again")

    @rule(count=st.integers(1, 4))
    def expect_urgent_work(self, count):
        """While the next handlers of lower lanes run, something arrives above them."""
        self.arrivals = count

    @rule(count=st.integers(1, 4))
    def expect_company(self, count):
        """While the next handlers run, another slot begins."""
        self.company = count

    @precondition(lambda self: self.idempotency)
    @rule()
    def expect_a_twin(self):
        """While a handler runs, its batch is delivered once more."""
        self.twins = 1

    @rule(target=held, lane=st.sampled_from(LANES))
    def receive(self, lane):
        """A mapping takes a batch out; until it is placed, it waits for a slot. An old one may after a switch."""
        return lane, self.scenario.world.receive(lane)

    @rule(batch=consumes(held), environment=st.integers(0, 3))
    def place(self, batch, environment):
        """It gets a slot, soon or late, also when its visibility has ended."""
        self._invoke(batch, environment, deletes=True)

    @rule(batch=consumes(held), environment=st.integers(0, 3))
    def lose_the_deletion(self, batch, environment):
        self._invoke(batch, environment, deletes=False)

    @rule(count=st.integers(1, 3))
    def refuse_deletions(self, count):
        """The pull engine deletes by itself, and the next calls fail."""
        self.refused_deletions = count

    @rule(seconds=st.sampled_from([0.05, 1.5, 3.5]))
    def slow_down_a_ledger_write(self, seconds):
        """The next write takes effect late: meanwhile another slot receives from the same lane, and answers."""
        self.slow_writes.append(seconds)

    @rule(batch=consumes(held))
    def let_go(self, batch):
        """Throttled until its visibility ended: nothing was tried."""
        assert batch

    @rule(lane=st.sampled_from(LANES), environment=st.integers(0, 3))
    def work(self, lane, environment):
        self._begin(lane, environment)

    @rule(environment=st.integers(0, 3))
    def start_cold(self, environment):
        """Lambda replaces an environment, with all that it knew."""
        scenario = self.scenario
        scenario.environments[environment % len(scenario.environments)] = scenario._new_environment()

    @rule(number=st.integers(0, 60))
    def cancel(self, number):
        self.scenario.put("cancel", ids=(f"m{number}",), after=0)

    @precondition(lambda self: not self.has_moved)
    @rule(
        priority=st.sampled_from([-100, 0, 60]),
        wanted=st.sampled_from([{"group": "a"}, {"group": "b"}, {"ids": ("m0", "m3")}]),
    )
    def prioritize(self, priority, wanted):
        """Once: changes that contradict each other may break the order."""
        self.has_moved = True
        self.scenario.put("prioritize", priority=priority, after=0, **wanted)

    @rule(lane=st.sampled_from(LANES))
    def redrive(self, lane):
        """Send the dead letters of a lane again."""
        self.scenario.redrive(lane)

    @rule(seconds=st.sampled_from([0.05, 0.3, 1.5, 6, 16, 40, 181]))
    def wait(self, seconds):
        self.scenario.world.clock.advance(seconds)

    @rule()
    def wait_for_the_next_return(self):
        world = self.scenario.world
        moments = [queue.next_event_at() for queue in world.queues.live.values()]
        world.clock.now = max(world.clock.now, min((at for at in moments if at is not None), default=0.0))

    @invariant()
    def nothing_is_violated(self):
        assert not hasattr(self, "scenario") or self.scenario.violations == []

    def teardown(self):
        if not hasattr(self, "scenario"):
            return
        self.slow_writes.clear()
        if self.blocks:
            # Else they would block their groups for ever.
            hopeless = tuple(name for name, does in self.fates.items() if does[-1] in COSTLY)
            self.scenario.put("cancel", ids=hopeless or ("none",))
        self.scenario.drain()
        self._check_end()

    def _send(self, lane, group, does):
        name = f"m{len(self.fates)}"
        self.fates[name] = does
        self.scenario.send(lane, name, *does, group=group)

    def _in_mid_work(self, _message):
        self._check_attempt()
        self._check_order()
        if self.arrivals and self.scenario.starts[-1].lane != "HIGH":
            self.arrivals -= 1
            self._send("HIGH", f"urgent{self.arrivals}", ("ok",))
            self.scenario.world.clock.advance(0.3)
        if self.twins and self.busy and self.busy[-1][1] and len(self.busy) < self.slots:
            self.twins -= 1
            lane, messages, _ = self.busy[-1]
            self.twinned.update(message.message_id for message in messages)
            self._invoke((lane, messages), self._free(), deletes=True)
        if self.company and self.busy and len(self.busy) < self.slots:
            self.company -= 1
            self._begin(self.scenario.starts[-1].lane, self._free())

    def _during_a_call(self, operation):
        if operation not in LEDGER_WRITES or not self.slow_writes or not 0 < len(self.busy) < self.slots:
            return
        self.scenario.world.clock.advance(self.slow_writes.pop())
        self._begin(self.busy[-1][0], self._free())

    def _refused(self, operation, _position):
        if operation != "DeleteMessageBatch" or not self.refused_deletions:
            return None
        self.refused_deletions -= 1
        return aws_error(operation)

    def _free(self):
        """Return an environment that is not at work."""
        taken = {environment for _, _, environment in self.busy}
        return next(number for number in range(self.slots) if number not in taken)

    def _begin(self, lane, environment):
        """Start an invocation as the engine does: for a lane's batch, or for any lane."""
        scenario, environment = self.scenario, environment % len(self.scenario.environments)
        if not scenario.world.pulls:
            self._invoke((lane, scenario.world.receive(lane)), environment, deletes=True)
            return
        self.busy.append((lane, (), environment))
        scenario.ring(environment=environment)
        self.busy.pop()

    def _invoke(self, batch, environment, *, deletes):
        lane, messages = batch
        scenario, environment = self.scenario, environment % len(self.scenario.environments)
        if not messages:
            return
        self.busy.append((lane, messages, environment))
        scenario.invoke(lane, messages, environment=environment, deletes=deletes)
        self.busy.pop()

    def _check_order(self):
        """What arrived earlier in a lane, in the group of the message that starts, has left it or is finished."""
        scenario, start = self.scenario, self.scenario.starts[-1]
        group = [
            one
            for one in scenario.world.queues.live[start.lane]._store.messages()
            if one.group.name == start.group
        ]
        places = [place for place, one in enumerate(group) if one.message_id == start.message_id]
        for earlier in group[: places[0]] if places else ():
            if not self._is_resolved(self._id_of(earlier.body), start.lane, group[places[0] :]):
                scenario.violations.append(f"{start.id} started before {earlier.body} of its group")

    def _is_resolved(self, name, lane, behind):
        """Whether a message is finished, or was sent on to another lane or to the end of its own."""
        world = self.scenario.world
        elsewhere = [queue for other, queue in world.queues.live.items() if other != lane]
        return (
            name in self.scenario.done
            or name in self.scenario.cancelled()
            or any(
                name in map(self._id_of, queue.bodies())
                for queue in [*world.queues.dead.values(), *elsewhere]
            )
            or name in [self._id_of(one.body) for one in behind]
        )

    def _id_of(self, body):
        if body not in self.ids:
            self.ids[body] = json.loads(body)["id"]
        return self.ids[body]

    def _check_attempt(self):
        """A handler's attempt is one more than the failures of its message so far; a copy begins anew."""
        start = self.scenario.starts[-1]
        before = self.failed[start.message_id]
        if not before + 1 - self._uncounted(start.id, start.message_id) <= start.attempt <= before + 1:
            self.scenario.violations.append(f"after {before} failures: {start}")
        self.failed[start.message_id] += start.does in COSTLY

    def _uncounted(self, name, message_id):
        """
        Return the number of attempts that may go uncounted.

        A first one that kills its process, with idempotency off; and one for each delivery at the same moment, which
        knows nothing of the other.
        """
        return (not self.idempotency and "crash" in self.fates[name]) + self.twinned[message_id]

    def _check_end(self):
        scenario = self.scenario
        assert scenario.violations == []
        letters = {name for lane in LANES for name in scenario.letters(lane)}
        given_up = scenario.world.recorder.named(Event.MESSAGE_DEAD_LETTERED)
        ends = {*scenario.done, *scenario.cancelled(), *letters}
        for name, does in self.fates.items():
            is_hopeless = does[-1] in COSTLY
            assert name in ends, (name, does)
            assert is_hopeless or name not in letters, (name, does)
            assert not is_hopeless or name not in scenario.done, (name, does)
        self._check_exhausted(given_up)
        if self.idempotency:
            assert max(Counter(scenario.done).values(), default=1) == 1
        for lane in LANES:
            assert scenario.waiting(lane) == []

    def _check_exhausted(self, given_up):
        for fields in given_up:
            if fields["reason"] == EXHAUSTED:
                assert not self.blocks, fields
                name, message_id = fields["id"], fields["message_id"]
                more = self.failed[message_id] - MAX_ATTEMPTS
                assert 0 <= more <= self._uncounted(name, message_id), fields


class TestLanes(Lanes.TestCase):
    settings = SUITE


@pytest.mark.deep
class TestLanesDeep(Lanes.TestCase):
    """More and longer ones."""

    settings = settings(settings.get_profile("deep"), max_examples=250)


@pytest.mark.nightly
class TestLanesAtNight(Lanes.TestCase):
    """Many more of them."""

    settings = settings.get_profile("deep")
