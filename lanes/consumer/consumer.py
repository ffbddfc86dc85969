"""The consumer that an application makes: it registers handlers, and answers Lambda's events."""

from __future__ import annotations

import contextlib
import dataclasses
import random as randomness
import time
import uuid
from typing import TYPE_CHECKING, Any, Protocol

from lanes.consumer.background import NoBackground
from lanes.consumer.batch import Batch
from lanes.consumer.dead_letters import DeadLetters
from lanes.consumer.diversion import Forwarding
from lanes.consumer.handlers import Handlers
from lanes.consumer.holds import Holds, NoHolds
from lanes.consumer.invocation import Invocation
from lanes.consumer.loads import DepthReader
from lanes.consumer.overrides import NoOverrides, Overrides
from lanes.consumer.parts import Parts, build_parts
from lanes.consumer.records import PartialBatchResponse, oldest_first, read_batch, response_for
from lanes.consumer.settlement import Visibility
from lanes.consumer.tracing import Tracing, Untraced
from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

    from lanes.config import Lane
    from lanes.consumer.background import Background
    from lanes.consumer.context import HandlerContext
    from lanes.consumer.handlers import Around
    from lanes.consumer.ledger import Ledger
    from lanes.consumer.slots import SlotRegister
    from lanes.consumer.telemetry import Telemetry
    from lanes.deployment import Deployment


class Queues(DepthReader, Visibility, DeadLetters, Forwarding, Protocol):
    """What the consumer does with queues: read their counts, change visibilities, dead-letter, send on."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """
    Everything a consumer touches: built from the function's environment unless given.

    Give your own in tests; `clock` returns epoch seconds, `pause` lets so many pass. Without `overrides` and `holds`
    nothing that waits can be cancelled or moved, and no group is held; without a `background` nothing is read while a
    handler is at work.
    """

    deployment: Deployment
    queues: Queues
    ledger: Ledger
    register: SlotRegister
    telemetry: Telemetry
    tracing: Tracing = dataclasses.field(default_factory=Untraced)
    clock: Callable[[], float] = time.time
    pause: Callable[[float], None] = time.sleep
    background: Background = dataclasses.field(default_factory=NoBackground)
    random: Random = dataclasses.field(default_factory=randomness.Random)
    overrides: Overrides = dataclasses.field(default_factory=NoOverrides)
    holds: Holds = dataclasses.field(default_factory=NoHolds)

    @classmethod
    def from_env(cls) -> Surroundings:
        """
        Build them as the stack has set up the function.

        Raises:
            ConfigurationError: `LANES_DEPLOYMENT` is missing or wrong.

        """
        from lanes.aws.surroundings import surroundings_from_env

        return surroundings_from_env()


class Consumer:
    """
    Handlers by kind, and the Lambda handler that feeds them.

    Nothing is read or connected before the first event, so a module may create it at import.

    Example:
        >>> consumer = Consumer()
        >>> @consumer.handler("order.placed")
        ... def place(message):
        ...     print(message.data["order"])
        >>> def lambda_handler(event, context):
        ...     return consumer.handle(event, context)

    """

    def __init__(self, surroundings: Surroundings | None = None) -> None:
        self._handlers = Handlers()
        self._surroundings = surroundings
        self._parts: Parts | None = None
        self._lanes: dict[str, Lane] = {}

    def handler(self, kind: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """
        Register the decorated function for messages of `kind`.

        It takes the message, and as a second argument a `HandlerContext` if it asks for one. It may raise `Retry`,
        `DeadLetter`, or any exception, which is a failed attempt. It runs inside the message's priority.

        Raises:
            DuplicateHandlerError: the kind has a handler.
            TypeError: the function can't be called that way, or no kind was given.

        """
        if not isinstance(kind, str) or not kind:
            # Written as @consumer.handler alone, nothing would be registered and nobody would notice.
            raise TypeError(f'handler needs the kind, as in @consumer.handler("order.placed"), not {kind!r}')

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self._handlers.add(kind, function)
            return function

        return register

    def raw_handler(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Register the decorated function for bodies that are no CloudEvents; it takes a `RawRecord`."""
        self._handlers.add_raw(function)
        return function

    def within(self, surroundings: Surroundings, *, around: Around | None = None) -> Consumer:
        """
        Return a consumer with this one's handlers in other surroundings, as a new execution environment has it.

        Handlers that are registered later are not part of it.

        Args:
            surroundings: what it touches.
            around: called in place of each handler, with the handler, its message or raw record, and its context.

        """
        other = Consumer(surroundings)
        other._handlers = self._handlers.within(around or _call)
        return other

    def handle(self, event: Mapping[str, Any], context: Any) -> PartialBatchResponse:
        """
        Handle one SQS event of one lane and answer which records stay in the queue.

        Args:
            event: as an event source mapping sends it.
            context: Lambda's context; its remaining time and request id are used.

        Raises:
            ConfigurationError: the event comes from no lane of this deployment. All its records stay.

        """
        parts = self._prepared()
        queue, records = read_batch(event)
        lane = self._lane(queue)
        invocation = Invocation(
            lane=lane,
            # What is overdue may go on where the rest has to make way, so it is not to stand behind what is not.
            records=records if lane.max_wait is None else oldest_first(records),
            name=getattr(context, "aws_request_id", None) or uuid.uuid4().hex,
            seconds_left=_seconds_left(context, parts),
            clock=parts.clock,
            began_at=parts.clock(),
        )
        parts.telemetry.begin(lane.name, context)
        try:
            return response_for(Batch(parts, invocation).run())
        finally:
            # The answer stands, whatever becomes of the figures.
            with contextlib.suppress(Exception):
                parts.telemetry.end()

    def _lane(self, queue: str) -> Lane:
        assert self._surroundings is not None  # noqa: S101 - set by _prepared
        try:
            if queue not in self._lanes:
                self._lanes[queue] = self._surroundings.deployment.lane_of_queue(queue)
        except KeyError as error:
            raise ConfigurationError([str(error.args[0])], source="event of the mapping") from None
        return self._lanes[queue]

    def _prepared(self) -> Parts:
        if self._parts is None:
            self._surroundings = self._surroundings or Surroundings.from_env()
            self._parts = build_parts(self._surroundings, self._handlers)
        return self._parts


def _call(handler: Callable[[Any, HandlerContext], Any], argument: Any, context: HandlerContext) -> Any:
    return handler(argument, context)


def _seconds_left(context: Any, parts: Parts) -> Callable[[], float]:
    """Return the time left as Lambda tells it, or as the settings do where there is no context."""
    remaining = getattr(context, "get_remaining_time_in_millis", None)
    if remaining is not None:
        return lambda: remaining() / 1000
    deadline = parts.clock() + parts.settings.function_timeout.total_seconds()
    return lambda: deadline - parts.clock()
