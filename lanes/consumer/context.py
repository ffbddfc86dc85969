"""What a handler may know and do while it runs: its attempt, its lane, the time left, and yielding in mid-work."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from lanes.values import value_type

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import timedelta


class Yielded(BaseException):
    """
    Raised by `HandlerContext.checkpoint` to leave a handler that has to make way.

    Not an `Exception`, so that a handler's own `except Exception` lets it pass.
    """


@value_type
class HandlerContext:
    """
    The second argument of a handler that asks for one.

    Attributes:
        lane: name of the lane that the message came by.
        attempt: 1 for the first; yields and throttles don't count.
        max_attempts: the attempt after which a failure becomes a dead letter.
        receive_count: how often SQS delivered the message, yields included.
        message_id: the id that SQS gave, as in the consumer's logs.
        traceparent: W3C trace context of this run, to hand to the services it calls; None where the message belongs to
            no trace. What the handler sends continues the trace by itself.
        remaining: call it for the time left before Lambda ends the function.

    """

    lane: str
    attempt: int
    max_attempts: int
    receive_count: int
    message_id: str
    remaining: Callable[[], timedelta]
    check: Callable[[], None] = dataclasses.field(repr=False)
    traceparent: str | None = None

    def checkpoint(self) -> None:
        """
        Yield here if more urgent work waits, or if the function's time is nearly over; else return at once.

        Call it where the work done so far may be done again: the message returns to its lane, keeps its attempt,
        and its handler starts anew later. Cheap to call often: the queues are read at most once in
        `recheck_interval`.
        """
        self.check()
