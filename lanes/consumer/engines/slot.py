"""A slot, held for one invocation: it serves the most urgent lane until all are empty or its time is over."""

from __future__ import annotations

import contextlib
import dataclasses
from functools import partial
from typing import TYPE_CHECKING, Protocol, Self, TypeAlias

from lanes.bell import MARGIN
from lanes.config.settings import LARGEST_BATCH
from lanes.consumer import telemetry as report
from lanes.consumer.attempts import WHOLE_INVOCATION
from lanes.consumer.engines import Turn
from lanes.consumer.engines.crashes import first_unsuspected
from lanes.consumer.engines.looks import POLL, Looking, Looks, Paused
from lanes.consumer.engines.timers import Bell, HandBack, Waker
from lanes.consumer.outcome import Outcome, Outcomes, Reason, shortest_delay
from lanes.errors import AwsError
from lanes.events import Event
from lanes.metrics import Metric

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lanes.config import Lane, LanesConfig
    from lanes.consumer.batch import Corridor
    from lanes.consumer.engines.order import Strict, Weighted
    from lanes.consumer.engines.rate import Rate
    from lanes.consumer.engines.reserve import Reserve
    from lanes.consumer.interceptors.tenant_share import Tenants
    from lanes.consumer.ledger import Entry
    from lanes.consumer.records import Batch, Invocation, RawRecord

STAYS_FOR = 5
"""Seconds for which a slot stays for a record that returns."""

REPORTS_EVERY = 5
"""Seconds after which the figures of a lane are sent although it is served on."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SlotServices:
    """The services of one environment's slots."""

    config: LanesConfig
    corridor: Corridor
    looking: Looking
    policy: Strict | Weighted
    reserve: Reserve
    rate: Rate | None
    paused: Paused
    tenants: Tenants | None
    bell: Bell | None
    sleep: Callable[[float], None]


class SlotTurn(Turn, Protocol):
    """A batch's turn with a slot that may return those of its records for which another slot may be free."""

    @property
    def waiting(self) -> Sequence[RawRecord]:
        """The records that wait behind the one that runs, and not for it."""

    def give_back(self) -> None:
        """Return them at once."""


TurnMaker: TypeAlias = "Callable[..., SlotTurn]"


