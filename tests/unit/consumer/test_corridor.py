"""
The corridor with a second engine's turn: what `lanes.consumer.engines` asks of an engine, and what it may rely on.

The turn here reads no queue.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from lanes import Message
from lanes.config import LanesConfig
from lanes.consumer.attempts import Attempts
from lanes.consumer.batch import Corridor
from lanes.consumer.breakers import Breakers
from lanes.consumer.engines import Proceed
from lanes.consumer.handlers import Handlers
from lanes.consumer.interceptors import Interception
from lanes.consumer.ledger import CachedLedger, Ending
from lanes.consumer.outcome import Delays, Outcome, Reason
from lanes.consumer.records import SETTLING, Batch
from lanes.consumer.settlement import Settlement
from lanes.testing.calls import Calls
from lanes.testing.clock import FakeClock
from lanes.testing.table import MemoryLedger
from tests.support.memory import Recorder, record_with

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.config import Lane
    from lanes.consumer.calls import Call
    from lanes.consumer.outcome import Outcomes
    from lanes.consumer.records import RawRecord

CONFIG = LanesConfig()
MAIN = CONFIG.lane("MAIN")
PARKED = 7


class FakeTurn:
    """The turn of an engine in which every record may start."""

    def __init__(self, *, may_yield: bool = True) -> None:
        self.may_yield = may_yield
        self.asked: list[str] = []
        self.closed: list[Outcomes] = []
        self.keep_invisible: Callable[[], Sequence[str]] = list

    def hold(self, outcomes: Outcomes) -> Sequence[str]:
        return self.keep_invisible()

    def decide(
        self,
        rest: Sequence[RawRecord],
        call: Call,
        *,
        expected: float,
        has_worked: bool,
        goes_ahead: bool = False,
    ) -> Proceed | Outcome:
        self.asked.append(rest[0].message_id)
        return Proceed(may_yield=self.may_yield)

    def checkpoint(self) -> Lane | None:
        return None

    def yielded(self, rest: Sequence[RawRecord], *, to: Lane | None) -> Outcome:
        return Outcome(ending=Ending.YIELDED, delay=PARKED, wakeable=True, to=to)

    def close(self, outcomes: Outcomes) -> None:
        self.closed.append(outcomes)


class Queues:
    """Queues that break when they are told to."""

    def __init__(self) -> None:
        self.error: BaseException | None = None

    def change_visibility(self, lane, changes):
        if self.error:
            raise self.error
        return []


class Environment:
    """One environment with the handler of each message's choice, and no engine."""

    def __init__(self, *interceptors, seconds: float = 60.0) -> None:
        self.clock, self.monotonic = FakeClock(), FakeClock()
        self.queues = Queues()
        self.table = MemoryLedger(Calls())
        self.telemetry = Recorder()
        self.does: dict[str, Callable[..., None]] = {}
        self.takes = 0.1
        self.started: list[str] = []
        self.seconds = seconds
        handlers, ledger = Handlers(), CachedLedger(self.table, clock=self.clock)
        handlers.add(["work"], self._work)
        delays = Delays(CONFIG.consumer, Random(1))
        self.settlement = Settlement(
            queues=self.queues, ledger=ledger, delays=delays, telemetry=self.telemetry, clock=self.clock
        )
        self.corridor = Corridor(
            interceptors=interceptors,
            attempts=Attempts(
                config=CONFIG,
                handlers=handlers,
                settlement=self.settlement,
                breakers=Breakers(
                    telemetry=self.telemetry,
                    clock=self.clock,
                    monotonic=self.clock,
                    sleep=self.clock.advance,
                ),
                monotonic=self.monotonic,
            ),
            settlement=self.settlement,
        )

    def _work(self, message, context):
        self.started.append(context.message_id)
        self.clock.advance(self.takes)
        self.monotonic.advance(self.takes)
        if does := self.does.get(context.message_id):
            does(context)

    def batch(self, *named: str, receive_count: int = 1) -> Batch:
        """Return a batch of records that are named by their group and a number."""
        records = [
            record_with(
                name,
                group=name[0],
                body=Message(kind="work", group=name[0]).to_body(),
                receive_count=receive_count,
                first_received_at=self.clock(),
                sent_at=self.clock(),
            )
            for name in named
        ]
        ends_at = self.clock() + self.seconds
        return Batch(
            lane=MAIN,
            records=records,
            name="request",
            milliseconds_left=lambda: (ends_at - self.clock()) * 1000,
            began_at=self.clock(),
        )

    def run(self, turn: FakeTurn, *named: str, receive_count: int = 1) -> dict[str, Outcome]:
        """Run a batch; check that its turn was closed once, with the outcomes that are answered."""
        batch = self.batch(*named, receive_count=receive_count)
        self.lend_queues(turn)
        outcomes = self.corridor.run(batch, turn)
        assert turn.closed == [outcomes]
        return {record.message_id: outcome for record, outcome in outcomes}

    def lend_queues(self, turn: FakeTurn) -> None:
        """Let a turn change visibility here."""
        turn.keep_invisible = lambda: self.queues.change_visibility(MAIN.name, [])


