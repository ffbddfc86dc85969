"""The processes that a program started, directly or through others, for tests that none of them stays."""

import time
from pathlib import Path

PROC = Path("/proc")


def descendants(pid):
    """Give what runs below a process: (pid, start time), so that a number used again is not mistaken."""
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
    """Give the name of a process's program, or nothing if it has ended."""
    try:
        return (PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return ""


def still_running(processes, *, within):
    """Wait for their end, and give those that go on after so many seconds."""
    until = time.monotonic() + within
    while True:
        left = {one for one in processes if _runs(*one)}
        if not left or time.monotonic() > until:
            return left


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
