"""The handled messages of a run, in a tenth of the memory of one object each."""

from __future__ import annotations

import dataclasses
from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclasses.dataclass(slots=True)
class Handled:
    """
    One handled message; times in epoch seconds.

    Attributes:
        number: its place in its group.
        first_started_at: first start of its handler.
        started_at: start of the handler that succeeded, after retries a later one.

    """

    lane: str
    group: str
    number: int
    sent_at: float
    first_started_at: float
    started_at: float
    finished_at: float


class HandledLog:
    """All of them in the order of their ends; reads like a list of `Handled`."""

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._lanes = array("H")
        self._groups = array("I")
        self._numbers = array("I")
        self._times = (array("d"), array("d"), array("d"), array("d"))

    def append(self, one: Handled) -> None:
        """Add one."""
        self._lanes.append(self._code(one.lane))
        self._groups.append(self._code(one.group))
        self._numbers.append(one.number)
        sent, first_started, started, finished = self._times
        sent.append(one.sent_at)
        first_started.append(one.first_started_at)
        started.append(one.started_at)
        finished.append(one.finished_at)

    def __len__(self) -> int:
        return len(self._lanes)

    def __iter__(self) -> Iterator[Handled]:
        names = list(self._names)
        for lane, group, number, *times in zip(
            self._lanes, self._groups, self._numbers, *self._times, strict=True
        ):
            yield Handled(names[lane], names[group], number, *times)

    def __getitem__(self, place: int) -> Handled:
        names = list(self._names)
        return Handled(
            names[self._lanes[place]],
            names[self._groups[place]],
            self._numbers[place],
            *(times[place] for times in self._times),
        )

    def waits(self, lane: str) -> list[float]:
        """Return the waits of a lane's messages from the send to the handler's first start, shortest first."""
        code = self._names.get(lane)
        sent, started, *_ = self._times
        return sorted(
            began - at for one, at, began in zip(self._lanes, sent, started, strict=True) if one == code
        )

    def _code(self, name: str) -> int:
        codes = self._names
        if name not in codes:
            codes[name] = len(codes)
        return codes[name]
