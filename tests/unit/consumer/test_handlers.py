"""Registration of handlers: what may be one, and what is refused before any message is lost to it."""

import functools

import pytest

from lanes import Consumer, Message
from lanes.consumer.handlers import Handlers, registered
from lanes.errors import ConfigurationError, DuplicateHandlerError
from tests.support.memory import World
from tests.support.records import record_with


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


@pytest.mark.parametrize(
    "function",
    [
        later,
        Handler().later,
        AsyncHandler(),
        functools.partial(later),
        stepwise,
        later_stepwise,
        functools.partial(stepwise),
    ],
)
def test_what_would_not_run_when_called_is_refused(function):
    """A coroutine function or a generator returns at once and does nothing: the message would be lost."""
    with pytest.raises(TypeError, match="plain function"):
        registered(function)


def test_a_builtin_without_a_signature_is_refused():
    """Python can't say how it is called, and its own error names no way out."""
    with pytest.raises(TypeError, match="max has no signature to read; call it in a function of your own"):
        registered(max)


@pytest.mark.parametrize(
    ("function", "words"),
    [(later, "never awaited"), (stepwise, "never run"), (later_stepwise, "never run")],
)
def test_a_handler_that_returns_what_has_not_run_has_failed(function, words):
    """Its work has not been done, whatever it looks like at registration."""
    world = World()
    world.consumer.handler("work")(lambda message: function(message))  # noqa: PLW0108 - it hides the function
    message_id = world.send("HIGH")

    assert world.step("HIGH") == {message_id}
    assert words in world.recorder.named("message_failed")[0]["error"]


def test_a_kind_has_one_handler():
    """A second one is a mistake."""
    handlers = Handlers()
    handlers.add(["a"], one)

    with pytest.raises(DuplicateHandlerError, match="a"):
        handlers.add(["b", "a"], two)


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
