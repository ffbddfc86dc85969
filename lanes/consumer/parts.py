"""What every invocation of one environment shares: assembled once, from what the consumer touches."""

from __future__ import annotations

import dataclasses
import uuid
from typing import TYPE_CHECKING

from lanes.consumer.ahead import ReadAhead
from lanes.consumer.attempts import Attempts
from lanes.consumer.diversion import Diversions
from lanes.consumer.fairness import Fairness
from lanes.consumer.gate import Gate
from lanes.consumer.giving_up import GivingUp
from lanes.consumer.intake import Intake
from lanes.consumer.loads import QueueLoads
from lanes.consumer.memory import OwnNotes
from lanes.consumer.others import Others
from lanes.consumer.parks import ParkedRecords, ParkKnowledge
from lanes.consumer.reserve import Reserve
from lanes.consumer.room import WaitingRoom
from lanes.consumer.seat import Seat
from lanes.consumer.settlement import Settlement
from lanes.consumer.waking import Waker

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from lanes.config import ConsumerSettings
    from lanes.consumer.consumer import Surroundings
    from lanes.consumer.handlers import Handlers
    from lanes.consumer.telemetry import Telemetry


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """The parts, one of each; `longest` has the seconds of the longest record of each lane so far."""

    settings: ConsumerSettings
    gate: Gate
    ahead: ReadAhead
    seat: Seat
    others: Others
    parks: ParkKnowledge
    attempts: Attempts
    intake: Intake
    diversions: Diversions
    giving_up: GivingUp
    settlement: Settlement
    waker: Waker
    reserve: Reserve
    fairness: Fairness
    notes: OwnNotes
    telemetry: Telemetry
    clock: Callable[[], float]
    random: Random
    longest: dict[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """How one environment sees the lanes and the other environments."""

    reserve: Reserve
    parks: ParkKnowledge
    others: Others
    parked: ParkedRecords
    loads: QueueLoads
    gate: Gate
    seat: Seat


def build_parts(around: Surroundings, handlers: Handlers) -> Parts:
    """Assemble what the invocations of one environment share."""
    config, view, notes = around.deployment.config, _view(around), OwnNotes()
    diversions = Diversions(
        config=config,
        overrides=around.overrides,
        holds=around.holds,
        queues=around.queues,
        telemetry=around.telemetry,
        clock=around.clock,
    )
    return Parts(
        settings=config.consumer,
        gate=view.gate,
        seat=view.seat,
        ahead=ReadAhead(gate=view.gate, background=around.background, clock=around.clock),
        others=view.others,
        parks=view.parks,
        attempts=_attempts(around, handlers),
        intake=Intake(
            parks=view.parks,
            ledger=around.ledger,
            notes=notes,
            visibility=around.queues,
            telemetry=around.telemetry,
            clock=around.clock,
        ),
        diversions=diversions,
        giving_up=_giving_up(around, diversions),
        settlement=Settlement(
            visibility=around.queues, ledger=around.ledger, telemetry=around.telemetry, clock=around.clock
        ),
        waker=_waker(around, view),
        notes=notes,
        reserve=view.reserve,
        fairness=Fairness(slots=config.consumer.reserved_concurrency, others=view.others, clock=around.clock),
        telemetry=around.telemetry,
        clock=around.clock,
        random=around.random,
    )


def _view(around: Surroundings) -> _View:
    config, clock = around.deployment.config, around.clock
    slots = config.consumer.reserved_concurrency
    reserve = Reserve(
        share=config.consumer.reserve, slots=slots if config.has_waiting_room else 1, clock=clock
    )
    parks = ParkKnowledge()
    others = Others(
        config=config,
        register=around.register,
        environment=uuid.UUID(int=around.random.getrandbits(128)).hex[:12],
        parks=parks,
        reserve=reserve,
        clock=clock,
    )
    parked = ParkedRecords(known=parks, config=config, ledger=around.ledger, others=others, clock=clock)
    loads = QueueLoads(depths=around.queues, others=others, parks=parks, parked=parked, clock=clock)
    room = WaitingRoom(register=around.register, slots=slots, clock=clock, pause=around.pause)
    gate = Gate(config=config, others=others, loads=loads, clock=clock)
    seat = Seat(
        config=config,
        gate=gate,
        others=others,
        loads=loads,
        room=room if config.has_waiting_room else None,
        reserve=reserve,
        clock=clock,
    )
    return _View(
        reserve=reserve, parks=parks, others=others, parked=parked, loads=loads, gate=gate, seat=seat
    )


def _attempts(around: Surroundings, handlers: Handlers) -> Attempts:
    return Attempts(
        settings=around.deployment.config.consumer,
        handlers=handlers,
        ledger=around.ledger,
        telemetry=around.telemetry,
        tracing=around.tracing,
        clock=around.clock,
        random=around.random,
    )


def _giving_up(around: Surroundings, diversions: Diversions) -> GivingUp:
    return GivingUp(
        settings=around.deployment.config.consumer,
        diversions=diversions,
        dead_letters=around.queues,
        telemetry=around.telemetry,
        clock=around.clock,
        random=around.random,
    )


def _waker(around: Surroundings, view: _View) -> Waker:
    return Waker(
        config=around.deployment.config,
        gate=view.gate,
        others=view.others,
        loads=view.loads,
        parks=view.parks,
        parked=view.parked,
        ledger=around.ledger,
        visibility=around.queues,
        telemetry=around.telemetry,
        clock=around.clock,
    )
