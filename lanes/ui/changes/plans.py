"""
Plan the changes of the page: each has a preview, and each preview can be carried out once.

Owns the words change (an action of an operator) and plan (a change with its preview).
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

# A plan keeps a sample of messages in memory; an operator has a handful open.
MAX_PLANS = 50
# Longer than a phone call about it, shorter than the state that it shows.
PLAN_LASTS = timedelta(minutes=15)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """
    The preview of a change.

    Attributes:
        title: the change in a few words, as a command.
        verb: text of the button that makes the change.
        dismiss: text of the button that does not.
        points: effects of the change, and advice.
        counts: tables of counts, by their criterion.
        sample: the first selected records; all have the same keys.
        is_empty: whether the change has no effect.
        is_final: whether it can't be undone.
    """

    title: str
    verb: str
    points: Sequence[str]
    counts: Mapping[str, Mapping[str, Any]]
    dismiss: str = "Cancel"
    sample: Sequence[Mapping[str, Any]] = ()
    is_empty: bool = False
    is_final: bool = False


class Progress(Protocol):
    """Reports the progress of a change, and stops it on request."""

    def report(self, done: int, expected: int | None = None) -> None:
        """Report the number of finished items; raises `Stopped`."""

    def say(self, text: str) -> None:
        """Report the current step."""

    def pause(self, seconds: float) -> None:
        """Wait; raises `Stopped`."""


class Stopped(KeyboardInterrupt):
    """The operator has stopped a change; as after Ctrl-C in a verb, the audit trail says interrupted."""


class Change(Protocol):
    """An action of an operator; both methods raise `LanesError`."""

    def preview(self) -> Preview:
        """Preview the change without changing anything."""

    def make(self, progress: Progress) -> Mapping[str, Any]:
        """Make the change, with an entry in the audit trail, and return its results by name."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A change and its preview."""

    id: str
    change: Change
    preview: Preview
    until: float


class Plans:
    """
    Plans that are not carried out yet. Each can be carried out once, within fifteen minutes.

    Args:
        clock: monotonic seconds.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._plans: dict[str, Plan] = {}

    def keep(self, change: Change) -> Plan:
        """Preview a change and keep its plan."""
        plan = Plan(
            id=secrets.token_urlsafe(),
            change=change,
            preview=change.preview(),
            until=self._clock() + PLAN_LASTS.total_seconds(),
        )
        with self._lock:
            self._plans[plan.id] = plan
            while len(self._plans) > MAX_PLANS:
                del self._plans[next(iter(self._plans))]
        return plan

    def take(self, plan_id: str) -> Plan:
        """
        Remove a plan and return it.

        Raises:
            ConfigurationError: the plan was carried out already, or its preview is too old.
        """
        with self._lock:
            # Taken out first, so that two clicks can't make one change twice.
            plan = self._plans.pop(plan_id, None)
        if plan is None or plan.until < self._clock():
            raise ConfigurationError(
                ["this change was made already, or its preview is too old; preview it again"], source="plan"
            )
        return plan
