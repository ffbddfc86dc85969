"""What the terminal of `lanes local up` shows of the functions: their own lines, failures and faults."""

import difflib
import json
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from lanes.cli.printing import escape_controls, one_line
from lanes.events import Event

_TROUBLE = re.compile(r"(?s)Init failed: .*|Runtime exited with status -?\w+|Task timed out after .*")
_OF_LAMBDA = re.compile(r"(START|END|REPORT) RequestId: |\[WARNING\]\t\S+\t\tLAMBDA_WARNING: ")
_OF_IMPORTLIB = re.compile(r'  File "[^"\n]*\bimportlib\b[^\n]*\n(    [^\n]*\n)*')
"""Frames of a trace that say nothing about the code."""
_UNKNOWN_KIND = "unknown_kind"


class Terminal:
    """
    Shows what handlers print, each failed attempt, each dead letter, and each kind without a handler once.

    A fault of a function, such as one that does not start, is shown once until `forget`: it writes no event.

    Args:
        stream: the terminal.
        logs: the folder of the functions' logs.
    """

    def __init__(self, stream: TextIO, logs: Path) -> None:
        self._stream = stream
        self._logs = logs
        self._lock = threading.Lock()
        self._shown: set[tuple[str, str]] = set()
        self.kinds: set[str] = set()
        """Kinds that the app's code has handlers for, to find the one that was meant."""

    def __call__(self, function_name: str, line: str) -> None:
        """Take one line of a function."""
        with self._lock:
            if found := _TROUBLE.search(line):
                self._write_once(
                    function_name,
                    f"{function_name}: {found[0]}\n  see {self._logs / f'{function_name}.log'}\n"
                    "  its messages return when their visibility timeout ends, or at once when you save a correction",
                )
            elif (event := _event(line)) is not None:
                self._show(function_name, event)
            elif not _OF_LAMBDA.match(line):
                # The runtime writes a trace as one line.
                self._write(_OF_IMPORTLIB.sub("", line.replace("\r", "\n")))

    def _show(self, function_name: str, event: Mapping[str, Any]) -> None:
        # A body that is no event has no kind.
        message = one_line(" ".join(str(one) for one in (event.get("kind"), event.get("id")) if one))
        name = event.get("event")
        if name == Event.MESSAGE_FAILED:
            self._write(f"{message}: attempt {event.get('attempt')} failed: {event.get('error')}")
        elif name == Event.MESSAGE_DEAD_LETTERED:
            error = f": {event['error']}" if event.get("error") else ""
            self._write(f"{message}: dead letter, {event.get('reason')}{error}")
        elif name == Event.BATCH_RETURNED and event.get("reason") == _UNKNOWN_KIND:
            for kind in sorted({str(one.get("kind")) for one in event.get("messages", ())}):
                meant = difflib.get_close_matches(kind, self.kinds, 1)
                hint = f"; did you mean {meant[0]}?" if meant else ""
                self._write_once(function_name, one_line(f"{kind}: no handler{hint}"))

    def _write_once(self, function_name: str, text: str) -> None:
        if (function_name, text) not in self._shown:
            self._shown.add((function_name, text))
            self._write(text)

    def _write(self, text: str) -> None:
        self._stream.write(f"{escape_controls(text)}\n")
        self._stream.flush()

    def forget(self, function_name: str) -> None:
        """Show faults and kinds of the function again, since its code is another one."""
        with self._lock:
            self._shown = {one for one in self._shown if one[0] != function_name}


def _event(line: str) -> dict[str, Any] | None:
    """Return the event of a line of the library's log, or the metrics in one."""
    if not line.startswith("{"):
        return None
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) and not found.keys().isdisjoint({"event", "_aws"}) else None
