"""Handlers: registration by kind, their context, and the work that a record asks of them."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import math
from typing import TYPE_CHECKING, Any, TypeAlias

from lanes.consumer.annotations import ANY, check_takes, data_type, signature_of
from lanes.consumer.decoders import Decoders
from lanes.consumer.event_loop import HandlerLoop
from lanes.consumer.records import RawRecord
from lanes.consumer.values import value
from lanes.data import DataReader, reader_of
from lanes.encoding import TRACE_HEADER
from lanes.errors import DuplicateHandlerError, MessageDecodeError, UnknownKindError
from lanes.message import Message
from lanes.trace_context import TraceContext

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Generator, Sequence
    from datetime import timedelta

    from lanes.consumer.decoders import Decoder

POWERTOOLS = "aws_lambda_powertools."

Around: TypeAlias = "Callable[[Registered, Any, HandlerContext], Any]"
"""Called in place of each handler, with the handler, its message or raw record, and its context."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HandlerContext:
    """
    The second argument of a handler that asks for one.

    Attributes:
        lane: name of the message's lane.
        attempt: 1 for the first; yields and throttles don't count.
        max_attempts: the attempt after which a failure becomes a dead letter; `attempt` goes on with `on_exhausted`.
        receive_count: deliveries by SQS, yields included.
        message_id: the id that SQS gave, as in the consumer's logs.
        message_ids: for a batch handler, the ids that SQS gave its messages, in their order; the other fields are those
            of the first.
        traceparent: W3C trace context of this run, for the services that you call; None for a message without a trace.
            Messages that you send continue the trace by themselves.
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
    message_ids: Sequence[str] = ()

    def checkpoint(self) -> Awaitable[None]:
        """
        Yield here if a higher lane has a backlog or the function's time is nearly over; else return at once.

        In a coroutine, `await context.checkpoint()` also lets its other tasks run.

        Call it where the work so far may be repeated: the message returns to its lane, keeps its attempt, and its
        handler starts again later. You can call it often: the queues are read at most once in `recheck_interval`.
        """
        self.check()
        return _PASSED


class _Passed:
    """Lets the other tasks of an event loop run once when it is awaited."""

    def __await__(self) -> Generator[None]:
        yield


_PASSED = _Passed()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """
    A registered function, and whether it takes a context; `read` returns its type of data, and problems.

    `loop` runs it if it is a coroutine function. A batch handler takes a list of up to `max_size` messages. `resource`
    names what it needs, which may be away, and the types `unavailable` say that it is.
    """

    function: Callable[..., Any]
    takes_context: bool
    loop: HandlerLoop
    read: DataReader | None = None
    max_size: int | None = None
    resource: str = ""
    unavailable: tuple[type[Exception], ...] = ()

    def __call__(self, argument: Any, context: HandlerContext) -> Any:
        """Call the handler, with the context if it asks for it, and run it to its end."""
        return self.ran(self.function(argument, context) if self.takes_context else self.function(argument))

    def ran(self, result: Any) -> Any:
        """Run what a coroutine function returned; raises `TypeError` for a result that leaves the work undone."""
        if result is None:
            return None
        if inspect.isawaitable(result):
            result = self.loop.run(result)
            if inspect.isawaitable(result):
                _drop(result)
                raise TypeError(
                    f"the handler returned a value of the type {type(result).__name__}, which nothing awaits; await it"
                )
        if isinstance(result, BaseException):
            raise TypeError(
                f"the handler returned a value of the type {type(result).__name__}; raise it instead"
            )
        # Late: few handlers return anything.
        from concurrent.futures import Future

        if isinstance(result, Future):
            result.cancel()
            raise TypeError(
                f"the handler returned a value of the type {type(result).__name__}, which is not waited for; "
                "call its `result()`"
            )
        # The ids that a batch handler answers are read.
        is_lazy = self.max_size is None and isinstance(result, map | filter)
        # The body of a function with `contextlib.contextmanager` runs when it is entered.
        is_lazy = is_lazy or isinstance(
            result, contextlib.ContextDecorator | contextlib.AsyncContextDecorator
        )
        if is_lazy or inspect.isgenerator(result) or inspect.isasyncgen(result):
            raise TypeError(
                f"the handler returned a value of the type {type(result).__name__}, which is never run; run it before"
            )
        if self.max_size is None:
            _refuse_parts(result)
        return result


@value(frozen=True, slots=True, kw_only=True)
class Work:
    """
    A decoded record, with its handler or a `refusal` that says why it has none. A raw body has the SQS id.

    `is_unknown` if no handler is registered for its kind.
    """

    handler: Registered | None
    argument: Message | RawRecord | None
    id: str
    kind: str = ""
    priority: int | None = None
    trace: TraceContext | None = None
    refusal: str = ""
    is_unknown: bool = False

    @property
    def expires_at(self) -> float:
        """The time after which no handler gets it, in epoch seconds; infinite if there is none."""
        expires = self.argument.expires if isinstance(self.argument, Message) else None
        return math.inf if expires is None else expires.timestamp()

    @property
    def effect_id(self) -> str:
        """The id under which its effect is claimed: the message's identity."""
        return self.argument.identity if isinstance(self.argument, Message) else self.id

    @property
    def resource(self) -> str:
        """The resource that its handler needs."""
        return self.handler.resource if self.handler else ""


