"""An exhaustive search: every state that a protocol can reach, and those from which its end can't be reached."""

from __future__ import annotations

from collections import deque


class Violation(Exception):  # noqa: N818 - what a search looks for
    """Something that must never happen has happened."""


def explore(start, protocol, *, limit):
    """
    Visit every reachable state.

    Args:
        start: the first state; every state is hashable and tells by `finished` whether all is over.
        protocol: gives `successors(state)` as pairs of a step's name and a state, and raises `Violation` where a step
            breaks a promise.
        limit: most states to visit.

    Returns:
        How many there are, and the paths to those from which none leads to a finished one.

    Raises:
        Violation: with the steps that lead to it.

    """
    steps = {start: (None, "start")}
    arrivals: dict = {start: []}
    waiting = deque([start])
    while waiting:
        state = waiting.popleft()
        for name, after in _following(protocol, state, steps):
            if after not in steps:
                if len(steps) >= limit:
                    raise RuntimeError(f"over {limit} states")
                steps[after] = (state, name)
                arrivals[after] = []
                waiting.append(after)
            arrivals[after].append(state)
    return len(steps), _stuck(arrivals, steps)


def _following(protocol, state, steps):
    try:
        return list(protocol.successors(state))
    except Violation as violation:
        raise Violation(f"{violation}: {_path(state, steps)}") from None


def _stuck(arrivals, steps):
    """Give the paths to states from which the end can't be reached, walking back from it."""
    reached = {state for state in arrivals if state.finished}
    waiting = deque(reached)
    while waiting:
        for before in arrivals[waiting.popleft()]:
            if before not in reached:
                reached.add(before)
                waiting.append(before)
    return [_path(state, steps) for state in arrivals if state not in reached]


def _path(state, steps):
    names = []
    while state is not None:
        state, name = steps[state]
        names.append(name)
    return " > ".join(names[::-1])
