"""Runs of the lanes: until no message waits, for some time, or until a condition holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.testing.clock import FakeClock
    from lanes.testing.invocations import Invocations
    from lanes.testing.journal import Journal
    from lanes.testing.mappings import Mappings, Rings
    from lanes.testing.relays import Relays
    from lanes.testing.sender import MemoryLater

INVOCATIONS_A_HANDLING = 20
"""Invocations for each handler start, yields and backoffs included, beyond which the run makes no progress."""


class NeverIdleError(RuntimeError):
    """The lanes did not come to rest: something sends or returns messages without end."""


class Runs:
    """
    Runs relays, mappings and consumer, and moves the clock to the next event when they are idle.

    Args:
        source: starts invocations.
        invocations: counts them.
        relays: publish outbox entries.
        later: sends messages for later.
        journal: of the messages.
        clock: the time.

    """

    def __init__(
        self,
        *,
        source: Mappings | Rings,
        invocations: Invocations,
        relays: Relays,
        later: MemoryLater,
        journal: Journal,
        clock: FakeClock,
    ) -> None:
        self._source = source
        self._invocations = invocations
        self._relays = relays
        self._later = later
        self._journal = journal
        self._clock = clock

    def until(
        self, condition: Callable[[], bool], *, most_handlings: int, deadline: float | None = None
    ) -> bool:
        """Run until the condition holds, no message waits, or the deadline is reached; return whether it holds."""
        limit = RunLimit(self._invocations, self._journal, most=most_handlings)
        while not condition():
            if not (self._work(lambda: condition() or limit.is_reached) or self._wait(deadline)):
                return condition()
            limit.check()
        return True

    def _work(self, until: Callable[[], bool]) -> bool:
        """Send the messages and entries that are due, and run one invocation; return whether there was work."""
        published = self._later.send_due() | self._relays.run()
        return self._source.step(until=until) or published

    def _wait(self, deadline: float | None) -> bool:
        """
        Move the clock until a message becomes visible or is due; return False if none will before the deadline.

        Without a deadline nothing waits for messages for later, which may be due in a year.
        """
        moment = self._source.next_moment()
        latest = moment if deadline is None else deadline
        due = self._later.next_due()
        if due is not None and latest is not None and due <= latest and (moment is None or due < moment):
            moment = due
        if moment is None or (deadline is not None and moment > deadline):
            return False
        self._clock.advance_to(moment)
        return True


class RunLimit:
    """Counts handler starts and invocations from now on, up to a limit."""

    def __init__(self, invocations: Invocations, journal: Journal, *, most: int) -> None:
        self._invocations = invocations
        self._journal = journal
        self._most = most
        self._sent = len(journal.sent)
        self._started = invocations.started.copy()
        self._ran = invocations.total

    @property
    def is_reached(self) -> bool:
        """Whether the run counts as endless."""
        started = self._invocations.started - self._started
        invocations = self._invocations.total - self._ran
        return started.total() >= self._most or invocations >= self._most * INVOCATIONS_A_HANDLING

    def check(self) -> None:
        """
        Raise if the limit is reached.

        Raises:
            NeverIdleError: with the kinds that were handled most.

        """
        if not self.is_reached:
            return
        started = self._invocations.started - self._started
        invocations = self._invocations.total - self._ran
        kinds = ", ".join(f"{kind} {count} times" for kind, count in started.most_common(3)) or "none"
        sent = len(self._journal.sent) - self._sent
        raise NeverIdleError(
            f"not idle after {started.total()} handler starts in {invocations} invocations; handled: {kinds}; "
            f"{sent} messages were sent meanwhile and {len(self._journal.waiting)} wait. A handler that sends what it "
            f"handles never ends; if this is meant, give most_handlings=, or use run_for"
        )