class Handlers:
    """
    The handlers and decoders of one consumer.

    Exceptions of the types `unavailable` mean that a resource is away.
    """

    def __init__(
        self, loop: HandlerLoop | None = None, *, unavailable: tuple[type[Exception], ...] = ()
    ) -> None:
        self.unavailable = unavailable
        self._loop = loop or HandlerLoop()
        self._by_kind: dict[str, Registered] = {}
        self._raw: Registered | None = None
        self.decoders: Decoders | None = None

    def add(
        self,
        kinds: Sequence[str],
        handler: Callable[..., Any],
        *,
        max_size: int | None = None,
        resource: str = "",
    ) -> None:
        """Register a handler for a kind and its other names; one with a `max_size` takes several messages."""
        if taken := [
            kind for place, kind in enumerate(kinds) if kind in self._by_kind or kind in kinds[:place]
        ]:
            raise DuplicateHandlerError(kind=taken[0])
        one = registered(handler, self._loop, max_size=max_size)
        wanted = data_type(handler, takes_several=max_size is not None)
        read = None if wanted is ANY else reader_of(wanted)
        one = dataclasses.replace(one, read=read, resource=resource, unavailable=self.unavailable)
        self._by_kind |= dict.fromkeys(kinds, one)

    def add_raw(self, handler: Callable[..., Any]) -> None:
        """Register the handler of raw bodies."""
        if self._raw is not None:
            raise DuplicateHandlerError(kind="raw bodies")
        check_takes(handler, RawRecord)
        self._raw = dataclasses.replace(registered(handler, self._loop), unavailable=self.unavailable)

    def add_decoder(self, function: Decoder, *, lane: str | None) -> None:
        """Register the decoder of a lane; None is for the lanes without one; raises `TypeError` for anything else."""
        decoders = self.decoders or Decoders()
        decoders.add(function, lane=lane)
        self.decoders = decoders

    def within(
        self, around: Around | None, *, decoded: Callable[[RawRecord], object] | None = None
    ) -> Handlers:
        """Return the same handlers: each call is made by `around`, and decoded records are given to `decoded`."""
        other = Handlers(self._loop, unavailable=self.unavailable)
        # Once for each handler: the messages of a kind and of its other names may share a call.
        through = {id(handler): _through(around, handler) for handler in self._by_kind.values()}
        other._by_kind = {kind: through[id(handler)] for kind, handler in self._by_kind.items()}
        other._raw = self._raw and _through(around, self._raw)
        other.decoders = self.decoders and self.decoders.reporting_to(decoded)
        return other

    @property
    def resources(self) -> set[str]:
        """The resources that the handlers need; the empty name is that of those that name none."""
        raw = [self._raw] if self._raw else []
        return {handler.resource for handler in (*self._by_kind.values(), *raw)}

    def resolve(self, record: RawRecord) -> Work:
        """Decode a record and find its handler; the work says why if there is none."""
        try:
            message = Message.from_body(record.body, group=record.group)
        except MessageDecodeError as error:
            raw = None if record.problem else self._raw
            hint = self.decoders.hint if self.decoders else ""
            return Work(
                handler=raw,
                argument=record,
                id=record.message_id,
                trace=_trace_beside(record),
                refusal="" if raw else record.problem or f"{error}{hint}",
            )
        handler, refusal = self._by_kind.get(message.kind), ""
        if handler is None:
            refusal = str(UnknownKindError(kind=message.kind, known=sorted(self._by_kind)))
        elif handler.read is not None:
            data, refusal = handler.read(message.data)
            if refusal:
                handler = None
            else:
                message = dataclasses.replace(message, data=data)
        trace = TraceContext.parse(message.traceparent) if message.traceparent else None
        return Work(
            handler=handler,
            argument=message,
            id=message.id,
            kind=message.kind,
            priority=message.priority,
            trace=trace or _trace_beside(record),
            refusal=refusal,
            is_unknown=message.kind not in self._by_kind,
        )


