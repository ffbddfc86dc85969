"""The data of a message in the type that its handler names: which values fit, and the problems of those that don't."""

from __future__ import annotations

import dataclasses
import functools
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from enum import Enum, IntEnum
from typing import Any, Literal, NewType, TypeVar

import pydantic
import pytest

from lanes import Message, RawRecord
from lanes.data import MOST_PROBLEMS, data_reader, reader_of

CustomerId = NewType("CustomerId", str)
Some = TypeVar("Some")


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


class Urgency(IntEnum):
    ONE = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Customer:
    id: CustomerId
    email: str | None = None


@dataclass
class Item:
    name: str
    parts: list[Item] = field(default_factory=list)


@dataclass
class Order:
    order: int
    customer: Customer
    items: list[Item] = field(default_factory=list)
    placed: int = field(default=0, init=False)

    def __post_init__(self):
        if self.order < 0:
            raise ValueError("an order is never negative")


class Payment(pydantic.BaseModel):
    amount: int = pydantic.Field(gt=0)
    currency: Literal["EUR", "USD"] = "EUR"


class Unhappy:
    """A model of another library, with an error that can't even be printed."""

    @classmethod
    def model_validate(cls, _value):
        class OddError(Exception):
            def __str__(self):
                raise RuntimeError

        raise OddError


def read(wanted, value):
    """Return the value read and its problems."""
    problems = []
    return reader_of(wanted, {})(value, "data", problems), problems


@pytest.mark.parametrize(
    ("wanted", "value", "expected"),
    [
        (int, 7, 7),
        (float, 7, 7),
        (float, 0.5, 0.5),
        (bool, True, True),
        (str, "", ""),
        (None, None, None),
        (Any, {"a": [1]}, {"a": [1]}),
        (CustomerId, "c", "c"),
        (list, [1, "a"], [1, "a"]),
        (list[int], [1, 2], [1, 2]),
        (dict, {"a": 1}, {"a": 1}),
        (dict[str, list[int]], {"a": [1]}, {"a": [1]}),
        (int | str, "a", "a"),
        (Literal[1, "a"], "a", "a"),
        (Size, "l", Size.LARGE),
        (Urgency, 1, Urgency.ONE),
        (datetime, "2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        (date, "2026-01-31", date(2026, 1, 31)),
        (Customer, {"id": "c"}, Customer(id="c")),
        (Item, {"name": "a", "parts": [{"name": "b"}]}, Item("a", [Item("b")])),
        (
            Order,
            {"order": 7, "customer": {"id": "c", "email": None}},
            Order(7, Customer(id="c")),
        ),
        (Payment, {"amount": 5}, Payment(amount=5)),
        (list[Payment], [{"amount": 5}], [Payment(amount=5)]),
    ],
)
def test_data_that_fits_is_read_in_its_type(wanted, value, expected):
    """Nothing but classes, enums and times is converted."""
    result, problems = read(wanted, value)

    assert not problems
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("wanted", "value", "problems"),
    [
        (int, "7", ["data must be an integer, not a string"]),
        (int, True, ["data must be an integer, not a boolean"]),
        (int, 7.5, ["data must be an integer, not a number"]),
        (bool, 1, ["data must be a boolean, not an integer"]),
        (str, None, ["data must be a string, not null"]),
        (list[int], {"a": 1}, ["data must be an array, not an object"]),
        (list[int], [1, "a"], ["data[1] must be an integer, not a string"]),
        (dict[str, int], {"a": []}, ["data['a'] must be an integer, not an array"]),
        (Literal[1], True, ["data must be one of 1, not a boolean"]),
        (Size, "m", ["data must be one of 's', 'l', not another string"]),
        (Size, [], ["data must be one of 's', 'l', not an array"]),
        (Urgency, True, ["data must be one of 1, not a boolean"]),
        (datetime, "noon", ["data must be an ISO 8601 date and time, not another string"]),
        (date, 7, ["data must be an ISO 8601 date, not an integer"]),
        (int | list[int], "a", ["data must be an integer or list[int], not a string"]),
        (Customer | None, {}, ["data.id is missing"]),
        (Customer | None, 7, ["data must be an object, not an integer"]),
        (
            Order,
            {"order": "7", "customer": {}, "total": 5, "placed": 1},
            [
                "data has the unknown field 'total'; Order has order, customer, items",
                "data has the unknown field 'placed'; Order has order, customer, items",
                "data.order must be an integer, not a string",
                "data.customer.id is missing",
            ],
        ),
        (
            Order,
            {"order": -1, "customer": {"id": "c"}},
            ["data: ValueError: an order is never negative"],
        ),
        (
            Payment,
            {"amount": 0, "currency": "DM"},
            [
                "data.amount: Input should be greater than 0",
                "data.currency: Input should be 'EUR' or 'USD'",
            ],
        ),
        (list[Payment], [{}], ["data[0].amount: Field required"]),
    ],
)
def test_every_problem_has_its_path_and_shows_no_value(wanted, value, problems):
    """All of them at once; the types and allowed values, not the data."""
    assert read(wanted, value) == (read(wanted, value)[0], problems)


