"""The supervisor: one process for each slot, replaced when it ends and killed when it hangs."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import sysconfig
import threading
import time
from contextlib import suppress
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import IO, TYPE_CHECKING, Protocol

from lanes.errors import ConfigurationError
from lanes.events import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from multiprocessing.connection import Connection

    from lanes.consumer.telemetry import Telemetry


def search_path(paths: Iterable[str], *, folder: Path) -> list[str]:
    """
    Return a search path on which a folder comes first, but for Python's standard library.

    A `queue.py` or an `email.py` in the folder must not replace the module that boto3 means.

    Args:
        paths: the search path so far.
        folder: with the modules of the application.
    """
    standard = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    standard |= {f"{path}/lib-dynload" for path in standard}
    rest = [path for path in paths if path not in ("", str(folder))]
    return [path for path in rest if path in standard] + [
        str(folder),
        *(path for path in rest if path not in standard),
    ]


# With the search path of this process, so that both import the same library. It imports nothing before that path is
# set: a handler's json.py would be found first.
_PROGRAM = (
    "import os, sys; sys.path[:] = sys.argv[1].split(os.pathsep); "
    "from lanes.work.slot import main; main(*sys.argv[2:])"
)
STOP = "stop"
STDERR = 2
TAIL = 2000
"""Bytes of a slot's last output to standard error that are kept, for its last line."""


def collect_orphans(slots: Collection[int]) -> None:
    """
    Collect processes that have ended and are not the processes of slots.

    As process 1 of a container, the supervisor is the parent of every program that a handler leaves behind. Without
    this each would stay in the table of processes for ever.
    """
    # macOS has no waitid, and no containers. Only looked at first: a slot's exit code is for its own process object.
    while os.getpid() == 1 and hasattr(os, "waitid"):
        with suppress(ChildProcessError):
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if ended is not None and ended.si_pid not in slots:
                os.waitpid(ended.si_pid, os.WNOHANG)
                continue
        return


class RunningSlot:
    """
    A slot that runs in a process of its own.

    It leads a session of its own: Ctrl-C in a terminal reaches the supervisor alone, and a kill reaches programs that
    a handler started too.
    """

    def __init__(self, process: subprocess.Popen[bytes], control: Connection) -> None:
        self._process = process
        self._control = control
        self._tail = b""
        # Its output goes on as it comes. The thread may outlive the process, with a program that a handler started.
        assert process.stderr is not None  # noqa: S101 - a pipe was asked for
        self._reader = threading.Thread(target=self._pass_on, args=(process.stderr,), daemon=True)
        self._reader.start()

    @classmethod
    def start(cls, number: int, *, consumer: str, environment: Mapping[str, str]) -> RunningSlot:
        """
        Start the process.

        Args:
            number: of the slot, from 0.
            consumer: `MODULE:CONSUMER`.
            environment: its variables.
        """
        control, other_end = Pipe()
        with other_end:
            path = os.pathsep.join(search_path(sys.path, folder=Path.cwd()))
            arguments = [path, str(other_end.fileno()), str(number), consumer]
            # A new interpreter, not a fork: clients of boto3 and threads do not survive one.
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM, *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[other_end.fileno()],
                start_new_session=True,
            )
        return cls(process, control)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def exit_code(self) -> int | None:
        """Return its exit code, None while it runs; end its children with it."""
        code = self._process.poll()
        if code is not None:
            # Programs that a handler started are still in its session, and would use the resource without a slot.
            self.kill()
        return code

    def reports(self) -> list[tuple[str, str]]:
        """Return its new reports."""
        found: list[tuple[str, str]] = []
        with suppress(EOFError, OSError):
            while self._control.poll():
                found.append(self._control.recv())
        return found

    def last_line(self) -> str:
        """Return the last line that it wrote to standard error; call it after the end."""
        self._reader.join(timeout=1.0)
        lines = self._tail.decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def _pass_on(self, output: IO[bytes]) -> None:
        with output, suppress(OSError):
            while chunk := os.read(output.fileno(), 65536):
                self._tail = (self._tail + chunk)[-TAIL:]
                os.write(STDERR, chunk)

    def stop(self) -> None:
        """Ask it to stop."""
        with suppress(OSError):
            self._control.send(STOP)

    def kill(self) -> None:
        """Kill its session's group."""
        # macOS answers with PermissionError for a group of processes that have ended but are not collected.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


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
