"""Registration of handlers: what may be one, and what is refused before any message is lost to it."""

import asyncio
import contextlib
import functools
import time
from concurrent.futures import Future, ThreadPoolExecutor
from unittest import mock

import pytest
from aws_lambda_powertools.utilities.data_classes import SQSEvent, event_source
from aws_lambda_powertools.utilities.idempotency import (
    BasePersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyItemAlreadyExistsError

from lanes import Consumer, DeadLetter, Message, Retry
from lanes.consumer.event_loop import HandlerLoop
from lanes.consumer.handlers import Handlers
from lanes.consumer.handlers import registered as registered_with
from lanes.errors import ConfigurationError, DuplicateHandlerError
from lanes.testing.function import InvocationContext, sqs_event
from tests.support.memory import World, record_with


def registered(function):
    """Return a handler as registered."""
    return registered_with(function, HandlerLoop())


class Handler:
    """Handlers may be objects and methods."""

    def __call__(self, message):
        return message

    def both(self, message, context):
        return message, context

    async def later(self, message):
        return message


class AsyncHandler:
    async def __call__(self, message):
        return message


def one(message):
    return message


def two(message, context):
    return message, context


def own_default(message, limit=10):
    return message, limit


def named_context(message, context=None):
    return message, context


def anything(*given):
    return given


def no_argument():
    return None


def three(message, context, more):
    return None


def keyword_needed(message, *, more):
    return None


async def later(message):
    return message


def stepwise(message):
    yield message


async def later_stepwise(message):
    yield message


async def pay(message):
    pytest.fail(f"{message} goes on beside the next record")


async def forgets_to_await(message):
    return asyncio.gather(pay(message), pay(message))


async def forgets_a_task(message):
    return asyncio.create_task(pay(message))


async def forgets_a_coroutine(message):
    return pay(message)


async def lost():
    raise ValueError("lost")


async def returns_failures(message):
    return await asyncio.gather(asyncio.sleep(0), lost(), return_exceptions=True)


async def returns_failed_tasks(message):
    return await asyncio.wait([asyncio.ensure_future(asyncio.sleep(0)), asyncio.ensure_future(lost())])


async def returns_finished_tasks(message):
    return await asyncio.wait([asyncio.ensure_future(asyncio.sleep(0))])


def returns_futures(message):
    with ThreadPoolExecutor(1) as pool:
        return [pool.submit(str, message), pool.submit(int, "lost")]


async def forgets_a_list(message):
    return [pay(message), pay(message)]


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (one, "m"),
        (two, ("m", "c")),
        (own_default, ("m", 10)),
        (named_context, ("m", "c")),
        (anything, ("m",)),
        (Handler(), "m"),
        (Handler().both, ("m", "c")),
        (functools.partial(own_default, limit=3), ("m", 3)),
        (lambda message: message, "m"),
    ],
)
def test_a_handler_takes_the_message_and_the_context_if_it_asks_for_it(function, expected):
    """A second parameter with a default of its own is the user's business."""
    assert registered(function)("m", "c") == expected


@pytest.mark.parametrize("function", [no_argument, three, keyword_needed])
def test_other_signatures_are_refused(function):
    """At registration, not at the first message."""
    with pytest.raises(TypeError, match="must take"):
        registered(function)


@pytest.mark.parametrize("function", [stepwise, later_stepwise, functools.partial(stepwise)])
def test_what_would_not_run_when_called_is_refused(function):
    """A generator returns at once and does nothing: the message would be lost."""
    with pytest.raises(TypeError, match="is a generator, which does nothing when called"):
        registered(function)


@pytest.mark.parametrize(
    "function",
    [later, Handler().later, AsyncHandler(), functools.partial(later), lambda message: later(message)],  # noqa: PLW0108
)
def test_a_coroutine_is_run_to_its_end(function):
    """Also one that a plain function returns."""
    assert registered(function)("m", "c") == "m"


def with_argument(function):
    """Decorate a function: its wrapper takes the message alone, and adds an argument."""

    @functools.wraps(function)
    def wrapper(message):
        return function(message, "session")

    return wrapper


def with_any(function):
    """Decorate a function: its wrapper passes on what it gets, and adds an argument."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, session="session", **kwargs)

    return wrapper


def passed_on(function):
    """Decorate a function: its wrapper only passes on what it gets."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        return function(*args, **kwargs)

    return wrapper


def in_front(function):
    """Decorate a function: its wrapper adds an argument in front."""

    @functools.wraps(function)
    def wrapper(*args):
        return function("session", *args)

    return wrapper


def own_session(message, session):
    return message, session


def session_by_name(message, *, session):
    return message, session


def session_and_context(message, context, session=None):
    return message, context, session


def annotated_context(message, ctx: "HandlerContext"):  # noqa: F821
    return message, ctx


