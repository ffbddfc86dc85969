"""Waiting for an effect of threads, processes and functions: a condition, an end, a printed line."""

from __future__ import annotations

import json
import socket
import threading
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


TIMEOUT_SECONDS, INTERVAL_SECONDS = 120.0, 0.05  # the timeout is far more than a busy machine needs

SLACK = timedelta(minutes=2)
"""Time beyond the timeouts of functions: if a busy machine ends one, its messages stay hidden for minutes."""


def until(condition: Callable[[], bool], *, why: str = "the condition never held") -> None:
    """Check a condition again and again until it holds; fail after two minutes."""
    for _ in range(int(TIMEOUT_SECONDS / INTERVAL_SECONDS)):
        if condition():
            return
        threading.Event().wait(INTERVAL_SECONDS)
    raise AssertionError(why)


def answers(port: int) -> bool:
    """Return whether a server of this machine listens on a port."""
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


PROC = Path("/proc")


def descendants(pid):
    """Return (pid, start time) of all processes below one; the start time distinguishes a reused pid."""
    children = {}
    for stat in PROC.glob("[0-9]*/stat"):
        found = _read(stat)
        if found:
            children.setdefault(found[1], []).append((found[0], found[2]))
    below, waiting = set(), [pid]
    while waiting:
        for child in children.get(waiting.pop(), []):
            below.add(child)
            waiting.append(child[0])
    return below


def name_of(pid):
    """Return the name of a process's program, or nothing if it has ended."""
    try:
        return (PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return ""


def wait_for_end(processes):
    """Wait until none of the processes runs."""
    until(lambda: not any(_runs(*one) for one in processes), why="a process did not end")


def _runs(pid, started):
    found = _read(PROC / str(pid) / "stat")
    return found is not None and found[2] == started and found[3] != "Z"


def _read(stat):
    try:
        text = stat.read_text()
    except (OSError, ValueError):
        return None
    # The name in parentheses may hold anything.
    fields = text.rpartition(")")[2].split()
    return int(text.split(" ", 1)[0]), int(fields[1]), fields[19], fields[0]


class FunctionLines:
    """Collects lines; give it to a platform as `on_line`."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._seen: list[str] = []

    def __call__(self, _function: str, line: str) -> None:
        """Take a line."""
        with self._changed:
            self._seen.append(line)
            self._changed.notify_all()

    def wait_for(self, text: str) -> str:
        """Return the first line that contains a text, once there is one."""
        return self._wait(lambda: next((line for line in self._seen if text in line), ""))

    def wait_for_events(self, name: str, *message_ids: str) -> list[dict[str, Any]]:
        """Return the log events of this name about these messages, once there is one for each."""

        def found() -> list[dict[str, Any]]:
            events = [json.loads(line) for line in self._seen if f'"{name}"' in line]
            by_id = {event.get("id"): event for event in events if event.get("event") == name}
            return [by_id[one] for one in message_ids] if by_id.keys() >= set(message_ids) else []

        return self._wait(found)

    def _wait(self, found: Callable[[], Any]) -> Any:
        with self._changed:
            self._changed.wait_for(found, TIMEOUT_SECONDS)
            result = found()
        assert result, self._seen[-100:]
        return result
