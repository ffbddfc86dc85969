"""The history of each message of a run, in a few bytes each: how often it was started, failed and done, and its end."""

from __future__ import annotations

from array import array
from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX = 255


class History:
    """
    Count starts and ends by a message's place in the run, from 1.

    Attributes:
        attempts: of messages that were started more than once, or failed: the attempt number given to the handler, and
            its end ("done", "failed", "died", "yielded" at a checkpoint).

    """

    def __init__(self) -> None:
        self._begun = bytearray(1)
        self._done = bytearray(1)
        self._sent_at = array("d", [0.0])
        self._first_begun_at = array("d", [0.0])
        self.attempts: dict[int, list[tuple[int, str]]] = defaultdict(list)

    def sent(self, at: float) -> int:
        """Add a message sent at this time, in epoch seconds, and return its place."""
        self._sent_at.append(at)
        self._first_begun_at.append(0.0)
        self._begun.append(0)
        self._done.append(0)
        return len(self._begun) - 1

    def begin(self, place: int, *, at: float) -> int:
        """Add a start at this time, in epoch seconds; return the number of earlier ones, at most 255."""
        before = self._begun[place]
        if not before:
            self._first_begun_at[place] = at
        self._begun[place] = min(before + 1, _MAX)
        return before

    def end(self, place: int, *, attempt: int, how: str) -> None:
        """Add an end."""
        if how == "done":
            self._done[place] = min(self._done[place] + 1, _MAX)
        if how != "done" or place in self.attempts:
            self.attempts[place].append((attempt, how))

    def sent_at(self, place: int) -> float:
        """Return when it was sent."""
        return self._sent_at[place]

    def first_begun_at(self, place: int) -> float:
        """Return when its handler was first started; 0 before that."""
        return self._first_begun_at[place]

    def times_begun(self, place: int) -> int:
        """Return the number of handler starts."""
        return self._begun[place]

    def times_done(self, place: int) -> int:
        """Return the number of successful handler ends."""
        return self._done[place]

    @property
    def places(self) -> range:
        """The places of all messages."""
        return range(1, len(self._begun))


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
    """The handled messages in the order of their ends; reads like a list of `Handled`, in a tenth of its memory."""

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