def _trace_beside(record: RawRecord) -> TraceContext | None:
    """Return the trace that a library or a service of AWS put beside the body; None if neither did."""
    if record.message_attributes:
        # OpenTelemetry's instrumentations of SQS write it there, since they don't touch bodies.
        attribute = record.message_attributes.get("traceparent") or {}
        if (trace := TraceContext.parse(attribute.get("stringValue"))) is not None:
            return trace
    header = record.attributes.get(TRACE_HEADER)
    return TraceContext.of_xray_header(header) if header else None


def registered(handler: Callable[..., Any], loop: HandlerLoop, *, max_size: int | None = None) -> Registered:
    """Return a handler as it is called; raises `TypeError` for one that can't be."""
    name = getattr(handler, "__qualname__", repr(handler))
    if _is_generator(handler):
        raise TypeError(
            f"{name} is a generator, which does nothing when called; handlers are functions or coroutines"
        )
    if inspect.isclass(handler) and any("__call__" in vars(one) for one in handler.__mro__[:-1]):
        raise TypeError(
            f"{name} is a class, whose call only makes an object; register one: consumer.handler(kind)({name}())"
        )
    try:
        outer = signature_of(handler, follow_wrapped=False)
    except ValueError as error:
        raise TypeError(f"{name} has no signature to read; call it in a function of your own") from error
    # Decorated in its class, it would take the message for its object, and the context for the message.
    if next(iter(signature_of(handler).parameters), "") in ("self", "cls"):
        raise TypeError(
            f"{name} is a method without its object; register that of an object: "
            "consumer.handler(kind)(Orders().place)"
        )
    function = handler
    if _passes_on(handler, outer):
        names = _names_behind(handler, name)
        takes_context = len(names) > 1
        if getattr(handler, "__globals__", {}).get("__name__", "").startswith(POWERTOOLS):
            function = _by_name(handler, names)
    else:
        takes_one, takes_two = _accepts(outer, 1), _accepts(outer, 2)
        if not takes_one and not takes_two:
            first = "message" if max_size is None else "messages"
            raise TypeError(f"{name}{outer} must take ({first}) or ({first}, context)")
        # A second parameter is for the context if it has no default, or is called context.
        takes_context = takes_two and (not takes_one or "context" in outer.parameters)
    return Registered(function=function, loop=loop, takes_context=takes_context, max_size=max_size)


def _passes_on(handler: Callable[..., Any], outer: inspect.Signature) -> bool:
    """Whether a handler is the wrapper of a decorator that takes any arguments, and passes them on."""
    is_open = any(one.kind is one.VAR_POSITIONAL for one in outer.parameters.values())
    return is_open and inspect.unwrap(handler) is not handler


