"""A view of a run at one moment, for the screen."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from local.demo.stage import Depth

_PACE_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneView:
    """One lane at one moment; `pace` is messages done a second, over the last few."""

    name: str
    waiting: int = 0
    in_flight: int = 0
    done: int = 0
    yields: int = 0
    pace: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FloodView:
    """A run at one moment."""

    lanes: tuple[LaneView, ...] = ()
    done: int = 0
    total: int = 0


@dataclass(slots=True)
class Pace:
    """Works out how many messages a second each lane does."""

    _seen: deque[tuple[float, Mapping[str, int]]] = field(default_factory=deque)

    def of(self, done: Mapping[str, int], *, now: float) -> dict[str, float]:
        """Take a reading and give the paces."""
        while len(self._seen) > 1 and now - self._seen[0][0] > _PACE_SECONDS:
            self._seen.popleft()
        self._seen.append((now, done))
        then, before = self._seen[0]
        seconds = now - then
        if not seconds:
            return dict.fromkeys(done, 0.0)
        return {lane: (count - before.get(lane, 0)) / seconds for lane, count in done.items()}


def flood_view(
    depths: Mapping[str, Depth],
    *,
    done: Mapping[str, int],
    yields: Mapping[str, int],
    pace: Mapping[str, float],
    total: int,
) -> FloodView:
    """Make the view from counts, highest lane first."""
    lanes = tuple(
        LaneView(
            name=name,
            waiting=depth.waiting,
            in_flight=depth.in_flight,
            done=done.get(name, 0),
            yields=yields.get(name, 0),
            pace=pace.get(name, 0.0),
        )
        for name, depth in depths.items()
    )
    return FloodView(lanes=lanes, done=sum(done.values()), total=total)
