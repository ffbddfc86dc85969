"""The processes that a program started, directly or through others, so that tests can wait for their end."""

from pathlib import Path

from tests.support.waiting import until

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