def session_first(session, message: Message[int], context):
    return session, message, context


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (with_argument(own_session), ("m", "session")),
        (with_any(session_by_name), ("m", "session")),
        (with_any(session_and_context), ("m", "c", "session")),
        (passed_on(two), ("m", "c")),
        (passed_on(one), "m"),
        (passed_on(annotated_context), ("m", "c")),
        (in_front(session_first), ("session", "m", "c")),
        (passed_on(with_argument(own_session)), ("m", "session")),
        (passed_on(later), "m"),
    ],
)
def test_a_decorated_handler_is_called_as_its_wrapper_is(function, expected):
    """And the context goes to the parameter behind it that asks for it."""
    assert registered(function)("m", "c") == expected


@pytest.mark.parametrize("function", [with_any(own_session), mock.patch("os.sep", "/")(own_session)])
def test_a_decorated_handler_that_does_not_say_who_is_the_context_is_refused(function):
    """Passed on blindly, the context would arrive as a session."""
    with pytest.raises(TypeError, match="unclear whether 'session' is for the context"):
        registered(function)


def test_powertools_idempotent_function_finds_the_message_by_its_name():
    """As with Powertools' own batch processor."""
    calls, config = [], IdempotencyConfig(event_key_jmespath="id")
    config.register_lambda_context(InvocationContext(time.time, seconds=30, request="r"))

    @idempotent_function(
        data_keyword_argument="message", persistence_store=MemoryPersistence(), config=config
    )
    def once(message, context):
        calls.append((message.id, context))

    message = Message(kind="work", data={}, id="m-1")
    for context in ("c1", "c2"):
        registered(once)(message, context)

    assert calls == [("m-1", "c1")]


class MemoryPersistence(BasePersistenceLayer):
    """Powertools' records in memory."""

    def __init__(self):
        super().__init__()
        self.records = {}

    def _get_record(self, idempotency_key):
        return self.records[idempotency_key]

    def _put_record(self, data_record):
        if data_record.idempotency_key in self.records:
            raise IdempotencyItemAlreadyExistsError(old_data_record=self.records[data_record.idempotency_key])
        self.records[data_record.idempotency_key] = data_record

    def _update_record(self, data_record):
        self.records[data_record.idempotency_key] = data_record

    def _delete_record(self, data_record):
        self.records.pop(data_record.idempotency_key)


def test_an_entry_point_with_powertools_event_source_is_answered():
    """It passes on an event of its own class."""
    world = World()
    world.consumer.handler("work")(one)
    world.send("HIGH")

    @event_source(data_class=SQSEvent)
    def lambda_handler(event, context):
        return world.consumer.handle(event, context)

    answer = lambda_handler(sqs_event("HIGH", world.receive("HIGH")), None)

    assert answer == {"batchItemFailures": []}
    assert world.recorder.named("message_handled")


class Orders:
    """Has a method that handles, and one that is decorated."""

    def place(self, message):
        """Place an order."""

    @functools.wraps(place)
    def placed(*given, **named):
        """Pass everything on."""


@pytest.mark.parametrize("function", [Orders.place, Orders.placed])
def test_a_method_without_its_object_is_refused(function):
    """Decorated in its class, it would be called with the message as the object."""
    with pytest.raises(TypeError, match=r"Orders\.place is a method without its object"):
        registered(function)
    assert registered(Orders().place).takes_context is False


def test_a_class_of_handlers_is_refused():
    """Its call would make an object that nobody calls, and the message would count as done."""

    class Booking:
        def __init__(self, account):
            self.account = account

        def __call__(self, message):
            return message

    with pytest.raises(TypeError, match=r"Booking is a class, whose call only makes an object; register one"):
        registered(Booking)
    assert registered(Booking(7))("message", None) == "message"


