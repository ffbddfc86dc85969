"""The handled messages of a run, in a tenth of the memory of one object each."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator


class Handled(NamedTuple):
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
        self._columns: list[array[Any]] = [array(form) for form in "HIIdddd"]

    def append(self, one: Handled) -> None:
        """Add one."""
        lane, group, *rest = one
        for column, value in zip(self._columns, (self._code(lane), self._code(group), *rest), strict=True):
            column.append(value)

    def __len__(self) -> int:
        return len(self._columns[0])

    def __iter__(self) -> Iterator[Handled]:
        names = list(self._names)
        for lane, group, *rest in zip(*self._columns, strict=True):
            yield Handled(names[lane], names[group], *rest)

    def __getitem__(self, place: int) -> Handled:
        names = list(self._names)
        lane, group, *rest = (column[place] for column in self._columns)
        return Handled(names[lane], names[group], *rest)

    def waits(self, lane: str) -> list[float]:
        """Return the waits of a lane's messages from the send to the handler's first start, shortest first."""
        lanes, _, _, sent, started, *_ = self._columns
        code = self._names.get(lane)
        return sorted(began - at for one, at, began in zip(lanes, sent, started, strict=True) if one == code)

    def _code(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names))
