"""The messages of a run: their bodies, the history of each in a few bytes, and measurements while they wait."""

from __future__ import annotations

import dataclasses
import json
from array import array
from collections import defaultdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from lanes.message import Message
from lanes.testing.clock import START

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


KIND = "work"
_ID, _DATA = "-the-id-", "-the-data-"


class Bodies:
    """
    Write bodies from a template made by `Message.to_body`.

    Their data controls the handler: its seconds, and whether it fails.
    """

    def __init__(self) -> None:
        sample = Message(kind=KIND, id=_ID, data=_DATA, time=datetime.fromtimestamp(START, UTC)).to_body()
        self._head, _, rest = sample.partition(_ID)
        self._middle, _, self._tail = rest.partition(f'"{_DATA}"')

    def write(self, *, lane: str, place: int, number: int, seconds: float, fault: str) -> str:
        """Return the body of a message, by its place in the run and its number in its group."""
        extra = f',"fault":"{fault}"' if fault else ""
        data = f'{{"seconds":{seconds!r},"number":{number},"place":{place}{extra}}}'
        return f"{self._head}{lane}-{place}{self._middle}{data}{self._tail}"


def data_of(body: str) -> dict[str, Any]:
    """Return the data for the handler in such a body."""
    data: dict[str, Any] = json.loads(body)["data"]
    return data


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


@dataclasses.dataclass(slots=True)
class Standstill:
    """Number of a lane's messages that no handler has started, and the longest time in which none was started."""

    waiting: int = 0
    since: float = 0.0
    longest: float = 0.0


class SlotWatch:
    """
    The running handlers, compared with the number of slots.

    Args:
        clock: epoch seconds.
        slots: number of slots.
        timeout: seconds of the longest invocation: those of an earlier deployment may still run for so long.

    Attributes:
        excess: the largest number of running handlers beyond the slots.

    """

    def __init__(self, clock: Callable[[], float], *, slots: int, timeout: float) -> None:
        self._clock = clock
        self._timeout = timeout
        self._slots = slots
        self._earlier: list[tuple[float, int]] = []
        self._busy = 0
        self.excess = 0

    def deployed(self, slots: int) -> None:
        """Follow a deploy."""
        self._earlier.append((self._clock() + self._timeout, self._slots))
        self._slots = slots

    def began(self) -> None:
        """Add a handler's start."""
        self._busy += 1
        if self._busy > self._slots:
            now = self._clock()
            allowed = max([self._slots, *(slots for until, slots in self._earlier if now <= until)])
            self.excess = max(self.excess, self._busy - allowed)

    def ended(self) -> None:
        """Add a handler's end."""
        self._busy -= 1


class Meter:
    """
    Integrate over time, at no cost per second and little per message.

    A group is startable if a message of it waits, and none of its messages runs or was returned after a failure.

    Attributes:
        waited: seconds with a startable group.
        idle: slot seconds without a running handler in that time, at most one slot per startable group.
        worked: slot seconds of handlers.

    """

    def __init__(self, clock: Callable[[], float], *, lanes: Iterable[str], slots: int) -> None:
        self._clock = clock
        self._slots = slots
        self._lanes = {lane: Standstill() for lane in lanes}
        self._waiting: dict[tuple[str, str], int] = {}
        self._held: set[tuple[str, str]] = set()
        self._ready = 0
        self._busy = 0
        self._at = clock()
        self.waited = 0.0
        self.idle = 0.0
        self.worked = 0.0

    def sent(self, lane: str, group: str) -> None:
        """Add a message that arrives."""
        now = self._advance()
        one = self._lanes[lane]
        if not one.waiting:
            one.since = now
        one.waiting += 1
        key = (lane, group)
        waiting = self._waiting.get(key, 0)
        self._waiting[key] = waiting + 1
        self._ready += not waiting and key not in self._held

    def began(self, lane: str, group: str, *, first: bool) -> None:
        """Add a handler's start."""
        now = self._advance()
        self._busy += 1
        key = (lane, group)
        if key not in self._held:
            self._held.add(key)
            self._ready -= key in self._waiting
        if not first:
            return
        one = self._lanes[lane]
        one.waiting -= 1
        one.longest = max(one.longest, now - one.since)
        one.since = now
        self._waiting[key] -= 1
        if not self._waiting[key]:
            del self._waiting[key]

    def ended(self, lane: str, group: str, *, done: bool) -> None:
        """Add a handler's end; after a failure or a death the group waits for its next attempt."""
        self._advance()
        self._busy -= 1
        key = (lane, group)
        if done and key in self._held:
            self._held.remove(key)
            self._ready += key in self._waiting

    def standstill(self, lane: str) -> float:
        """Return the longest time in seconds in which messages of a lane waited and none was started, until now."""
        one = self._lanes[lane]
        return max(one.longest, self._clock() - one.since) if one.waiting else one.longest

    @property
    def idle_share(self) -> float:
        """Share of slot time, while groups were startable, in which a slot that could have run one was idle."""
        self._advance()
        return self.idle / (self.waited * self._slots) if self.waited else 0.0

    def _advance(self) -> float:
        now = self._clock()
        passed = now - self._at
        if passed > 0:
            self._at = now
            self.worked += self._busy * passed
            if self._ready:
                self.waited += passed
                self.idle += min(self._slots - self._busy, self._ready) * passed
        return now