def test_a_builtin_without_a_signature_is_refused():
    """Python can't say how it is called, and its own error names no way out."""
    with pytest.raises(TypeError, match="max has no signature to read; call it in a function of your own"):
        registered(max)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (stepwise, "a value of the type generator, which is never run"),
        (later_stepwise, "a value of the type async_generator, which is never run"),
        (lambda message: map(print, [message]), "a value of the type map, which is never run"),
        (lambda message: filter(None, [message]), "a value of the type filter, which is never run"),
        (
            contextlib.contextmanager(stepwise),
            "a value of the type _GeneratorContextManager, which is never run",
        ),
        (
            contextlib.asynccontextmanager(later_stepwise),
            "a value of the type _AsyncGeneratorContextManager, which is never run",
        ),
        (
            lambda _message: Future(),
            "a value of the type Future, which is not waited for; call its `result()`",
        ),
        (forgets_to_await, "a value of the type _GatheringFuture, which nothing awaits"),
        (forgets_a_task, "a value of the type Task, which nothing awaits"),
        (lambda _message: Retry(), "a value of the type Retry; raise it instead"),
        (lambda _message: DeadLetter("no"), "a value of the type DeadLetter; raise it instead"),
        (forgets_a_coroutine, "a value of the type coroutine, which nothing awaits"),
        (forgets_a_list, "a list with 2 values that nothing awaits, such as a coroutine"),
        (
            lambda message: {"pay": pay(message)},
            "a dict with 1 values that nothing awaits, such as a coroutine",
        ),
        (returns_failures, "a list with 1 exceptions, such as a ValueError"),
        (returns_failed_tasks, "a tuple with 1 values that nothing awaits, such as a Task"),
        (returns_futures, "a list with 1 values that nothing awaits, such as a Future"),
        (
            lambda _message: {"batchItemFailures": [{"itemIdentifier": "m"}]},
            "batchItemFailures, which nothing",
        ),
    ],
)
def test_a_handler_that_returns_what_is_not_done_has_failed(function, words):
    """Its work has not been done, or has failed, whatever it looks like at registration."""
    world = World()
    world.consumer.handler("work")(lambda message: function(message))  # noqa: PLW0108 - it hides the function
    message_id = world.send("HIGH")

    assert world.step("HIGH") == {message_id}
    assert words in world.recorder.named("message_failed")[0]["error"]

    @world.consumer.handler("next")
    async def handle_next(message):
        await asyncio.sleep(0)

    world.send("HIGH", kind="next", group="other")
    world.step("HIGH")
    assert len(world.recorder.named("message_handled")) == 1


def test_a_handler_may_return_tasks_that_have_succeeded():
    """Nothing of their work is left."""
    loop = HandlerLoop()

    assert registered_with(returns_finished_tasks, loop)(7, None)


def test_the_ids_that_a_batch_handler_answers_may_be_lazy():
    """They are read, so that nothing is left undone."""
    handler = registered_with(lambda messages: map(str, messages), HandlerLoop(), max_size=3)

    assert list(handler([7], None)) == ["7"]


def test_a_kind_has_one_handler():
    """A second one is a mistake."""
    handlers = Handlers()
    handlers.add(["a"], one)

    with pytest.raises(DuplicateHandlerError, match="a"):
        handlers.add(["b", "a"], two)


def test_a_kind_may_have_other_names():
    """A renamed kind's messages of before still wait; each name has one handler."""
    handlers = Handlers()
    handlers.add(["order.placed", "order.created"], one)

    for kind in ("order.placed", "order.created"):
        work = handlers.resolve(record_with("m", body=Message(kind=kind).to_body()))
        assert (work.kind, work.is_unknown) == (kind, False)
    for kinds in (["order.created"], ["order.moved", "order.moved"]):
        with pytest.raises(DuplicateHandlerError, match="already has a handler"):
            handlers.add(kinds, two)
    with pytest.raises(TypeError, match=r"as in aliases=\['order.created'\]"):
        Consumer().handler("order.placed", aliases="order.created")
    with pytest.raises(ConfigurationError, match="no spaces"):
        Consumer().handler("order.placed", aliases=["order created"])


@pytest.mark.parametrize("kind", [one, "", None])
def test_a_handler_without_its_kind_is_refused(kind):
    """`@consumer.handler` alone would register nothing, and its messages would be given up one by one."""
    with pytest.raises(TypeError, match=r'needs the kind, as in @consumer\.handler\("order\.placed"\), not '):
        Consumer().handler(kind)


@pytest.mark.parametrize("kind", ["order placed", "order.placed ", "x" * 129, "order\u200bplaced"])
def test_a_handler_for_a_kind_that_cannot_be_sent_is_refused(kind):
    """Its messages would be refused by the producer, or be given up for want of a handler."""
    with pytest.raises(ConfigurationError, match="1 to 128 printable characters and no spaces"):
        Consumer().handler(kind)


def test_what_is_no_runtime_is_refused():
    """A name is no argument of a consumer."""
    with pytest.raises(TypeError, match=r"Consumer takes a Runtime or none, not 'shop'"):
        Consumer("shop")


def test_there_is_one_handler_of_raw_bodies():
    """As there is one for each kind."""
    handlers = Handlers()
    handlers.add_raw(one)

    with pytest.raises(DuplicateHandlerError, match="raw"):
        handlers.add_raw(two)


def test_an_unknown_kind_lists_the_known_ones():
    """So that a typing error shows."""
    handlers = Handlers()
    handlers.add(["order.placed"], one)

    work = handlers.resolve(record_with("m", body=Message(kind="order.place").to_body()))

    assert work.handler is None
    assert work.refusal == "no handler for kind 'order.place'; registered: order.placed"


def test_the_decorator_gives_the_function_back():
    """It can be called and tested as before."""
    consumer = World().consumer

    assert consumer.handler("one")(one) is one
    assert consumer.raw_handler(two) is two
