"""
Any interleaving of sends, receives, invocations, failures, crashes, late writes, lost deletions and time.

The deep form runs many more and longer ones.
"""

from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

from tests.support.scenario import FAILURES, Scenario

MAX_ATTEMPTS = 3
LANES = ("HIGH", "MEDIUM", "MAIN")
LEDGER_WRITES = {"PutItem", "BatchWriteItem"}

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
        batch_size=st.integers(1, 10),
        slots=st.sampled_from([1, 2, 2, 3]),
        idempotency=st.booleans(),
        takes=st.sampled_from([0.01, 0.3, 7.0]),
        seed=st.integers(0, 1000),
    )
    def begin(self, *, batch_size, slots, idempotency, takes, seed):
        lanes = [
            {"name": "HIGH", "threshold": 50, "batch_size": batch_size},
            {"name": "MEDIUM", "threshold": 0, "batch_size": batch_size},
            {"name": "MAIN", "batch_size": batch_size},
        ]
        consumer = {
            "reserved_concurrency": slots,
            "idempotency": idempotency,
            "max_attempts": MAX_ATTEMPTS,
            "backoff_max": 60,
        }
        self.scenario = Scenario({"lanes": lanes, "consumer": consumer}, environments=slots + 1, seed=seed)
        self.scenario.takes = takes
        self.idempotency = idempotency
        self.fates = {}
        self.arrivals = 0
        self.slots = slots
        self.busy = []
        self.slow_writes = []
        self.scenario.in_handler = self._in_mid_work
        self.scenario.world.calls.takes = self._during_a_call

    @rule(
        lane=st.sampled_from(LANES),
        group=st.sampled_from("ab"),
        fates=st.lists(healthy | healthy | troubled | hopeless, min_size=1, max_size=6),
    )
    def send(self, lane, group, fates):
        for does in fates:
            self._send(lane, group, does)

    @rule(count=st.integers(1, 4))
    def expect_urgent_work(self, count):
        """While the next handlers of lower lanes run, something arrives above them."""
        self.arrivals = count

    @rule(target=held, lane=st.sampled_from(LANES))
    def receive(self, lane):
        """The mapping takes a batch out; until it is placed, it waits for a slot."""
        return lane, self.scenario.world.receive(lane)

    @rule(batch=consumes(held), environment=st.integers(0, 3))
    def place(self, batch, environment):
        """It gets a slot, soon or late, also when its visibility has ended."""
        self._invoke(batch, environment, deletes=True)

    @rule(batch=consumes(held), environment=st.integers(0, 3))
    def lose_the_deletion(self, batch, environment):
        self._invoke(batch, environment, deletes=False)

    @rule(seconds=st.sampled_from([0.05, 1.5, 3.5]))
    def slow_down_a_ledger_write(self, seconds):
        """The next write takes effect late: meanwhile another slot receives from the same lane, and answers."""
        self.slow_writes.append(seconds)

    @rule(batch=consumes(held))
    def let_go(self, batch):
        """Throttled until its visibility ended: nothing was tried."""
        assert batch

    @rule(lane=st.sampled_from(LANES), environment=st.integers(0, 3))
    def receive_and_place(self, lane, environment):
        self._invoke((lane, self.scenario.world.receive(lane)), environment, deletes=True)

    @rule(environment=st.integers(0, 3))
    def start_cold(self, environment):
        """Lambda replaces an environment, with all that it knew."""
        scenario = self.scenario
        scenario.environments[environment % len(scenario.environments)] = scenario._new_environment()

    @rule(seconds=st.sampled_from([0.05, 0.3, 1.5, 6, 16, 40, 181]))
    def wait(self, seconds):
        self.scenario.world.clock.advance(seconds)

    @rule()
    def wait_for_the_next_return(self):
        world = self.scenario.world
        moments = [queue.next_event_at() for queue in world.queues.live.values()]
        world.clock.now = max(world.clock.now, min((at for at in moments if at is not None), default=0.0))

    @invariant()
    def order_within_groups_holds(self):
        assert not hasattr(self, "scenario") or self.scenario.violations == []

    @invariant()
    def attempts_count_failures_alone(self):
        if hasattr(self, "scenario"):
            self._check_attempts()

    def teardown(self):
        if not hasattr(self, "scenario"):
            return
        self.slow_writes.clear()
        self.scenario.drain()
        self._check_end()

    def _send(self, lane, group, does):
        name = f"m{len(self.fates)}"
        self.fates[name] = does
        self.scenario.send(lane, name, *does, group=group)

    def _in_mid_work(self, _message):
        if self.arrivals and self.scenario.starts[-1].lane != "HIGH":
            self.arrivals -= 1
            self._send("HIGH", f"urgent{self.arrivals}", ("ok",))
            self.scenario.world.clock.advance(0.3)

    def _during_a_call(self, operation):
        if operation not in LEDGER_WRITES or not self.slow_writes or len(self.busy) >= self.slots:
            return
        self.scenario.world.clock.advance(self.slow_writes.pop())
        lane, _ = self.busy[-1]
        taken = {environment for _, environment in self.busy}
        free = next(number for number in range(self.slots) if number not in taken)
        self._invoke((lane, self.scenario.world.receive(lane)), free, deletes=True)

    def _invoke(self, batch, environment, *, deletes):
        lane, messages = batch
        scenario, environment = self.scenario, environment % len(self.scenario.environments)
        if not messages:
            return
        self.busy.append((lane, environment))
        scenario.invoke(lane, messages, environment=environment, deletes=deletes)
        self.busy.pop()

    def _check_attempts(self):
        failed = Counter()
        for start in self.scenario.starts:
            uncounted = int(not self.idempotency and "crash" in self.fates[start.id])
            assert failed[start.id] + 1 - uncounted <= start.attempt <= failed[start.id] + 1
            failed[start.id] += start.does in FAILURES or start.does == "crash"

    def _check_end(self):
        scenario = self.scenario
        assert scenario.violations == []
        assert scenario.unresolved() == []
        dead = scenario.dead()
        for name, does in self.fates.items():
            hopeless_one = does[-1] in FAILURES or does[-1] == "crash"
            assert (name in dead) is hopeless_one, (name, does)
            assert (name in scenario.done) is not hopeless_one
            if does[0] in ("fail", "retry", "exit") and hopeless_one:
                assert scenario.failures_of(name) == MAX_ATTEMPTS
            elif "crash" in does and hopeless_one:
                assert scenario.failures_of(name) - MAX_ATTEMPTS in ((0,) if self.idempotency else (0, 1))
        if self.idempotency:
            assert max(Counter(scenario.done).values(), default=1) == 1
        letters = {
            message.body
            for queue in scenario.world.queues.dead.values()
            for message in queue._store.visible_messages()
        }
        assert len(letters) == len(dead)


class TestLanes(Lanes.TestCase):
    settings = SUITE


@pytest.mark.deep
class TestLanesDeep(Lanes.TestCase):
    """More and longer ones."""

    settings = settings.get_profile("deep")
