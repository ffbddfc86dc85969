"""What one environment tells the others through the register of slots, and what it last learnt of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.consumer.slots import Occupation, SlotsSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.config import Lane, LanesConfig
    from lanes.consumer.parks import ParkKnowledge
    from lanes.consumer.reserve import Reserve
    from lanes.consumer.slots import SlotRegister

RESERVE = "reserve"
"""Where the register tells until when the reserve is spent; no lane has such a name."""


class Others:
    """
    The other environments of the function, as far as this one knows.

    Attributes:
        seen: what they said when the register was last read or written.
        undeleted: this environment's own last records, done and perhaps not deleted yet.
        alone: whether there are none, since there is one slot: what happens, happens here, and nobody need be asked.
        tenant: whose records this environment has.

    """

    def __init__(
        self,
        *,
        config: LanesConfig,
        register: SlotRegister,
        environment: str,
        parks: ParkKnowledge,
        reserve: Reserve,
        clock: Callable[[], float],
    ) -> None:
        self._config = config
        self._register = register
        self._environment = environment
        self._parks = parks
        self._reserve = reserve
        self._clock = clock
        self.seen = SlotsSnapshot()
        self.undeleted: Occupation | None = None
        self.alone = config.consumer.reserved_concurrency == 1 and not config.has_waiting_room
        self.tenant = ""

    def line(self, lane: Lane, *, records: int, busy: bool, until: float, kept: int = 0) -> Occupation:
        """Return what this environment has to tell of itself."""
        return Occupation(
            environment=self._environment,
            lane=lane.name,
            records=records,
            busy=busy,
            until=until,
            kept=kept,
            tenant=self.tenant,
        )

    def tell(self, line: Occupation, *, frees: int | None = None) -> None:
        """Replace this environment's line, give a slot back if it has one, and learn what the others say."""
        self.learn(self._register.write(line, now=self._clock(), parked_until=self.news(), frees=frees))

    def look(self) -> None:
        """See what the others say."""
        self.learn(self._register.read(self._environment))

    def learn(self, seen: SlotsSnapshot) -> None:
        """Take in what the others say, and what they have spent of the reserve."""
        self.seen = seen
        self._reserve.learn(seen.parked_until.get(RESERVE, 0.0))

    def news(self) -> dict[str, float]:
        """Return until when lanes have parked records and the reserve is spent, where the others don't know yet."""
        if self.alone:
            return {}
        now = self._clock()
        latest = {lane.name: self._parks.latest(lane.name, now=now) for lane in self._config.lanes}
        if self._config.has_waiting_room:
            latest[RESERVE] = self._reserve.paid_until
        return {
            name: value for name, value in latest.items() if value > self.seen.parked_until.get(name, 0.0)
        }

    @property
    def free_slots(self) -> int:
        """How many slots nobody holds, the one of whoever asks left out."""
        slots = self._config.consumer.reserved_concurrency
        return max(0, slots - 1 - self.seen.busy(self._clock()))

    def busy_with(self, lane: Lane, tenant: str) -> int:
        """Return how many other slots worked on a tenant's records of a lane when the register was last read."""
        return self.seen.busy_with(lane.name, tenant, self._clock())
