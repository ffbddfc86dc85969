"""What the annotations of a handler say: as text or, on Python 3.14, evaluated only when somebody asks."""

import functools
import sys
import textwrap
import types
from typing import Annotated, Any, Optional, TypeVar

import pytest

from lanes import Consumer, Message, RawRecord
from lanes.consumer.annotations import ANY, data_type

HEADER = """
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Optional, Protocol
from lanes import Message, RawRecord

if TYPE_CHECKING:
    from decimal import Decimal as Hidden
    from lanes import HandlerContext

@dataclass
class Order:
    order: int

def passing(function):
    @functools.wraps(function)
    def wrapper(*given):
        return function(*given)
    return wrapper

class HasKind(Protocol):
    kind: str
"""
ONE = {
    "plain": ("message: Message", "Any"),
    "any": ("message: Message[Any]", "Any"),
    "nothing": ("message", "Any"),
    "object": ("message: object", "Any"),
    "protocol": ("message: HasKind", "Any"),
    "also raw": ("message: Message | RawRecord", "Any"),
    "typed": ("message: Message[Order]", "Order"),
    "null": ("message: Message[None]", "None"),
    "container": ("message: Message[list[Order]]", "list[Order]"),
    "union": ("message: Message[Order | None]", "Order | None"),
    "annotated": ("message: Annotated[Message[Order], 'first']", "Order"),
    "optional": ("message: Message[Order] | None", "Order"),
    "text": ("message: 'Message[Order]'", "Order"),
    "text inside": ("message: Message['Order']", "Order"),
    "context": ("message: Message[Order], context: HandlerContext", "Order"),
    "context in text": ("message: Message[Order], context: 'HandlerContext'", "Order"),
    "optional context": ("message: Message[Order], context: HandlerContext | None = None", "Order"),
    "other names": ("message: Message[Order], *, session: Hidden = None", "Order"),
    "positional": ("message: Message[Order], /", "Order"),
    "plain beside hidden": ("message: Message, context: Hidden", "Any"),
}
FUTURES = (True, False) if sys.version_info >= (3, 14) else (True,)
"""Without the future import, older versions of Python evaluate all annotations when a function is defined."""


def made(source, *, future=True):
    """Return the names that a module defines."""
    module = sys.modules["made"] = types.ModuleType("made")  # where dataclasses look
    exec(("from __future__ import annotations\n" if future else "") + HEADER + source, vars(module))  # noqa: S102
    return vars(module)


@pytest.mark.parametrize("future", FUTURES)
@pytest.mark.parametrize(("parameters", "expected"), ONE.values(), ids=ONE)
@pytest.mark.parametrize("form", ["def", "async def", "decorated", "method", "object", "partial"])
def test_only_the_annotation_of_the_message_is_evaluated(future, form, parameters, expected):
    """The context and what is returned may be names that a type checker alone imports."""
    kind, owner = (
        ("async def", "") if form == "async def" else ("def", "self, " * (form in ("method", "object")))
    )
    name = "__call__" if form == "object" else "place"
    source = f"{kind} {name}({owner}{parameters}) -> Hidden: ...\n"
    if owner:
        source = "class Orders:\n" + textwrap.indent(source, "    ")
        source += "handler = Orders()" if form == "object" else "handler = Orders().place"
    else:
        makers = {"decorated": "passing(place)", "partial": "functools.partial(place)"}
        source += f"handler = {makers.get(form, 'place')}"
    names = made(source, future=future)
    found = data_type(names["handler"])

    assert found == (ANY if expected == "Any" else eval(expected, names))  # noqa: S307
    Consumer().handler("order.placed")(names["handler"])


