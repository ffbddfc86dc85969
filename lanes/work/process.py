"""The process of a slot, as the supervisor has it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from multiprocessing.connection import Pipe
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from multiprocessing.connection import Connection

# With the search path of this process, so that both import the same library.
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from lanes.work.slot import main; main(*sys.argv[2:])"
)
STOP = "stop"


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
            arguments = [json.dumps(sys.path), str(other_end.fileno()), str(number), consumer]
            # A new interpreter, not a fork: clients of boto3 and threads do not survive one.
            process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
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

    def stop(self) -> None:
        """Ask it to stop."""
        with suppress(OSError):
            self._control.send(STOP)

    def kill(self) -> None:
        """Kill its session's group."""
        # macOS answers with PermissionError for a group of processes that have ended but are not collected.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
