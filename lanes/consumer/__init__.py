"""
The consumer: one batch of one lane, handled record by record and answered honestly.

`Consumer` is the door, and `runtime.py` assembles the rooms behind it. An engine (`engines/`) receives the event; the
corridor (`batch.py`) takes each record past the interceptors (`interceptors/`) to its attempt (`attempts.py`) and its
outcome (`outcome.py`); `settlement.py` brings the outcomes to the queue and the ledger (`ledger.py`).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

from lanes.config.settings import LARGEST_BATCH
from lanes.consumer.decoders import Decoded
from lanes.consumer.handlers import Around, HandlerContext, Handlers
from lanes.consumer.records import PartialBatchResponse, RawRecord
from lanes.errors import ConfigurationError, DeadLetter, Retry
from lanes.message import kind_problem

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping

    from lanes.consumer.engines import Engine
    from lanes.consumer.runtime import Runtime

Function = TypeVar("Function", bound="Callable[..., Any]")
DecoderFunction = TypeVar("DecoderFunction", bound="Callable[[RawRecord], Decoded | None]")
BatchFunction = TypeVar(
    "BatchFunction", bound="Callable[..., Iterable[str] | Awaitable[Iterable[str] | None] | None]"
)

__all__ = ["Consumer", "Decoded", "HandlerContext", "RawRecord"]


class Consumer:
    """
    Handlers by kind, and the Lambda handler that calls them.

    Nothing is read or connected before the first event, so you may create it at import.

    Args:
        runtime: its dependencies; built from the function's environment unless given.
        unavailable: types of exceptions that mean `Unavailable` wherever a handler raises them, such as
            `httpx.ConnectError`.

    Raises:
        TypeError: `unavailable` has something else than types of exceptions, or the runtime is none.
        ConfigurationError: one of them has another meaning, such as `Exception` or `Retry`.

    Example:
        >>> consumer = Consumer()
        >>> @consumer.handler("order.placed")
        ... def place(message):
        ...     print(message.data["order"])
        >>> lambda_handler = consumer.lambda_handler

    """

    def __init__(
        self, runtime: Runtime | None = None, *, unavailable: Iterable[type[Exception]] = ()
    ) -> None:
        if runtime is not None and not hasattr(runtime, "build_engine"):
            raise TypeError(
                f"Consumer takes a Runtime or none, not {runtime!r}; register handlers with @consumer.handler"
            )
        self._handlers = Handlers(unavailable=_unavailable_types(unavailable))
        self._runtime = runtime
        self._engine: Engine | None = None
        self._stand_in: Consumer | None = None

    def handler(
        self, kind: str, *, aliases: Iterable[str] = (), resource: str = ""
    ) -> Callable[[Function], Function]:
        """
        Register the decorated function for messages of `kind`.

        It takes the message, and as a second argument a `HandlerContext` if it asks for one. It may raise `Retry`,
        `Unavailable`, `DeadLetter`, or any exception, which is a failed attempt. It runs inside the message's priority.

        Args:
            kind: the kind.
            aliases: other names of the kind, such as those before it was renamed.
            resource: the name of what the handler calls, if your handlers call several: while one is away, records of
                the others start.

        Raises:
            DuplicateHandlerError: the kind has a handler.
            TypeError: the function can't be called that way, or no kind was given.
            ConfigurationError: no message can have the kind.

        """
        kinds = _kinds_of("handler", kind, aliases)

        def register(function: Function) -> Function:
            self._handlers.add(kinds, function, resource=resource)
            return function

        return register

    def batch_handler(
        self,
        kind: str,
        *,
        max_size: int = LARGEST_BATCH,
        aliases: Iterable[str] = (),
        resource: str = "",
    ) -> Callable[[BatchFunction], BatchFunction]:
        """
        Register the decorated function for lists of messages of `kind`, where one call is cheaper than several.

        It takes a list of messages of one lane and priority, each of another group, and as a second argument a
        `HandlerContext` if it asks for one. It returns None if all are done, or the ids of those that failed: in a
        list, or in a dict with the exception of each, such as `Retry` or `DeadLetter`. An exception, or an id that none
        of the messages has, is a failed attempt of all. A message that failed before comes alone.

        Args:
            kind: the kind.
            max_size: the most messages in one call, 1 to 10; fewer are never waited for.
            aliases: other names of the kind, such as those before it was renamed.
            resource: the name of what the handler calls, if your handlers call several: while one is away, records of
                the others start.

        Raises:
            DuplicateHandlerError: the kind has a handler.
            TypeError: the function can't be called that way, or an argument has the wrong type.
            ConfigurationError: no message can have the kind, or `max_size` is out of range.

        """
        kinds = _kinds_of("batch_handler", kind, aliases)
        if not isinstance(max_size, int) or isinstance(max_size, bool):
            raise TypeError(f"max_size must be an int, not {max_size!r}")
        if not 1 <= max_size <= LARGEST_BATCH:
            problem = (
                f"max_size must be from 1 to {LARGEST_BATCH}, the largest batch of a lane, not {max_size}"
            )
            raise ConfigurationError([problem], source="batch_handler")

        def register(function: BatchFunction) -> BatchFunction:
            self._handlers.add(kinds, function, max_size=max_size, resource=resource)
            return function

        return register

    def raw_handler(self, function: Function) -> Function:
        """Register the decorated function for bodies that are not CloudEvents; it takes a `RawRecord`."""
        self._handlers.add_raw(function)
        return function

    def decoder(self, *, lane: str | None = None) -> Callable[[DecoderFunction], DecoderFunction]:
        """
        Register the decorated function to read the bodies that are not CloudEvents, such as those of older senders.

        It takes a `RawRecord` and returns a `Decoded`, or None to leave the body to the handler of raw bodies. From
        then on the record is a message like any other: its kind selects the handler, and idempotency, traces,
        overrides, runs and the lists of dead letters know it. An exception makes it a dead letter with its own body.
        It is called at each delivery, so it must return the same id each time, and have no effect.

        Args:
            lane: name of the lane; by default all lanes without a decoder of their own.

        Raises:
            DuplicateHandlerError: the lane has a decoder.
            TypeError: the function is a coroutine function or a generator, or the lane is not a name.

        Example:
            >>> consumer = Consumer()
            >>> @consumer.decoder(lane="HIGH")
            ... def read_order(record: RawRecord) -> Decoded:
            ...     order = json.loads(record.body)
            ...     return Decoded(kind="order.placed", id=order["number"], data=order, source="shop")

        """

        def register(function: DecoderFunction) -> DecoderFunction:
            self._handlers.add_decoder(function, lane=lane)
            return function

        return register

    def within(
        self,
        runtime: Runtime,
        *,
        around: Around | None = None,
        decoded: Callable[[RawRecord], object] | None = None,
    ) -> Consumer:
        """
        Return a consumer with the handlers so far and another runtime, like a new execution environment.

        Args:
            runtime: its dependencies.
            around: called in place of each handler, with the handler, its message, messages or raw record, and its
                context.
            decoded: called with each record that a decoder made a message of.

        """
        other = Consumer(runtime)
        other._handlers = self._handlers.within(around, decoded=decoded)
        return other

    def handle(self, event: Mapping[str, Any], context: Any) -> PartialBatchResponse:
        """
        Handle one invocation and answer which records stay in their queue.

        Args:
            event: as an event source mapping sends it.
            context: Lambda's context; its remaining time and request id are used.

        Raises:
            ConfigurationError: the function's environment is wrong, or the event is not of an SQS mapping, or not of a
                lane. All its records stay.

        """
        if self._stand_in is not None:
            return self._stand_in.handle(event, context)
        return self._built().run(event, context)

    def lambda_handler(self, event: Mapping[str, Any], context: Any) -> PartialBatchResponse:
        """
        Handle one invocation: the entry point of the function, as in `lambda_handler = consumer.lambda_handler`.

        A function of your own must return what `handle` returns: without the answer Lambda deletes every record, also
        those that failed or yielded.
        """
        return self.handle(event, context)

    @contextlib.contextmanager
    def replaced_by(self, other: Consumer) -> Iterator[None]:
        """Let another consumer handle the events of this one for the length of a block, in tests of an entry point."""
        before, self._stand_in = self._stand_in, other
        try:
            yield
        finally:
            self._stand_in = before

    def work(self, context: Any, *, slot: int) -> float:
        """
        Serve the lanes without an event, as one slot of a process, until they are empty or the time is over.

        `lanes work` calls it again and again; it returns the seconds to wait before the next call.

        Args:
            context: like Lambda's; its remaining time and request id are used.
            slot: number of this slot, from 0.

        Raises:
            ConfigurationError: the environment is wrong, or the engine is not pull.

        """
        return self._built().work(context, slot=slot)

    def _built(self) -> Engine:
        if self._engine is None:
            if self._runtime is None:
                from lanes.aws.runtime import runtime_from_env

                self._runtime = runtime_from_env()
            self._engine = self._runtime.build_engine(self._handlers)
        return self._engine


def _kinds_of(method: str, kind: str, aliases: Iterable[str]) -> tuple[str, ...]:
    """Return a kind and its other names; raises `TypeError` and `ConfigurationError` for impossible ones."""
    if not isinstance(kind, str) or not kind:
        # Written as @consumer.handler alone, nothing would be registered, and no error would show it.
        raise TypeError(f'{method} needs the kind, as in @consumer.{method}("order.placed"), not {kind!r}')
    if isinstance(aliases, str):
        raise TypeError(f"aliases takes several kinds, as in aliases=[{aliases!r}]")
    kinds = (kind, *aliases)
    if problems := [problem for one in kinds if (problem := kind_problem(one))]:
        problems = [f"{problem}, or no message reaches the handler" for problem in problems]
        raise ConfigurationError(problems, source=method)
    return kinds


def _unavailable_types(given: Iterable[type[Exception]]) -> tuple[type[Exception], ...]:
    """Return types of exceptions; raises `TypeError` and `ConfigurationError` for what can't mean `Unavailable`."""
    if isinstance(given, type):
        raise TypeError(f"unavailable takes several types, as in unavailable=({given.__name__},)")
    types = tuple(given)
    for one in types:
        if not (isinstance(one, type) and issubclass(one, Exception)):
            raise TypeError(f"unavailable takes types of exceptions, such as ConnectionError, not {one!r}")
    if wide := [one for one in types if issubclass(Retry, one) or issubclass(one, Retry | DeadLetter)]:
        problems = [
            f"{one.__name__} has a meaning of its own, or is also raised for mistakes in your code, whose "
            "attempts would never end; name the exceptions of the client that calls your resource"
            for one in wide
        ]
        raise ConfigurationError(problems, source="Consumer(unavailable=...)")
    return types
