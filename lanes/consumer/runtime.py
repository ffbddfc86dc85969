"""The runtime: everything a consumer depends on, and the services that one environment assembles from it once."""

from __future__ import annotations

import dataclasses
import functools
import math
import random as randomness
import time
import uuid
from functools import partial
from typing import TYPE_CHECKING, Protocol

from lanes.config.settings import Policy as PolicyName
from lanes.consumer.attempts import Attempts
from lanes.consumer.batch import Corridor
from lanes.consumer.breakers import Breakers
from lanes.consumer.engines import Beside, Engine, Threads
from lanes.consumer.engines.check import BacklogCheck, DepthReader
from lanes.consumer.engines.mapped import MappedEngine, TurnServices, Waker
from lanes.consumer.engines.order import Reserve
from lanes.consumer.engines.presence import Peers, PresenceTable
from lanes.consumer.interceptors.overrides import OverrideFilter
from lanes.consumer.ledger import CachedLedger, Ledger
from lanes.consumer.outcome import Delays
from lanes.consumer.records import RawRecord
from lanes.consumer.settlement import Queues as SettlementQueues
from lanes.consumer.settlement import Settlement
from lanes.consumer.telemetry import GuardedTelemetry

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from lanes.config.deployment import Deployment
    from lanes.consumer.engines.hand_back import Bell, RingingQueues
    from lanes.consumer.engines.looks import ReceivingQueues
    from lanes.consumer.engines.order import Rate
    from lanes.consumer.engines.slot import SlotServices
    from lanes.consumer.handlers import Handlers
    from lanes.consumer.interceptors import Interceptor
    from lanes.consumer.interceptors.idempotency import Claims
    from lanes.consumer.interceptors.kind_rate import KindRates
    from lanes.consumer.interceptors.occurrences import Occurrences
    from lanes.consumer.telemetry import Telemetry
    from lanes.message import Message
    from lanes.overrides import Overrides, Pauses
    from lanes.runs import Ends, RunTable

    class Queues(DepthReader, ReceivingQueues, RingingQueues, SettlementQueues, Protocol):
        """The consumer's calls to its queues: read counts, receive, delete, change visibility, dead-letter, send on."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """
    The dependencies of a consumer: built from the function's environment unless you give your own, in tests.

    Attributes:
        deployment: the lanes and their queues.
        queues: calls to them.
        ledger: the table.
        telemetry: log and metrics.
        presence: the slot table; None with one slot, where there are no peers.
        overrides: the active overrides; None if waiting messages can't be cancelled or moved.
        pauses: the paused lanes of the pull engine; None if no lane is ever paused.
        runs: returns the table of runs, once a record of one comes; None if no run is followed.
        bell: the bell of the pull engine; None without one.
        beside: makes calls beside the handler; threads by default.
        clock: returns epoch seconds.
        monotonic: returns seconds that no one sets back.
        sleep: lets seconds pass.
        random: decides the jitter of delays.

    """

    deployment: Deployment
    queues: Queues
    ledger: Ledger
    telemetry: Telemetry
    presence: PresenceTable | None = None
    overrides: Overrides | None = None
    pauses: Pauses | None = None
    runs: Callable[[], RunTable] | None = None
    bell: Bell | None = None
    beside: Beside | None = None
    clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: Random = dataclasses.field(default_factory=randomness.Random)

    def build_engine(self, handlers: Handlers) -> Engine:
        """
        Assemble the services of one environment. Only here is it decided which engine runs.

        Imports what its configuration uses: each of these modules is up to 1 % of a cold start.
        """
        config, clock = self.deployment.config, self.clock
        ledger, delays = CachedLedger(self.ledger, clock=clock), Delays(config.consumer, self.random)
        telemetry = GuardedTelemetry(self.telemetry, clock)
        settlement = Settlement(
            queues=self.queues,
            ledger=ledger,
            delays=delays,
            telemetry=telemetry,
            clock=clock,
            ends=functools.cache(partial(self._ends, self.runs)) if self.runs else None,
        )
        # From the given source of chance, so that a simulation with the same seed repeats itself.
        environment = uuid.UUID(int=self.random.getrandbits(128)).hex[:12]
        slots = config.consumer.reserved_concurrency
        peers = Peers(slots=slots, table=self.presence, environment=environment, clock=clock)
        breakers = Breakers(telemetry=telemetry, clock=clock, monotonic=self.monotonic, sleep=self.sleep)
        attempts = Attempts(
            config=config,
            handlers=handlers,
            settlement=settlement,
            breakers=breakers,
            monotonic=self.monotonic,
        )
        reserve = Reserve(share=config.consumer.reserve, clock=clock, monotonic=self.monotonic)
        rates = self._kind_rates(settlement, reserve)
        interceptors = self._interceptors(settlement, peers, rates, environment)
        corridor = Corridor(interceptors=interceptors, attempts=attempts, settlement=settlement)
        if config.receives:
            from lanes.consumer.engines.starters import Starters

            services = self._slot_services(corridor, reserve, peers, rates)
            return Starters(deployment=self.deployment, services=services, monotonic=self.monotonic)
        turns = self._turn_services(settlement, reserve, peers)
        return MappedEngine(
            deployment=self.deployment, corridor=corridor, services=turns, monotonic=self.monotonic
        )

    def _ends(self, table: Callable[[], RunTable]) -> Ends:
        # Late: without a run no module of theirs is loaded, and no call made.
        from lanes.runs import Ends

        return Ends(table=table(), announce=self._announce)

    def _announce(self, message: Message) -> None:
        """Send the message of a run's end to its lane."""
        own = RawRecord(
            message_id="",
            receipt_handle="",
            body="",
            group=message.message_group_id,
            receive_count=0,
            sent_at=0.0,
            first_received_at=0.0,
            deduplication_id="",
            attributes={},
            message_attributes={},
        )
        lane, once = self.deployment.config.lane_for(message.priority or 0), message.message_deduplication_id
        self.queues.forward(lane.name, own, body=message.to_body(), deduplication_id=once)

    def _slot_services(
        self, corridor: Corridor, reserve: Reserve, peers: Peers, rates: KindRates | None
    ) -> SlotServices:
        from lanes.consumer.engines.hand_back import LaneRings
        from lanes.consumer.engines.looks import Looking, Paused
        from lanes.consumer.engines.order import Strict, Weighted
        from lanes.consumer.engines.pace import Pace
        from lanes.consumer.engines.slot import SlotServices
        from lanes.consumer.interceptors.tenant_share import Tenants

        config, consumer = self.deployment.config, self.deployment.config.consumer
        looking = Looking(
            queues=self.queues,
            # A poll and a deletion for each lane, a look, two timers, a ring for others, the paused lanes, and the
            # visibility of a mapping's batch.
            beside=self.beside or Threads(2 * len(config.lanes) + 6),
            pace=Pace(consumer),
            telemetry=corridor.settlement.telemetry,
            clock=self.clock,
        )
        shares = self._shares_slots and not peers.alone
        return SlotServices(
            paused=Paused(self.pauses, looking),
            tenants=Tenants(peers=peers, settlement=corridor.settlement) if shares else None,
            config=config,
            corridor=corridor,
            looking=looking,
            policy=Weighted() if consumer.policy is PolicyName.WEIGHTED else Strict(config),
            reserve=reserve,
            rate=self._rate(consumer.max_rate) if consumer.max_rate else None,
            next_rated=rates.next_return if rates else lambda: math.inf,
            bell=self.bell,
            lane_rings=LaneRings(config, self.queues, looking) if config.serves_in_place else None,
            sleep=self.sleep,
        )

    def _turn_services(self, settlement: Settlement, reserve: Reserve, peers: Peers) -> TurnServices:
        config, ledger = self.deployment.config, settlement.ledger
        check = BacklogCheck(
            config=config,
            depths=self.queues,
            peers=peers,
            ledger=ledger,
            clock=self.clock,
            monotonic=self.monotonic,
        )
        return TurnServices(
            peers=peers,
            check=check,
            reserve=reserve,
            settlement=settlement,
            waker=Waker(config=config, check=check, peers=peers, settlement=settlement),
            # One call a batch. Reading ahead in a second thread, too, gained 2 to 5 %, for locks and forked processes
            # (docs/decisions.md#one-corridor).
            beside=self.beside or Threads(1),
        )

    def _rate(self, rate: float) -> Rate:
        from lanes.consumer.engines.order import Rate

        slots = self.deployment.config.consumer.reserved_concurrency
        return Rate(rate, slots=slots, clock=self.clock, random=self.random)

    @property
    def _shares_slots(self) -> bool:
        config = self.deployment.config
        has_share = any(lane.tenant_share is not None for lane in config.lanes)
        return has_share and config.consumer.reserved_concurrency > 1

    def _kind_rates(self, settlement: Settlement, reserve: Reserve) -> KindRates | None:
        if not (rates := self.deployment.config.consumer.max_rates):
            return None
        from lanes.consumer.interceptors.kind_rate import KindRates

        return KindRates(rates, ledger=self.ledger, settlement=settlement, reserve=reserve)

    def _interceptors(
        self, settlement: Settlement, peers: Peers, rates: KindRates | None, environment: str
    ) -> list[Interceptor]:
        """Return the features that are on, in the order in which they judge a record."""
        config = self.deployment.config
        claims = self._claims(settlement, environment)
        occurrences = self._occurrences(claims)
        found: list[Interceptor] = []
        if self.overrides is not None:
            overrides = OverrideFilter(overrides=self.overrides, settlement=settlement, config=config)
            if occurrences is not None:
                overrides.moving = occurrences.moving
            found.append(overrides)
        if self._shares_slots:
            from lanes.consumer.interceptors.tenant_share import TenantShare

            found.append(TenantShare(peers=peers, settlement=settlement))
        if rates is not None:
            found.append(rates)
        # Last, so that a record that returns for its rate has claimed nothing.
        if occurrences is not None:
            found.append(occurrences)
        if claims is not None and config.consumer.idempotency:
            from lanes.consumer.interceptors.idempotency import Idempotency

            found.append(Idempotency(claims=claims, window=config.consumer.idempotency_window))
        return found

    def _claims(self, settlement: Settlement, environment: str) -> Claims | None:
        if self.deployment.scheduler is None and not self.deployment.config.consumer.idempotency:
            return None
        from lanes.consumer.interceptors.idempotency import Claims

        return Claims(ledger=self.ledger, environment=environment, settlement=settlement)

    def _occurrences(self, claims: Claims | None) -> Occurrences | None:
        scheduler = self.deployment.scheduler
        if scheduler is None or claims is None:
            return None
        from lanes.consumer.interceptors.occurrences import Occurrences

        return Occurrences(claims=claims, role_id=scheduler.role_id)
