"""
Changes that the page makes: each is previewed, and what was previewed is what is made, once.

Owns the words change (one thing that an operator is about to do) and plan (a change whose preview was shown).
"""

from __future__ import annotations

import dataclasses
import secrets
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Protocol

from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MOST_PLANS = 50
PLAN_LASTS = timedelta(minutes=15)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """
    What a change would do.

    Attributes:
        title: the change in a few words, as a command.
        verb: what the button says.
        points: what happens, and what to know before.
        counts: what is meant, as tables of numbers or words, by what they are counted by.
        sample: the first of what is meant, records with the same keys.
        is_empty: whether there is nothing to do.
        is_final: whether it can't be undone.
    """

    title: str
    verb: str
    points: Sequence[str]
    counts: Mapping[str, Mapping[str, Any]]
    sample: Sequence[Mapping[str, Any]] = ()
    is_empty: bool = False
    is_final: bool = False


class Course(Protocol):
    """How a change tells how far it is, and learns that it is to stop."""

    def report(self, done: int, expected: int | None = None) -> None:
        """Tell how much is done; raises `Stopped`."""

    def say(self, text: str) -> None:
        """Tell what happens."""

    def pause(self, seconds: float) -> None:
        """Wait; raises `Stopped`."""


class Stopped(KeyboardInterrupt):
    """The operator has stopped a change, with the effect of Ctrl-C on a verb: the audit trail says interrupted."""


class Change(Protocol):
    """One thing that an operator is about to do; both methods raise `LanesError`."""

    def preview(self) -> Preview:
        """Tell what it would do; changes nothing."""

    def make(self, course: Course) -> Mapping[str, Any]:
        """Do it, with an entry in the audit trail; return what was done, by name."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A change and its preview."""

    id: str
    change: Change
    preview: Preview
    until: float


class Plans:
    """
    Plans that were shown and not made yet. Each can be made once, within fifteen minutes.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._plans: dict[str, Plan] = {}

    def keep(self, change: Change) -> Plan:
        """Preview a change and keep it."""
        plan = Plan(
            id=secrets.token_urlsafe(),
            change=change,
            preview=change.preview(),
            until=self._clock() + PLAN_LASTS.total_seconds(),
        )
        with self._lock:
            self._plans[plan.id] = plan
            while len(self._plans) > MOST_PLANS:
                del self._plans[next(iter(self._plans))]
        return plan

    def take(self, plan_id: str) -> Plan:
        """
        Return a plan and forget it.

        Raises:
            ConfigurationError: there is none: it was made already, or its preview is too old.
        """
        with self._lock:
            plan = self._plans.pop(plan_id, None)
        if plan is None or plan.until < self._clock():
            raise ConfigurationError(
                ["this was done already, or its preview is too old; look again"], source="plan"
            )
        return plan
