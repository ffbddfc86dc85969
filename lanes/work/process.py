"""The process of a slot, as the supervisor has it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Pipe
from pathlib import Path
from typing import IO, TYPE_CHECKING

from lanes.work.loading import search_path

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from multiprocessing.connection import Connection

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
