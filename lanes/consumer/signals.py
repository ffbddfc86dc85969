"""Signals: the exceptions by which a handler decides the outcome of its record, also inside exception groups."""

from __future__ import annotations

import sys
from concurrent.futures import CancelledError
from datetime import timedelta
from typing import TYPE_CHECKING

from lanes.errors import DeadLetter, Retry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lanes.config import Lane


class Yielded(BaseException):
    """
    Raised by `HandlerContext.checkpoint` to leave a handler whose record yields.

    Not an `Exception`, so that a handler's own `except Exception` lets it pass. `to` is the lane with priority; None
    if the function's time is nearly over.
    """

    def __init__(self, to: Lane | None = None) -> None:
        super().__init__()
        self.to = to


def deciding(error: BaseException) -> BaseException:
    """
    Return the exception that decides an attempt: the error itself, or the strongest one inside of an exception group.

    The end of the process comes first, then `DeadLetter`, then the `Retry` with the longest `after`. A group is a yield
    only if nothing else is in it: the tasks that are cancelled meanwhile don't count. Else its only error decides, or
    the group itself.
    """
    if not isinstance(error, BaseExceptionGroup):
        return error
    leaves = list(_leaves(error))
    for kind in (KeyboardInterrupt, DeadLetter):
        if found := next((leaf for leaf in leaves if isinstance(leaf, kind)), None):
            return found
    if retries := [leaf for leaf in leaves if isinstance(leaf, Retry)]:
        return max(retries, key=lambda retry: asked_delay(retry) or timedelta(0))
    others = [leaf for leaf in leaves if not isinstance(leaf, _cancellations())]
    yields = [leaf for leaf in others if isinstance(leaf, Yielded)]
    if yields and len(yields) == len(others):
        return next((one for one in yields if one.to is not None), yields[0])
    failures = [leaf for leaf in others if not isinstance(leaf, Yielded)]
    return failures[0] if len(failures) == 1 else error


def asked_delay(error: BaseException) -> timedelta | None:
    """Return the delay that a handler asked for; None leaves it to the backoff."""
    try:
        # A subclass in your application may not have set it, or may fail to compute it.
        after = error.after if isinstance(error, Retry) else None
    except Exception:  # noqa: BLE001 - the border to user code
        return None
    return after if isinstance(after, timedelta) else None


def _leaves(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """Yield the exceptions of a group and of the groups in it, in their order; groups may be nested deeply."""
    pending: list[BaseException] = [group]
    while pending:
        error = pending.pop()
        if isinstance(error, BaseExceptionGroup):
            pending += reversed(error.exceptions)
        else:
            yield error


def _cancellations() -> tuple[type[BaseException], ...]:
    # Not imported: asyncio takes 20 ms of a cold start, and without it none of its tasks was cancelled.
    asyncio = sys.modules.get("asyncio")
    return (CancelledError, asyncio.CancelledError) if asyncio else (CancelledError,)
