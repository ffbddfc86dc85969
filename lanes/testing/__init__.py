"""
Lanes without AWS, for the tests of applications: the real consumer over queues in memory.

The public names; each is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lanes.testing.calls import ProcessKilled as ProcessKilled
    from lanes.testing.clock import FakeClock as FakeClock
    from lanes.testing.in_memory import InMemoryLanes as InMemoryLanes
    from lanes.testing.mapping import NeverIdleError as NeverIdleError

HOMES = {
    "FakeClock": "lanes.testing.clock",
    "InMemoryLanes": "lanes.testing.in_memory",
    "NeverIdleError": "lanes.testing.mapping",
    "ProcessKilled": "lanes.testing.calls",
}

__all__ = [  # noqa: PLE0604 - the names are the keys of the table above
    *HOMES,
]


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'lanes.testing' has no attribute {name!r}")
    value = getattr(import_module(HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *HOMES])
