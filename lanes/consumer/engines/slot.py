"""A slot, held for one invocation: it serves the most urgent lane until all are empty or its time is over."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Self

from lanes.config.settings import LARGEST_BATCH
from lanes.consumer.engines.hand_back import Bell, HandBack, LaneRings, WaitingTurn, Waker
from lanes.consumer.engines.looks import POLL, Choice, Looking, Looks, Paused
from lanes.consumer.engines.pace import SlotTime, Stay
from lanes.consumer.outcome import Outcomes, Reason
from lanes.consumer.telemetry import LaneReports

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lanes.config import Lane, LanesConfig
    from lanes.consumer.batch import Corridor
    from lanes.consumer.engines.order import Rate, Reserve, Strict, Weighted
    from lanes.consumer.engines.pace import Pace
    from lanes.consumer.interceptors.tenant_share import Tenants
    from lanes.consumer.records import Invocation, RawRecord
    from lanes.consumer.settlement import Settlement


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SlotServices:
    """The services of one environment's slots."""

    config: LanesConfig
    corridor: Corridor
    looking: Looking
    policy: Strict | Weighted
    reserve: Reserve
    rate: Rate | None
    next_rated: Callable[[], float]
    paused: Paused
    tenants: Tenants | None
    bell: Bell | None
    lane_rings: LaneRings | None
    sleep: Callable[[float], None]

    @property
    def settlement(self) -> Settlement:
        """That of the corridor."""
        return self.corridor.settlement

    @property
    def clock(self) -> Callable[[], float]:
        """Returns epoch seconds."""
        return self.looking.clock

    @property
    def pace(self) -> Pace:
        """The pace of the environment."""
        return self.looking.pace

    @property
    def is_alone(self) -> bool:
        """Whether there is one slot."""
        return self.config.consumer.reserved_concurrency == 1


class _BesideHandler(contextlib.AbstractContextManager[None]):
    """Runs the timers of a slot while a handler runs."""

    # Generators, one in the other, took a seventh of the instructions of a message.
    def __init__(self, slot: Slot, lane: Lane) -> None:
        self._slot = slot
        self._lane = lane

    def __enter__(self) -> None:
        slot = self._slot
        slot.hand_back.watch(self._lane)
        slot.waker.watch(hides=slot.stay.is_in_second, more=bool(slot.looks.full))

    def __exit__(self, *_error: object) -> None:
        self._slot.waker.rest()
        self._slot.hand_back.rest()