def leave(context):
    context.checkpoint()


class Waits(Interception):
    """Uses up the invocation's time before an attempt, as a pause for a rate may."""

    def __init__(self):
        self.environment = None

    def begin(self, _batch):
        return [self]

    def before(self, record, entry, work, *, joins):
        self.environment.clock.advance(self.environment.seconds - 0.5)


def test_no_attempt_is_counted_for_a_record_that_does_not_start():
    """Its count would rest on a write that takes it back, which may fail."""
    waits = Waits()
    environment = waits.environment = Environment(waits)
    written = []
    environment.table.note = written.extend

    found = environment.run(FakeTurn(), "a1", receive_count=2)

    assert environment.started == []
    assert {outcome.ending for outcome in found.values()} <= {Ending.YIELDED, Ending.RETURNED}
    assert [entry for entry in written if entry.attempts] == []


def test_a_checkpoint_leaves_when_the_time_is_nearly_over():
    """Also where the record may not yield; then nothing has priority over it, and it returns for time."""
    environment, turn = Environment(seconds=10), FakeTurn(may_yield=False)
    environment.takes = 10 - SETTLING / 2
    environment.does["a1"] = leave

    found = environment.run(turn, "a1", "b1")

    assert {outcome.reason for outcome in found.values()} == {Reason.TIME}
    assert turn.asked == ["a1"]


def test_a_clock_that_is_set_in_mid_work_makes_no_record_longer():
    """Else this environment would start records in the first tenth of an invocation only, for as long as it lives."""
    environment, turn = Environment(), FakeTurn()
    environment.does["a1"] = lambda _context: environment.clock.advance(3600)

    environment.run(turn, "a1")

    assert environment.corridor.attempts.longest["MAIN"] == pytest.approx(0.1)


class BrokenTurn(FakeTurn):
    """A turn that raises where it is asked."""

    def decide(self, rest, call, **_named):
        raise KeyboardInterrupt


def interrupted(_context):
    raise KeyboardInterrupt


@pytest.mark.parametrize("step", ["handler", "turn", "visibility"])
def test_the_turn_is_closed_when_the_process_is_interrupted(step):
    """Once, and with every record that was not decided kept; the interrupt goes on after it."""
    environment, turn = Environment(), BrokenTurn() if step == "turn" else FakeTurn()
    if step == "handler":
        environment.does["b1"] = interrupted
    elif step == "visibility":
        environment.queues.error = KeyboardInterrupt()

    environment.lend_queues(turn)
    with pytest.raises(KeyboardInterrupt):
        environment.corridor.run(environment.batch("a1", "b1", "c1", receive_count=2), turn)

    (outcomes,) = turn.closed
    for record, outcome in outcomes:
        assert outcome.is_kept or record.message_id in environment.started
