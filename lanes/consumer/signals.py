"""Signals: the exceptions by which a handler decides the outcome of its record, also inside exception groups."""

from __future__ import annotations

import sys
from concurrent.futures import CancelledError
from datetime import timedelta
from typing import TYPE_CHECKING

from lanes.errors import DeadLetter, Retry, Unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lanes.config import Lane


LONGEST_TEXT = 4_000
"""Characters of an error, an outcome or a reason: a line of CloudWatch Logs that is too long comes in parts."""


class Yielded(BaseException):
    """
    Raised by `HandlerContext.checkpoint` to leave a handler whose record yields.

    Not an `Exception`, so that a handler's own `except Exception` lets it pass. `to` is the lane with priority; None
    if the function's time is nearly over.
    """

    def __init__(self, to: Lane | None = None) -> None:
        super().__init__()
        self.to = to


def deciding(error: BaseException, *, unavailable: tuple[type[Exception], ...] = ()) -> BaseException:
    """
    Return the exception that decides an attempt: the error itself, or the strongest one inside of an exception group.

    The end of the process comes first, then `DeadLetter`, then the `Retry` with the longest `after`. A group is a yield
    only if nothing else is in it, and finds a resource away only if nothing but yields is beside that: the tasks that
    are cancelled meanwhile don't count. Else its only error decides, or the group itself. One of the types that mean
    `Unavailable` becomes that.
    """
    if not isinstance(error, BaseExceptionGroup):
        is_away = isinstance(error, unavailable) and not isinstance(error, Retry | DeadLetter | Unavailable)
        return _away(error) if is_away else error
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
    away = [leaf for leaf in failures if isinstance(leaf, (Unavailable, *unavailable))]
    if away and len(away) == len(failures):
        signals = [leaf if isinstance(leaf, Unavailable) else _away(leaf) for leaf in away]
        return max(signals, key=lambda one: asked_delay(one) or timedelta(0))
    return failures[0] if len(failures) == 1 else error


def readable(raised: BaseException) -> BaseException:
    """Return an exception, or another one in its place if its class fails when it is looked at."""
    try:
        for one in _leaves(raised) if isinstance(raised, BaseExceptionGroup) else (raised,):
            isinstance(one, Retry)
            str(type(one).__name__)
    except Exception as error:  # noqa: BLE001 - the border to user code
        return RuntimeError(f"the handler raised an exception whose class fails: {text_of(error)}")
    return raised


def asked_delay(error: BaseException) -> timedelta | None:
    """Return the delay that a handler asked for; None leaves it to the backoff."""
    try:
        # A subclass in your application may not have set it, or may fail to compute it.
        after = error.after if isinstance(error, Retry | Unavailable) else None
    except Exception:  # noqa: BLE001 - the border to user code
        return None
    return after if isinstance(after, timedelta) else None


def is_attempt(error: BaseException) -> bool:
    """Whether a `Retry` counts as a failed attempt; another error always does."""
    try:
        return not (isinstance(error, Retry) and error.counts is False)
    except Exception:  # noqa: BLE001 - see above
        return True


def _away(error: BaseException) -> Unavailable:
    """Return the signal for an exception whose type means it."""
    signal = Unavailable(reason=f"{type(error).__name__}: {text_of(error)}")
    signal.__cause__ = error
    return signal


def text_of(value: object) -> str:
    """Return a value of user code as text that DynamoDB, SQS and a line of a log take; its type if it has none."""
    try:
        text = str(value)
    except KeyboardInterrupt:  # it ends the process
        raise
    except BaseException:  # noqa: BLE001 - it comes from user code
        text = f"a {type(value).__name__} without text"
    if len(text) > LONGEST_TEXT:
        text = f"{text[:LONGEST_TEXT]} ... ({len(text)} characters)"
    # Half a surrogate pair is text to Python alone: DynamoDB and SQS refuse it.
    return text.encode("utf-8", "replace").decode()


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