class Slot:
    """
    One invocation's hold of a slot, for the lanes that it serves, highest first.

    Args:
        services: those of its environment.
        number: its number, from 0; the heartbeat's invocation takes that of the first.
        lanes: those that it serves.
        invocation: the invocation.
        turn: makes the turn of a batch.
        rung: seconds from its start for which messages may come for which SQS drops the rings; None if that is over.
        is_patrol: whether the heartbeat started it: no sender rang for the messages that it looks for.
        is_mapped: whether a mapping started it, and starts another one for the next message.

    Attributes:
        time: the time that is left of the invocation.
        stay: until when it stays while all lanes are empty.
        looks: the records in hand.
        choice: which lane is next.
        hand_back: returns records for other slots.
        waker: its rings for them.
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
        turn: Callable[..., WaitingTurn],
        rung: float | None,
        is_patrol: bool = False,
        is_mapped: bool = False,
    ) -> None:
        settlement, clock, consumer = services.settlement, services.clock, services.config.consumer
        self.services = services
        self.has_worked = self.has_waited = False
        self.time = time = SlotTime(
            invocation,
            clock=clock,
            needed=services.corridor.attempts.needed,
            whole=consumer.function_timeout.total_seconds(),
        )
        # AWS: a short poll may miss messages; a long one asks all servers.
        patrol, linger = POLL if is_patrol else None, consumer.linger.total_seconds()
        self.stay = Stay(clock, rung=rung, patrol=patrol, linger=linger, next_rated=services.next_rated)
        self.looks = looks = Looks(services.looking, seconds_left=time.left, keep_done=settlement.keep_done)
        self.waker = waker = Waker(
            services.lane_rings or services.bell,
            slot=number,
            config=services.config,
            looking=services.looking,
        )
        self.choice = Choice(
            lanes,
            paused=services.paused,
            policy=services.policy,
            reserve=services.reserve,
            looks=looks,
            time=time,
            clock=clock,
        )
        self.hand_back = HandBack(
            lanes, looks=looks, settlement=settlement, time=time, waker=waker, is_alone=services.is_alone
        )
        self._turn = turn
        self._is_mapped, self._began_at = is_mapped, clock()
        self._reports = LaneReports(settlement.telemetry, clock=clock, context=invocation.context)

    def __enter__(self) -> Self:
        """Report for the highest lane until there are records of another, so that a call that fails now is counted."""
        self._reports.begin(self.services.config.lanes[0].name)
        self.waker.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.waker.stop()
        self._reports.end()

    def beside_handler(self, lane: Lane) -> contextlib.AbstractContextManager[None]:
        """Run the timers of a handler."""
        return _BesideHandler(self, lane)

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """Stop the timers for a checkpoint."""
        with self.hand_back.outside(), self.waker.outside():
            yield

    def work(self) -> None:
        """Serve the lanes until they are empty, or until this invocation has no time for another record."""
        self.services.paused.begin()
        while not self.time.is_over:
            if self._waits_for_resource():
                continue
            if (lane := self._first(self._order(), expected=0.0)) is not None:
                self.serve(lane)
            elif not self._wait_for_work():
                break
        self.leave()

    def wait_for_resource(self) -> None:
        """Wait until a record may start, or no time is left."""
        while not self.time.is_over and self._waits_for_resource():
            pass

    def _order(self) -> list[Lane]:
        """Return the lanes in the order in which this slot serves them."""
        order, attempts = self.choice.order(), self.services.corridor.attempts
        breaker = attempts.only_breaker
        is_reversed = breaker is not None and any(attempts.goes_ahead(lane, breaker) for lane in order)
        return order[::-1] if is_reversed else order

    def _waits_for_resource(self) -> bool:
        """
        Wait a moment if no record may start, and return whether it did.

        Nothing is received meanwhile, and one record when the pause has ended: of its receives, of which SQS grants a
        thousand, each message spends as few as can be, and urgent ones are there when the resource is back.
        """
        attempts = self.services.corridor.attempts
        breaker = attempts.only_breaker
        self.looks.most = (
            1 if breaker and not (breaker.is_early and breaker.waits_for_others) else LARGEST_BATCH
        )
        # No slot waits for the resource of lanes that are all paused.
        if breaker is None or not breaker.seconds_left or not (lanes := self.choice.served()):
            return False
        # None of them starts; and with one in hand, those above it would be received and returned again and again.
        self._handle_hands()
        # The ring returns: more waits.
        self.has_worked = True
        left = self.time.left_beside(lanes)
        if not self.time.is_over:
            attempts.breakers.wait(breaker.seconds_left, left=left)
        return True

    def serve(self, lane: Lane) -> None:
        """Handle the records in hand of a lane."""
        clock, is_overdue = self.services.clock, lane is self.choice.from_reserve
        began, (records, behind) = clock(), self._taken(lane)
        self._serve(lane, records, behind, is_overdue=is_overdue)
        self.services.policy.charge(lane, clock() - began)

    def _serve(
        self,
        lane: Lane,
        records: Sequence[RawRecord],
        behind: Sequence[RawRecord],
        *,
        is_overdue: bool = False,
    ) -> None:
        """Handle records, and take those behind them in their group in hand again, unless one of them stays."""
        if self.handle(lane, records, is_overdue=is_overdue).kept:
            self.hand_back.of(lane, behind, Reason.BEHIND)
        else:
            self.looks.take(lane, behind)

    def handle(
        self, lane: Lane, records: Sequence[RawRecord], *, is_mapped: bool = False, is_overdue: bool = False
    ) -> Outcomes:
        """Handle records as one batch; a batch that was set aside for them goes on afterwards."""
        self.has_worked = True
        batch, turns = self.time.batch(lane, records), self.hand_back.turns
        with self._reports.of_batch(batch):
            turns.append(self._turn(batch, self, is_mapped=is_mapped, is_overdue=is_overdue))
            try:
                return self.services.corridor.run(batch, turns[-1])
            finally:
                turns.pop()

    def above(self, lane: Lane, *, expected: float) -> Lane | None:
        """Return the highest lane above with records in hand, after a look at those above if one is due."""
        above = self.choice.above(lane)
        if not self.services.pace.is_short(lane):
            # A poll that ends during a long record would keep its messages from slots that are free.
            self.looks.collect(wait=True)
            self.hand_back.of_lanes([other for other in self.choice.lanes if other not in above])
        return self._first(above, expected=expected) if above else None

    def before(self, lane: Lane, *, expected: float) -> Lane | None:
        """Return the lane for which a batch is set aside: one above, or one below with an overdue record."""
        return self.above(lane, expected=expected) or self.choice.overdue_below(lane)

    def leaves_to_others(self, above: Lane) -> bool:
        """Ring for a slot that is free, if there are others, to serve a batch that long records would set aside."""
        leaves = not (self.services.is_alone or self.services.pace.is_short(above))
        if leaves:
            self.waker.ring()
        return leaves

    def can_look_above(self, lane: Lane) -> bool:
        """Whether time is left for a record of each lane above: else one that came now would not even be seen."""
        return self.time.has_time_for(*self.choice.above(lane))

    def serve_others(self) -> None:
        """Handle one record of each lane that no dead process can have had in hand."""
        for lane in self.choice.served():
            if lane.name not in self.looks.hands and self.time.has_time_for(lane):
                self.looks.look([lane], expected=0.0)
            records = self.looks.hands.get(lane.name, [])
            if (one := first_unsuspected(records)) is not None:
                del self.looks.hands[lane.name]
                self.looks.take(lane, [record for record in records if record.group != one.group])
                behind = [record for record in records if record.group == one.group and record is not one]
                self._serve(lane, [one], behind)

    def look_ahead(self, lane: Lane, *, is_last: bool) -> None:
        """Look beside a record, just before its end, for work to do after it."""
        order, longest = self.choice.order(), self.services.corridor.attempts.longest
        if self.time.is_over or self.services.corridor.attempts.only_breaker or lane not in order:
            return
        if not self.time.has_time_for(*order):
            return
        lanes, expected = self.choice.above(lane), longest[lane.name]
        if is_last:
            # A record of any lane may be next, also of one that was set aside.
            lanes, expected = order[: order.index(lane) + 1], max(longest[one.name] for one in order)
        self.looks.look_soon(lanes, during=lane, expected=expected)

    def _first(self, order: Sequence[Lane], *, expected: float) -> Lane | None:
        """Return the first lane with records in hand; others are rung for if there may be more than this slot takes."""
        first = self.choice.first(order, expected=expected)
        self.waker.wake_for(self.looks.full)
        return first

    def _taken(self, lane: Lane) -> tuple[list[RawRecord], list[RawRecord]]:
        """Take the records in hand of a lane to handle now, and those to handle after them, out of its hands."""
        records = self.looks.hands.pop(lane.name)
        group = [record for record in records if record.group == records[0].group]
        others = [record for record in records if record.group != records[0].group]
        if lane is self.choice.from_reserve:
            self.choice.from_reserve = None
            self.looks.take(lane, others)
            # One at a time: the account may not reach for the next one.
            return group[:1], group[1:]
        if others and self.services.pace.is_mixed(lane) and not self.services.corridor.attempts.only_breaker:
            self.looks.take(lane, others)
            self.hand_back.of_lanes([lane])
            return group, []
        return records, []

    def _wait_for_work(self) -> bool:
        """Poll all lanes while this slot stays; return whether any has records."""
        lanes, clock = self.choice.served(), self.services.clock
        for lane in self.choice.lanes:
            if lane not in lanes:
                # Received before their lane was paused: with any in hand, no poll would wait.
                self.hand_back.of(lane, self.looks.hands.pop(lane.name, []), Reason.ASIDE)
        for lane in lanes:
            self.looks.land(lane)
            if self.services.tenants is not None:
                self.services.tenants.wake(lane)
        if self._is_mapped:
            # Started for a lane without messages, it would have to be rung for again. It costs at most what it earned.
            until = clock() + POLL if clock() - self._began_at >= POLL else None
        else:
            until = self.stay.until(has_worked=self.has_worked)
        if until is None:
            return False
        left = until - clock()
        while lanes and left > 0 and self.time.has_time_for(*lanes, after=POLL):
            if self.looks.poll(lanes):
                return True
            left = min(left - POLL, until - clock())
        # A lane that fails is not polled, so no time would pass.
        answers = any(lane.name not in self.looks.failed for lane in lanes)
        if answers and self.stay.rated_until and self.time.has_time_for(*lanes, after=POLL):
            return True
        self.has_waited = not self.time.is_over and not self.looks.failed
        return False

    def leave(self) -> None:
        """Handle or return the records in hand, and wait for every call beside the handler."""
        self._handle_hands(is_over=True)
        for lane in self.choice.lanes:
            self.looks.land(lane)
        self.services.paused.land()

    def _handle_hands(self, *, is_over: bool = False) -> None:
        """Handle or return the records in hand, without a look at others; `is_over` ends the slot with the first."""
        self.looks.collect(wait=True)
        while in_hand := [lane for lane in self.choice.lanes if lane.name in self.looks.hands]:
            self.time.is_over = self.time.is_over or is_over
            self.handle(in_hand[0], self.looks.hands.pop(in_hand[0].name))
            self.looks.collect(wait=True)


def first_unsuspected(records: Sequence[RawRecord]) -> RawRecord | None:
    """Return the first record that was never received before, and has none of its group before it."""
    groups: set[str] = set()
    for record in records:
        if record.receive_count == 1 and record.group not in groups:
            return record
        groups.add(record.group)
    return None