@pytest.mark.parametrize("future", FUTURES)
@pytest.mark.parametrize(
    "annotation",
    [
        "Hidden",
        "Message[Hidden]",
        "Message[list[Hidden]]",
        "Message[Hidden] | None",
        "'Message[Hidden]'",
        "Message['Hidden']",
    ],
)
def test_a_message_that_only_a_type_checker_knows_is_refused(future, annotation):
    """With the way out: its data would arrive as a dict."""
    handler = made(f"def place(message: {annotation}, context: HandlerContext): ...", future=future)["place"]

    with pytest.raises(TypeError, match=r"'Hidden' is not defined.*, not under TYPE_CHECKING"):
        Consumer().handler("order.placed")(handler)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        (
            "order: Order",
            "place takes Order and gets a Message: annotate order as Message[Order]; its data",
        ),
        ("order: dict[str, Any]", "annotate order as Message[dict[str, typing.Any]]; its data is order.data"),
        ("order: Order | None", "annotate order as Message[Order]"),
        ("order: Annotated[Order, 'a']", "annotate order as Message[Order]"),
        ("order: RawRecord", "place takes RawRecord and gets a Message"),
        ("order: Message[Order] | Message[int]", "gets a Message: annotate order as Message["),
        ("orders: list[Order]", "place takes Order and gets a Message"),
    ],
)
def test_a_handler_that_takes_something_else_is_refused(parameters, words):
    """It would fail at each message, after the deploy."""
    handler = made(f"def place({parameters}): ...")["place"]

    with pytest.raises(TypeError) as caught:
        Consumer().handler("order.placed")(handler)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("annotation", "words"),
    [
        (
            "list[Order]",
            "place takes Order and gets a list of messages: annotate orders as list[Message[Order]]",
        ),
        ("Order", "annotate orders as list[Message[Order]]"),
        (
            "Message[Order]",
            "place takes several messages: annotate orders as list[Message] or list[Message[...]]",
        ),
    ],
)
def test_a_batch_handler_that_takes_something_else_is_refused(annotation, words):
    """It gets a list of messages."""
    handler = made(f"def place(orders: {annotation}): ...")["place"]

    with pytest.raises(TypeError) as caught:
        Consumer().batch_handler("order.placed")(handler)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "annotation",
    ["list", "list[Message]", "Sequence[Message[Any]]", "Optional[list[Message]]", "Any", "list[Any]"],
)
def test_a_batch_handler_takes_lists_of_messages(annotation):
    """In every form."""
    handler = made(f"def place(orders: {annotation}): ...")["place"]

    assert data_type(handler, takes_several=True) is ANY
    Consumer().batch_handler("order.placed")(handler)


@pytest.mark.parametrize("register", [Consumer.raw_handler, lambda consumer, take: consumer.decoder()(take)])
def test_a_raw_handler_or_a_decoder_that_takes_a_message_is_refused(register):
    """It gets the record; a name that only a type checker knows is not asked."""

    def of_messages(message: Message) -> None: ...
    def of_records(record: RawRecord) -> None: ...

    with pytest.raises(TypeError, match="takes Message and gets a RawRecord; annotate message as RawRecord"):
        register(Consumer(), of_messages)
    register(Consumer(), of_records)
    register(Consumer(), made("def take(record: Hidden): ...")["take"])


def test_the_message_may_follow_what_a_decorator_gives():
    """The first parameter of a decorated function is the decorator's."""
    names = made("@passing\ndef place(session: Hidden, message: Message[Order]): ...")
    other = made("@passing\ndef place(order: Order): ...")

    assert data_type(names["place"]) is names["Order"]
    assert data_type(other["place"]) is ANY


class TypeStatement:
    """As `type OrderMessage = ...` of Python 3.12, which is evaluated when it is asked for."""

    def __init__(self, evaluate):
        self._evaluate = evaluate

    @property
    def __value__(self):
        return self._evaluate()


def taking(annotation):
    """Give a handler of one message with an annotation."""

    def handle(message): ...

    handle.__annotations__["message"] = annotation
    return handle


@pytest.mark.parametrize("name", ["Any", "int", "OnlyForTheTypeChecker"])
@pytest.mark.parametrize(
    "form",
    [
        lambda name: f"'Message[{name}]'",
        lambda name: Message[name],
        lambda name: Annotated[Message[name], "first"],
        lambda name: Optional[Message[name]],  # noqa: UP045 - text in a union has no other form
        lambda name: TypeStatement(lambda: eval(f"Message[{name}]")),  # noqa: S307
    ],
    ids=["text-in-text", "text-inside", "annotated", "optional", "type-statement"],
)
def test_an_alias_of_a_message_is_read_or_refused(form, name):
    """Never registered as a handler of plain data, which would get a dict."""
    if name == "OnlyForTheTypeChecker":
        with pytest.raises(TypeError, match=r" is not defined.*, not under TYPE_CHECKING"):
            data_type(taking(form(name)))
    else:
        assert data_type(taking(form(name))) is {"Any": ANY, "int": int}[name]


def test_a_class_of_messages_of_its_own_is_refused():
    """The handler would get a message of another class, with data of no type."""

    class OrderMessage(Message[int]):
        """With methods of an application."""

    for annotation in (OrderMessage, OrderMessage[int]):
        with pytest.raises(
            TypeError, match=r"OrderMessage.* gets a Message: annotate message as Message\[\.\.\.\]"
        ):
            data_type(taking(annotation))


def test_a_generic_handler_takes_any_data():
    """Its variable stands for no type."""
    assert data_type(taking(Message[TypeVar("Some")])) is ANY
    assert data_type(functools.partial(taking(Message[Any]))) is ANY