class Slot:
    """
    One invocation's hold of a slot, for the lanes that it serves, highest first; `turn` makes the turn of a batch.

    Args:
        services: those of its environment.
        number: its number, from 0; the heartbeat's invocation takes that of the first.
        lanes: those that it serves.
        invocation: the invocation.
        turn: makes the turn of a batch.
        stay: seconds from its start for which messages may come for which SQS drops the rings; None if that is over.
        is_patrol: whether the heartbeat started it: no sender rang for the messages that it looks for.

    Attributes:
        is_over: whether the time is too short for another record.
        has_worked: whether it had records in hand.
        has_waited: whether it left since all lanes were empty for as long as it stays.

    """

    def __init__(
        self,
        services: SlotServices,
        *,
        number: int = 0,
        lanes: Sequence[Lane],
        invocation: Invocation,
        turn: TurnMaker,
        stay: float | None,
        is_patrol: bool = False,
    ) -> None:
        self.services = services
        self.settlement = services.corridor.settlement
        self.clock = services.looking.clock
        self.looks = Looks(
            services.looking,
            seconds_left=lambda: invocation.milliseconds_left() / 1000,
            keep_done=self.settlement.keep_done,
        )
        self.is_over = self.has_worked = self.has_waited = False
        self.is_alone = services.config.consumer.reserved_concurrency == 1
        self.hand_back = HandBack(services.looking, may_wait=self._may_wait, give_back=self._return_waiting)
        self.waker = Waker(
            services.bell,
            slot=number,
            config=services.config,
            looking=services.looking,
        )
        self._turns: list[SlotTurn] = []
        self._telemetry = services.looking.telemetry
        self._lanes = lanes
        self._names = frozenset(lane.name for lane in lanes)
        self._invocation = invocation
        self._turn = turn
        self._stay = stay
        self._is_patrol = is_patrol
        self._began_at = self.clock()
        self._returns_at = 0.0
        self._reported: str | None = None
        self._reported_at = 0.0
        self._nested = 0.0
        self._serving: Lane | None = None
        self._batches = 0
        self._overdue_at: dict[str, float] = {}
        self._from_reserve: Lane | None = None

    def __enter__(self) -> Self:
        """Report for the highest lane until there are records of another, so that a call that fails now is counted."""
        self._report_for(self.services.config.lanes[0].name)
        self.waker.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.waker.stop()
        self._report_for(None)

    @contextlib.contextmanager
    def beside_handler(self, lane: Lane) -> Iterator[None]:
        """Run the timers of a handler."""
        is_in_second = self.clock() < self._began_at + (self._stay or 0.0)
        watched = self.waker.beside_handler(hides=is_in_second, more=bool(self.looks.full))
        with watched, self.hand_back.beside_handler(lane):
            yield

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """Stop the timers for a checkpoint."""
        with self.hand_back.outside(), self.waker.outside():
            yield

    def work(self) -> None:
        """Serve the lanes until they are empty, or until this invocation has no time for another record."""
        self.services.paused.begin()
        while not self.is_over:
            if self._waits_for_resource():
                continue
            order = self.services.policy.order(self._served(self._lanes))
            if (lane := self._first(order, expected=0.0)) is not None:
                self.serve(lane)
            elif not self._wait_for_work():
                break
        self.leave()

    def _waits_for_resource(self) -> bool:
        """
        Wait a moment if no record may start, and return whether it did.

        Nothing is received meanwhile, and one record when the pause has ended: of its receives, of which SQS grants a
        thousand, each message spends as few as can be, and urgent ones are there when the resource is back.
        """
        attempts, lanes = self.services.corridor.attempts, self._served(self._lanes)
        self.looks.most = 1 if attempts.tries_one else LARGEST_BATCH
        # No slot waits for the resource of lanes that are all paused.
        if not lanes or not (pause := attempts.pause):
            return False
        self.looks.collect(wait=True)
        if self.looks.hands:
            return False
        # The ring returns: more waits.
        self.has_worked = True
        needed = max(attempts.needed[lane.name] for lane in lanes)
        left = self._invocation.milliseconds_left() / 1000 - needed
        self.is_over = left <= 0
        if not self.is_over:
            attempts.breakers.wait(pause, left=left)
        return True

    def serve(self, lane: Lane) -> None:
        """Handle the records in hand of a lane."""
        is_overdue = lane is self._from_reserve
        began, (records, behind) = self.clock(), self._taken(lane)
        turn = partial(self._turn, is_overdue=True) if is_overdue else None
        self._serve(lane, records, behind, turn=turn)
        self.services.policy.charge(lane, self.clock() - began)

    def _serve(
        self,
        lane: Lane,
        records: Sequence[RawRecord],
        behind: Sequence[RawRecord],
        *,
        turn: TurnMaker | None = None,
    ) -> None:
        """Handle records, and take those behind them in their group in hand again, unless one of them stays."""
        if self.handle(lane, records, turn=turn).kept:
            self._return(lane, behind, Reason.BEHIND)
        else:
            self.looks.take(lane, behind)

    def handle(self, lane: Lane, records: Sequence[RawRecord], *, turn: TurnMaker | None = None) -> Outcomes:
        """Handle records as one batch; a batch that was set aside for them goes on afterwards."""
        self.has_worked = True
        batch = self._batch(lane, records)
        outer, self._serving = self._serving, lane
        nested, self._nested = self._nested, 0.0
        self._report_for(lane.name)
        self._turns.append((turn or self._turn)(batch, self))
        try:
            return self.services.corridor.run(batch, self._turns[-1])
        finally:
            self._turns.pop()
            self._serving, took = outer, self.clock() - batch.began_at
            with contextlib.suppress(Exception):
                self._telemetry.milliseconds(Metric.BATCH, (took - self._nested) * 1000)
            self._nested = nested + took
            if outer is not None:
                self._report_for(outer.name)

    def above(self, lane: Lane, *, expected: float) -> Lane | None:
        """Return the highest lane above with records in hand, after a look at those above if one is due."""
        above = self._served(self.services.policy.above(lane))
        if not self.services.looking.pace.is_short(lane):
            # A poll that ends during a long record would keep its messages from slots that are free.
            self.looks.collect(wait=True)
            self._give_back([other for other in self._lanes if other not in above])
        return self._first(above, expected=expected) if above else None

    def before(self, lane: Lane, *, expected: float) -> Lane | None:
        """Return the lane for which a batch is set aside: one above, or one below with an overdue record."""
        below = [one for one in self._served(self._lanes) if lane.outranks(one)]
        return self.above(lane, expected=expected) or self._overdue(below)

    def leaves_to_others(self, above: Lane) -> bool:
        """Ring for a slot that is free, if there are others, to serve a batch that long records would set aside."""
        leaves = not (self.is_alone or self.services.looking.pace.is_short(above))
        if leaves:
            self.waker.ring()
        return leaves

    def can_look_above(self, lane: Lane) -> bool:
        """Whether time is left for a record of each lane above: else one that came now would not even be seen."""
        return all(map(self.has_time_for, self._served(self.services.policy.above(lane))))

    def _give_back(self, lanes: Sequence[Lane]) -> None:
        """Return the records in hand of these lanes for a slot that is free, if there are others."""
        for lane in () if self.is_alone else lanes:
            if (records := self.looks.hands.pop(lane.name, None)) is not None:
                self._return(lane, records, Reason.ASIDE)
                self.waker.ring()

    def _may_wait(self) -> bool:
        """Whether records may wait in hand during the next one, although another slot may be free for them."""
        if self.is_alone:
            return False
        return self.looks.is_filling or any(turn.waiting for turn in self._turns) or bool(self._in_hand())

    def _in_hand(self) -> list[Lane]:
        """Return the lanes with records in hand that should not wait there."""
        is_plenty = self.services.looking.pace.is_plenty
        return [lane for lane in self._lanes if lane.name in self.looks.hands and not is_plenty(lane)]

    def _return_waiting(self) -> None:
        """Return what waits behind a record that takes long. Runs beside the handler, while the slot does nothing."""
        self.looks.collect()
        lanes, turns = self._in_hand(), [turn for turn in self._turns if turn.waiting]
        for lane in lanes:
            self._return(lane, self.looks.hands.pop(lane.name), Reason.ASIDE)
        for turn in turns:
            turn.give_back()
        if lanes or turns:
            self.waker.ring()

    def give_back_all(self) -> None:
        """Return everything in hand: the next record may kill this process."""
        self.looks.collect(wait=True)
        for lane in self._lanes:
            self._return(lane, self.looks.hands.pop(lane.name, []), Reason.ASIDE)

    def serve_others(self) -> None:
        """Handle one record of each lane that no dead process can have had in hand."""
        for lane in self._served(self._lanes):
            if lane.name not in self.looks.hands and self.has_time_for(lane):
                self.looks.look([lane], expected=0.0)
            records = self.looks.hands.get(lane.name, [])
            if (one := first_unsuspected(records)) is not None:
                del self.looks.hands[lane.name]
                self.looks.take(lane, [record for record in records if record.group != one.group])
                behind = [record for record in records if record.group == one.group and record is not one]
                self._serve(lane, [one], behind)

    def _return(self, lane: Lane, records: Sequence[RawRecord], reason: Reason) -> None:
        if not records:
            return
        entries: Mapping[str, Entry] = {}
        try:
            entries = self.settlement.ledger.entries_of(lane.name, records)
        except AwsError:
            # Without an entry, their next receive has no known cause.
            report.failed_call(self._telemetry, Event.LEDGER_NOT_READ, lane=lane.name)
        else:
            report.received(self._telemetry, records, entries)
        self.settle_untouched(lane, records, entries, reason)

    def settle_untouched(
        self, lane: Lane, records: Sequence[RawRecord], entries: Mapping[str, Entry], reason: Reason
    ) -> None:
        """Return records at once."""
        outcomes = Outcomes(records, dict(entries))
        outcomes.keep(records, Outcome(delay=shortest_delay(records), reason=reason))
        self.settlement.settle(self._batch(lane, records), outcomes)

    @property
    def is_fresh(self) -> bool:
        """Whether the first batch has nearly the whole time of the invocation."""
        whole = self.services.config.consumer.function_timeout.total_seconds()
        left = self._invocation.milliseconds_left() / 1000
        return self._batches == 1 and left >= WHOLE_INVOCATION * whole

    def _batch(self, lane: Lane, records: Sequence[RawRecord]) -> Batch:
        self._batches += 1
        return self._invocation.batch(lane, records, began_at=self.clock(), part=f"-{self._batches}")

    def look_ahead(self, lane: Lane, *, is_last: bool) -> None:
        """Look beside a record, just before its end, for work to do after it."""
        policy = self.services.policy
        order = self._served(policy.order(self._lanes))
        attempts = self.services.corridor.attempts
        if self.is_over or attempts.tries_one or lane not in order or not all(map(self.has_time_for, order)):
            return
        longest = attempts.longest
        lanes, expected = self._served(policy.above(lane)), longest[lane.name]
        if is_last:
            # A record of any lane may be next, also of one that was set aside.
            lanes, expected = order[: order.index(lane) + 1], max(longest[one.name] for one in order)
        self.looks.look_soon(lanes, during=lane, expected=expected)

    def has_time_for(self, lane: Lane, *, after: float = 0.0) -> bool:
        """Whether a record of a lane that starts after some seconds is likely to end in time; else this slot ends."""
        needed = self.services.corridor.attempts.needed[lane.name] + after
        fits = self._invocation.milliseconds_left() / 1000 >= needed
        self.is_over = self.is_over or not fits
        return fits

    def returns_in(self, seconds: float) -> None:
        """Stay for a record that returns soon: no sender rings for it."""
        if seconds <= STAYS_FOR:
            self._returns_at = max(self._returns_at, self.clock() + seconds + MARGIN)

    def _first(self, order: Sequence[Lane], *, expected: float) -> Lane | None:
        """Return the first lane with records in hand, after a look at those before it if one is due."""
        looks = self.looks
        looks.collect()
        before = looks.before_hands(order)
        if all(map(self.has_time_for, before)):
            looks.look(before, expected=expected)
        self.waker.wake_for(looks.full)
        place = len(looks.before_hands(order))
        return self._overdue(order[place + 1 :]) or next(iter(order[place:]), None)

    def _overdue(self, lanes: Sequence[Lane]) -> Lane | None:
        """Return the first lane with a record in hand that is due from the reserve, after the looks that are due."""
        self._from_reserve = next((lane for lane in lanes if self._is_overdue(lane)), None)
        return self._from_reserve

    def _is_overdue(self, lane: Lane) -> bool:
        now = self.clock()
        if lane.max_wait is None or not self.services.reserve.has_time:
            return False
        if not self._is_due(lane) and now >= self._overdue_at.get(lane.name, 0.0):
            self.looks.look([lane], expected=0.0)
            if not self._is_due(lane):
                # Half as often as an idle slot polls: with 2.5 s one started 5.7 s late in simulation.
                self._overdue_at[lane.name] = now + 2 * POLL
        return self._is_due(lane)

    def _is_due(self, lane: Lane) -> bool:
        records = self.looks.hands.get(lane.name)
        return records is not None and self.services.reserve.admits(lane, records[0])

    def _taken(self, lane: Lane) -> tuple[list[RawRecord], list[RawRecord]]:
        """Take the records in hand of a lane to handle now, and those to handle after them, out of its hands."""
        records = self.looks.hands.pop(lane.name)
        group = [record for record in records if record.group == records[0].group]
        others = [record for record in records if record.group != records[0].group]
        if lane is self._from_reserve:
            self._from_reserve = None
            self.looks.take(lane, others)
            # One at a time: the account may not reach for the next one.
            return group[:1], group[1:]
        if others and self.services.looking.pace.is_mixed(lane):
            self.looks.take(lane, others)
            self._give_back([lane])
            return group, []
        return records, []

    def _wait_for_work(self) -> bool:
        """Poll all lanes while this slot stays; return whether any has records."""
        lanes, clock = self._served(self._lanes), self.clock
        for lane in lanes:
            self.looks.land(lane)
            if self.services.tenants is not None:
                self.services.tenants.wake(lane)
        if self._stay is not None or self.has_worked:
            linger = self.services.config.consumer.linger.total_seconds()
            # Each message of the ring's second is there when this has passed, so no wake-up is lost.
            until = max(clock() + linger, self._began_at + (self._stay or 0.0), self._returns_at)
        elif self._is_patrol:
            # AWS: a short poll may miss messages; a long one asks all servers.
            until = clock() + POLL
        else:
            return False
        left = until - clock()
        while lanes and left > 0 and all(self.has_time_for(lane, after=POLL) for lane in lanes):
            if self.looks.poll(lanes):
                return True
            left = min(left - POLL, until - clock())
        self.has_waited = not self.is_over and not self.looks.failed
        return False

    def leave(self) -> None:
        """Handle or return the records in hand, and wait for every call beside the handler."""
        self.looks.collect(wait=True)
        while in_hand := [lane for lane in self._lanes if lane.name in self.looks.hands]:
            self.is_over = True
            self.handle(in_hand[0], self.looks.hands.pop(in_hand[0].name))
            self.looks.collect(wait=True)
        for lane in self._lanes:
            self.looks.land(lane)
        self.services.paused.land()

    def _served(self, lanes: Sequence[Lane]) -> list[Lane]:
        """Return those of the lanes that this slot serves, but for paused ones."""
        paused = self.services.paused.lanes()
        return [lane for lane in lanes if lane.name in self._names and lane.name not in paused]

    def _report_for(self, lane: str | None) -> None:
        """Report from now on for a lane; None to end the reports."""
        now = self.clock()
        if lane == self._reported and now < self._reported_at + REPORTS_EVERY:
            return
        if self._reported is not None:
            # The outcomes count, whatever becomes of the figures.
            with contextlib.suppress(Exception):
                self._telemetry.end()
        self._reported, self._reported_at = lane, now
        if lane is not None:
            self._telemetry.begin(lane, self._invocation.context)