def _names_behind(handler: Callable[..., Any], name: str) -> list[str]:
    """Return the names that a decorated function gives the message and, if it asks for it, the context."""
    # The first wrapper that names its parameters, or the function behind all of them.
    layer: Any = handler
    while _passes_on(layer, inner := signature_of(layer, follow_wrapped=False)):
        layer = layer.__wrapped__
    places = [one for one in inner.parameters.values() if one.kind is not one.KEYWORD_ONLY]
    if any(one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) for one in places) or not places:
        return []
    message = next((one for one in places if "Message[" in str(one.annotation)), places[0])
    rest = places[places.index(message) + 1 :]
    if rest and (
        rest[0].name == "context" or str(rest[0].annotation).endswith(("HandlerContext", "HandlerContext'>"))
    ):
        return [message.name, rest[0].name]
    if unclear := [one.name for one in rest if one.default is one.empty]:
        raise TypeError(
            f"{name}{inner} is decorated, so it is unclear whether {unclear[0]!r} is for the context or comes from the "
            f"decorator; call the parameter after the message context, or let the wrapper name its parameters"
        )
    return [message.name]


def _by_name(handler: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """Call a decorator of Powertools with names: `idempotent_function` finds its argument by one."""
    return lambda *given: handler(**dict(zip(names, given, strict=True)))


def _through(around: Around | None, handler: Registered) -> Registered:
    if around is None:
        return handler
    return dataclasses.replace(
        handler,
        function=lambda argument, context: around(handler, argument, context),
        takes_context=True,
    )


def _refuse_parts(result: Any) -> None:
    """Raise `TypeError` for a result with parts that leave work undone, or that name failures as Lambda reads them."""
    members = list(result.values()) if isinstance(result, dict) else result
    members = members if isinstance(members, list | tuple | set) else ()
    # `asyncio.wait` and `concurrent.futures.wait` return two sets.
    parts = [part for one in members for part in (one if isinstance(one, set) else (one,))]
    if waiting := [one for one in parts if _is_left(one)]:
        for one in waiting:
            _drop(one)
        raise TypeError(
            f"the handler returned a {type(result).__name__} with {len(waiting)} values that nothing awaits, such as a "
            f"{type(waiting[0]).__name__}; await them"
        )
    if failed := [one for one in parts if isinstance(one, BaseException)]:
        raise TypeError(
            f"the handler returned a {type(result).__name__} with {len(failed)} exceptions, such as a "
            f"{type(failed[0]).__name__}; raise one instead"
        )
    # Of an older function that is called with a batch of one record.
    if isinstance(result, dict) and result.get("batchItemFailures"):
        raise TypeError(
            "the handler returned batchItemFailures, which nothing reads; raise an exception instead"
        )


def _is_left(part: Any) -> bool:
    """Whether a part of a result is work that is not done, or has failed unseen."""
    # Late: few handlers return anything.
    from concurrent.futures import Future

    if hasattr(part, "cancelled") and (inspect.isawaitable(part) or isinstance(part, Future)):
        future: Any = part
        return not future.done() or future.cancelled() or future.exception() is not None
    return inspect.isawaitable(part)


def _drop(awaitable: Any) -> None:
    """End a value that is never awaited: Python warns of a coroutine, and a task would go on beside the next record."""
    end = (
        getattr(awaitable, "close", None)
        if inspect.iscoroutine(awaitable)
        else getattr(awaitable, "cancel", None)
    )
    if end is not None:
        end()


def _is_generator(handler: Any) -> bool:
    while isinstance(handler, functools.partial):
        handler = handler.func
    return any(
        check(function)
        for check in (inspect.isgeneratorfunction, inspect.isasyncgenfunction)
        for function in (handler, getattr(handler, "__call__", None))  # noqa: B004 - the method itself is looked at
    )


def _accepts(signature: inspect.Signature, count: int) -> bool:
    try:
        signature.bind(*range(count))
    except TypeError:
        return False
    return True
