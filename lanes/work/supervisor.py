"""The supervisor: one process for each slot, replaced when it ends and killed when it hangs."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Protocol

from lanes.errors import ConfigurationError
from lanes.events import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from lanes.consumer.telemetry import Telemetry

BEGAN, ENDED, REFUSED = "began", "ended", "refused"
"""Words of a slot's reports: a run began, it ended, the slot can't start."""

TICK = 0.2
"""Seconds between two looks at the slots."""

OVERTIME = 1.0
"""
Seconds beyond the function timeout after which a slot is killed: its last poll may end that late.

Received records stay invisible for longer, `lanes.consumer.records.BEYOND`, so no other slot has them yet.
"""

STEADY = 10.0
"""Seconds after which a slot counts as started well: its next death is its first."""

STILLBORN = 3
"""Ends of the first slot before any run, after which the command gives up: it has no reason that could pass."""

LONGEST_BACKOFF = 30.0
"""Seconds until a slot that dies again and again is started again."""


class SlotProcess(Protocol):
    """The process of a slot."""

    @property
    def pid(self) -> int:
        """Its process id."""

    def exit_code(self) -> int | None:
        """Return its exit code, negative for a signal; None while it runs. After its end no child of it runs."""

    def reports(self) -> Sequence[tuple[str, str]]:
        """Return its new reports: a word, and the reason of a refusal."""

    def last_line(self) -> str:
        """Return the last line that it wrote to standard error, after its end."""

    def stop(self) -> None:
        """Ask it to finish the record in hand, return the rest and exit."""

    def kill(self) -> None:
        """Kill it and its children."""


@dataclasses.dataclass(slots=True)
class _Place:
    """A slot, with or without a process."""

    number: int
    process: SlotProcess | None = None
    started_at: float = 0.0
    starts_at: float = 0.0
    run_ends_by: float | None = None
    deaths: int = 0
    is_killed: bool = False
    refusal: str | None = None


class Supervisor:
    """
    Keeps the slots running until it is stopped.

    The first slot shows whether the consumer can start at all; the others follow when it has begun. A slot is started
    again only after its process has ended, so there are never more handlers than slots.

    Args:
        slots: number of slots.
        start: starts the process of a slot, by its number.
        timeout: the function timeout in seconds, the longest run of a slot.
        grace: seconds from a stop until the slots are killed.
        telemetry: receives the events.
        collect: collects ended processes other than those with these process ids.
        clock: monotonic seconds.
        sleep: lets seconds pass.

    """

    def __init__(
        self,
        *,
        slots: int,
        start: Callable[[int], SlotProcess],
        timeout: float,
        grace: float,
        telemetry: Telemetry,
        collect: Callable[[Collection[int]], None] = lambda _slots: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._places = [_Place(number) for number in range(slots)]
        self._start = start
        self._timeout = timeout
        self._grace = grace
        self._telemetry = telemetry
        self._collect = collect
        self._clock = clock
        self._sleep = sleep
        self._stops = 0
        self._has_begun = False
        self._stillborn = 0

    def stop(self) -> None:
        """Stop the slots; called again, kill them. A signal handler may call it."""
        self._stops += 1

    def run(self) -> bool:
        """
        Keep the slots running; after a stop, return whether all of them ended by themselves.

        Raises:
            ConfigurationError: the first slot could not start, or ended several times before its first run.

        """
        while not self._stops:
            self._look()
            self._start_due()
            self._sleep(TICK)
        return self._end()

    def _end(self) -> bool:
        """Stop the slots and wait for their end; return whether none had to be killed."""
        self._look()
        asked = [(place, place.process) for place in self._places if place.process is not None]
        for _, process in asked:
            process.stop()
        until = self._clock() + self._grace
        while self._look():
            if self._stops > 1 or self._clock() >= until:
                for place, process in asked:
                    self._kill(place, process, reason="stop")
            self._sleep(TICK)
        return not any(place.is_killed for place, _ in asked)

    def _look(self) -> bool:
        """Look at each process once; return whether any still runs."""
        for place in self._places:
            if place.process is not None:
                self._look_at(place, place.process)
        self._collect([place.process.pid for place in self._places if place.process is not None])
        return any(place.process is not None for place in self._places)

    def _look_at(self, place: _Place, process: SlotProcess) -> None:
        # Before the reports, so that the last words of a process that has just ended are read.
        code = process.exit_code()
        for word, reason in process.reports():
            self._hear(place, word, reason)
        if code is not None:
            self._bury(place, process, code)
        elif place.run_ends_by is not None and self._clock() >= place.run_ends_by:
            self._kill(place, process, reason="timeout")

    def _hear(self, place: _Place, word: str, reason: str) -> None:
        """Take in a report."""
        if word == REFUSED:
            place.refusal = reason
        else:
            self._has_begun = True
            place.run_ends_by = self._clock() + self._timeout + OVERTIME if word == BEGAN else None

    def _bury(self, place: _Place, process: SlotProcess, code: int) -> None:
        """Free the place of a process that has ended, and set the time of the next start."""
        place.process, now = None, self._clock()
        self._telemetry.event(
            Event.SLOT_STOPPED,
            {"slot": place.number, "pid": process.pid, "exit_code": code, "error": place.refusal},
        )
        if place.refusal is not None and not self._has_begun:
            raise ConfigurationError([place.refusal], source="MODULE:CONSUMER")
        place.deaths = 1 if now - place.started_at >= STEADY else place.deaths + 1
        if not self._has_begun:
            self._count_stillborn(process, code)
        # A killed slot has taken a function timeout to fail, so its next start needs no pause.
        place.starts_at = now if place.is_killed else now + min(2.0 ** (place.deaths - 1), LONGEST_BACKOFF)

    def _count_stillborn(self, process: SlotProcess, code: int) -> None:
        self._stillborn += 1
        if self._stillborn >= STILLBORN:
            ending = f"by signal {-code}" if code < 0 else f"with exit code {code}"
            problem = (
                f"the first slot ended {self._stillborn} times before its first run, {ending}; "
                f"its last line: {process.last_line() or 'none'}"
            )
            raise ConfigurationError([problem], source="MODULE:CONSUMER")

    def _kill(self, place: _Place, process: SlotProcess, *, reason: str) -> None:
        if place.process is process and not place.is_killed:
            place.is_killed = True
            self._telemetry.event(
                Event.SLOT_KILLED, {"slot": place.number, "pid": process.pid, "reason": reason}
            )
            process.kill()

    def _start_due(self) -> None:
        """Start the slots that have no process and are due."""
        now = self._clock()
        # One at first: a consumer that can't start fails once, not once for each slot.
        for place in self._places if self._has_begun else self._places[:1]:
            if place.process is None and now >= place.starts_at:
                place.run_ends_by, place.is_killed, place.refusal = None, False, None
                place.process, place.started_at = self._start(place.number), now
                self._telemetry.event(Event.SLOT_STARTED, {"slot": place.number, "pid": place.process.pid})