def test_an_error_of_a_model_that_cannot_be_printed_is_a_problem_too():
    """Whatever a validator raises, the message ends with a reason."""
    _, (problem,) = read(Unhappy, {})

    assert problem.startswith("data: ")
    assert "OddError" in problem


@pytest.mark.parametrize(
    "wanted", [set[int], tuple[int, int], dict[int, str], bytes, complex, "x", Some, object()]
)
def test_a_type_that_json_cannot_give_is_refused_at_registration(wanted):
    """Not at the first message; the error names the type and those supported."""
    with pytest.raises(TypeError, match="supported are a dataclass, a model"):
        reader_of(wanted, {})


def test_a_field_of_such_a_type_is_named():
    """With the way to it."""
    line = dataclasses.make_dataclass("Line", [("amount", bytes)])
    invoice = dataclasses.make_dataclass("Invoice", [("number", int), ("lines", list[line])])

    with pytest.raises(
        TypeError, match=r"^Invoice\.lines: Line\.amount: data can't be read as bytes; supported"
    ):
        reader_of(invoice, {})


def order_handler(message: Message[Order]) -> None:
    """Take one order."""


def plain_handler(message: Message) -> None:
    """Take any message."""


def any_handler(message: Message[Any]) -> None:
    """Take any message."""


def generic_handler(message: Message[Some]) -> None:
    """Take any message."""


def untyped_handler(message):
    """Take any message."""


def unknown_handler(message: Unknown) -> None:  # noqa: F821
    """Take something that only a type checker knows."""


def hidden_handler(message: Message[Unknown]) -> None:  # noqa: F821
    """Take data that only a type checker knows."""


class Shop:
    def handle(self, message: Message[Order]) -> None:
        """Take one order."""

    def __call__(self, message: Message[Order], context: Any) -> None:
        """Take one order."""


@functools.wraps(order_handler)
def wrapped_handler(*given):
    """Take one order."""


@pytest.mark.parametrize(
    "handler",
    [order_handler, wrapped_handler, Shop().handle, Shop(), functools.partial(order_handler)],
    ids=["function", "decorated", "method", "object", "partial"],
)
def test_the_type_is_that_of_the_first_parameter(handler):
    """Postponed annotations are evaluated in the module of the handler."""
    read_data = data_reader(handler)

    assert read_data({"order": 7, "customer": {"id": "c"}}) == (Order(7, Customer(id="c")), "")


@pytest.mark.parametrize(
    "handler",
    [plain_handler, any_handler, generic_handler, untyped_handler, unknown_handler, lambda *given: given],
)
def test_a_handler_that_names_no_type_takes_any_data(handler):
    """As before: an annotation that can't be evaluated is the type checker's own affair."""
    assert data_reader(handler) is None


def test_a_type_that_only_the_type_checker_imports_is_refused():
    """With the way out."""
    with pytest.raises(TypeError, match=r"'Unknown' is not defined.*, not under TYPE_CHECKING"):
        data_reader(hidden_handler)
    with pytest.raises(TypeError, match=r"the fields of RawRecord .*'Mapping' is not defined"):
        reader_of(RawRecord, {})


def test_a_long_list_of_problems_is_cut():
    """The reason is an attribute of the dead letter."""

    def handle(message: Message[list[int]]) -> None: ...

    _, reason = data_reader(handle)(["a"] * 100)

    assert reason.count(";") == MOST_PROBLEMS
    assert reason.endswith("; and 90 more problems")


def test_a_message_is_frozen_and_generic():
    """Its alias makes messages, and no Python lets you change one."""
    message = Message[Order](kind="order.placed", data=Order(7, Customer(id="c")))

    assert message.data.order == 7
    with pytest.raises(dataclasses.FrozenInstanceError):
        message.data = None
