"""The data of a message in the type that its handler names: which values fit, and the problems of those that don't."""

from __future__ import annotations

import dataclasses
import functools
import subprocess
import sys
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, IntEnum, IntFlag
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, Optional, TypeVar
from uuid import UUID

import msgspec
import pydantic
import pytest
from typing_extensions import TypedDict

from lanes import HandlerContext, Message
from lanes.data import MOST_PROBLEMS, Findings, data_reader, reader_of

CustomerId = NewType("CustomerId", str)
Amount = Annotated[int, pydantic.Field(gt=0)]
Some = TypeVar("Some")


class Size(Enum):
    SMALL = "s"
    LARGE = "l"


class Rate(Enum):
    """Its values have other forms in JSON."""

    LOW = Decimal("0.10")
    FROM = date(2026, 1, 2)
    STEPS = (1, 2)


class Urgency(IntEnum):
    ONE = 1


class Mode(IntFlag):
    READ = 1
    WRITE = 2


class Level(Enum):
    """Other senders write 1.0 as 1, and any case of a text."""

    ONE = 1.0
    TOP = "top"

    @classmethod
    def _missing_(cls, value):
        return cls.TOP if str(value).lower() == "top" else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Customer:
    id: CustomerId
    email: str | None = None


@dataclass
class Login:
    """The constructor takes a password, which no field keeps."""

    name: str
    password: InitVar[str]
    tries: InitVar[int] = 3
    hashed: str = field(init=False)

    def __post_init__(self, password, tries):
        self.hashed = f"{password} {tries}"


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


class OddError(Exception):
    """An error that can't be printed."""

    def __str__(self):
        raise RuntimeError


class Unhappy(pydantic.BaseModel):
    """A model whose validator raises one."""

    amount: int

    @pydantic.field_validator("amount")
    @classmethod
    def _check(cls, _value):
        raise OddError


class Strict(pydantic.BaseModel):
    """A model that converts nothing but the forms of JSON."""

    model_config = pydantic.ConfigDict(strict=True)
    day: date
    at: datetime
    id: UUID
    size: Size
    amount: Decimal


class Cat(pydantic.BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(pydantic.BaseModel):
    kind: Literal["dog"]


Pet = Annotated[Cat | Dog, pydantic.Field(discriminator="kind")]


class Address(TypedDict):
    street: str


class Point(NamedTuple):
    x: int
    y: int


@pydantic.dataclasses.dataclass
class Stock:
    count: Annotated[int, pydantic.Field(gt=0)]


@dataclass
class Home:
    address: Address
    pet: Pet | None = None


class Line(msgspec.Struct):
    sku: str
    count: int = 1


class Basket(msgspec.Struct, rename="camel", kw_only=True):
    """Field names in JSON differ, and lines nest."""

    basket_id: UUID
    at: datetime
    total: Decimal
    size: Size = Size.SMALL
    lines: list[Line] = []


class Card(msgspec.Struct, tag_field="kind", tag="card"):
    number: str


class Cash(msgspec.Struct, tag_field="kind", tag="cash"):
    pass


class Closed(msgspec.Struct, forbid_unknown_fields=True):
    sku: str


class Wary(msgspec.Struct):
    """A struct whose own check raises an error that can't be printed."""

    sku: str

    def __post_init__(self):
        raise OddError


@dataclass
class Sale:
    basket: Basket
    by: Card | Cash


def read(wanted, value, *, strict=True):
    """Return the value read and its problems."""
    problems = Findings(strict=strict)
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
        (Mode, 3, Mode.READ | Mode.WRITE),
        (Level, 1, Level.ONE),
        (Level, "TOP", Level.TOP),
        (datetime, "2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        (date, "2026-01-31", date(2026, 1, 31)),
        (UUID, "6f1c5c0e-7d0e-4c39-9d3c-0a7a4c9a1b11", UUID("6f1c5c0e-7d0e-4c39-9d3c-0a7a4c9a1b11")),
        (Decimal, "10.50", Decimal("10.50")),
        (Pet, {"kind": "cat", "lives": 9}, Cat(kind="cat", lives=9)),
        (Address, {"street": "a"}, {"street": "a"}),
        (Point, [1, 2], Point(1, 2)),
        (tuple[int, str], [1, "a"], (1, "a")),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (Stock, {"count": 2}, Stock(2)),
        (
            Home,
            {"address": {"street": "a"}, "pet": {"kind": "dog"}},
            Home({"street": "a"}, Dog(kind="dog")),
        ),
        (
            Strict,
            {
                "day": "2026-01-31",
                "at": "2026-01-31T12:00:00Z",
                "id": "6f1c5c0e-7d0e-4c39-9d3c-0a7a4c9a1b11",
                "size": "s",
                "amount": "10.50",
            },
            Strict(
                day=date(2026, 1, 31),
                at=datetime(2026, 1, 31, 12, tzinfo=UTC),
                id=UUID("6f1c5c0e-7d0e-4c39-9d3c-0a7a4c9a1b11"),
                size=Size.SMALL,
                amount=Decimal("10.50"),
            ),
        ),
        (Customer, {"id": "c"}, Customer(id="c")),
        (Item, {"name": "a", "parts": [{"name": "b"}]}, Item("a", [Item("b")])),
        (
            Order,
            {"order": 7, "customer": {"id": "c", "email": None}},
            Order(7, Customer(id="c")),
        ),
        (Login, {"name": "a", "password": "b", "tries": 5}, Login("a", "b", 5)),
        (Login, {"name": "a", "password": "b"}, Login("a", "b")),
        (Payment, {"amount": 5}, Payment(amount=5)),
        (list[Payment], [{"amount": 5}], [Payment(amount=5)]),
        (Rate, "0.10", Rate.LOW),
        (Rate, [1, 2], Rate.STEPS),
        (Rate, "2026-01-02", Rate.FROM),
        (Literal[Size.SMALL], "s", Size.SMALL),
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
        (Mode, True, ["data must be one of 1, 2, not a boolean"]),
        (Mode, 8.5, ["data must be one of 1, 2, not a number"]),
        (Level, "low", ["data must be one of 1.0, 'top', not another string"]),
        (datetime, "noon", ["data must be an ISO 8601 date and time, not another string"]),
        (date, 7, ["data must be an ISO 8601 date, not an integer"]),
        (UUID, "7", ["data must be a UUID, not another string"]),
        (Decimal, "ten", ["data must be a decimal number in a string, not another string"]),
        (Decimal, "NaN", ["data must be a decimal number in a string, not another string"]),
        (Decimal, 7.5, ["data must be a decimal number in a string, not a number"]),
        (Pet, {"kind": "cat"}, ["data.cat.lives: Field required"]),
        (Payment, {"amount": 5, "tip": 1}, ["data.tip: Extra inputs are not permitted"]),
        (int | list[int], "a", ["data must be an integer or list[int], not a string"]),
        (Customer | None, {}, ["data.id is missing"]),
        (
            Login,
            {"name": "a", "tries": ""},
            ["data.password is missing", "data.tries must be an integer, not a string"],
        ),
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


@dataclass
class Created:
    order: int = 0


@dataclass
class Cancelled:
    reason: str
    order: int = 0


@pytest.mark.parametrize(
    ("wanted", "value", "expected", "ignored"),
    [
        (Customer, {"id": "c", "phone": "1", "fax": "2"}, Customer(id="c"), 2),
        (
            list[Customer],
            [{"id": "c", "phone": "1"}, {"id": "d", "phone": "1"}],
            [Customer(id="c"), Customer(id="d")],
            2,
        ),
        (Customer | None, {"id": "c", "phone": "1"}, Customer(id="c"), 1),
        (Created | Cancelled, {"reason": "late", "order": 7}, Cancelled("late", 7), 0),
        (Created | Cancelled, {"reason": "late", "by": "me"}, Created(), 2),
        (Payment, {"amount": 5, "tip": 1}, Payment(amount=5), 1),
    ],
)
def test_a_field_that_the_type_lacks_is_ignored_and_counted(wanted, value, expected, ignored):
    """A newer sender may have added it. Of a union, a type that has all fields goes first."""
    result, problems = read(wanted, value, strict=False)

    assert not problems
    assert problems.ignored == ignored
    assert result == expected


@dataclass
class Comment:
    text: str
    answer: Comment | None = None


@dataclass
class Sum:
    parts: list[Sum | Product | int]


@dataclass
class Product:
    parts: list[Sum | Product | int]
    unit: str = ""


First = TypeVar("First")
Second = TypeVar("Second")


@dataclass
class Pair(Generic[First, Second]):
    first: First
    others: list[Second] = field(default_factory=list)
    next: Pair[First, Second] | None = None


@dataclass
class CustomerPair(Pair[Customer, First]):
    """The base's second variable is this one's first."""

    last: First | None = None


def nested(innermost, outer, *, levels=40):
    value = innermost
    for _ in range(levels):
        value = outer(value)
    return value


@pytest.mark.parametrize(
    ("wanted", "innermost", "outer", "ending"),
    [
        (
            Comment,
            {"text": 7},
            lambda value: {"text": "", "answer": value},
            "text must be a string, not an integer",
        ),
        (Comment, {"text": "", "by": "me"}, lambda value: {"text": "", "answer": value}, None),
        (
            Sum,
            {"parts": ["7"]},
            lambda value: {"parts": [1, value]},
            "must be Sum or Product or an integer, not an object",
        ),
        (Sum, {"parts": [], "unit": "m"}, lambda value: {"parts": [1, value]}, None),
        (Sum, {"parts": [], "by": "me"}, lambda value: {"parts": [1, value]}, None),
    ],
)
def test_types_that_contain_themselves_are_read_once_for_each_level(wanted, innermost, outer, ending):
    """A value that does not fit, or has a field too many, deep inside must not hold the slot for hours."""
    _, problems = read(wanted, nested(innermost, outer), strict=False)

    assert [problem.endswith(ending) for problem in problems[:1]] == ([] if ending is None else [True])
    assert problems.ignored == ("by" in innermost)


@pytest.mark.parametrize(
    ("wanted", "value", "expected", "problems"),
    [
        (Pair[int, str], {"first": 1, "others": ["a"]}, Pair(1, ["a"]), []),
        (Pair[int, str], {"first": "1"}, None, ["data.first must be an integer, not a string"]),
        (
            Pair[int, str],
            {"first": 1, "next": {"first": 2, "others": [3]}},
            None,
            ["data.next.others[0] must be a string, not an integer"],
        ),
        (Pair[Customer, int], {"first": {"id": "c"}}, Pair(Customer(id="c")), []),
        (
            CustomerPair[bool],
            {"first": {"id": "c"}, "others": [True], "last": False},
            CustomerPair(Customer(id="c"), [True], last=False),
            [],
        ),
        (
            CustomerPair[bool],
            {"first": {"id": "c"}, "others": [1]},
            None,
            ["data.others[0] must be a boolean, not an integer"],
        ),
        (
            CustomerPair,
            {"first": {"id": 1}, "last": []},
            None,
            ["data.first.id must be a string, not an integer"],
        ),
        (Pair, {"first": "any", "others": [1, "b"]}, Pair("any", [1, "b"]), []),
        (
            Pair[int, str],
            {"first": 1, "more": 2},
            None,
            ["data has the unknown field 'more'; Pair has first, others, next"],
        ),
    ],
)
def test_a_generic_dataclass_is_read_with_its_arguments(monkeypatch, wanted, value, expected, problems):
    """As strictly as another dataclass, and without pydantic."""
    monkeypatch.setitem(sys.modules, "pydantic", None)

    found, found_problems = read(wanted, value)

    assert found_problems == problems
    assert problems or found == expected


def test_an_error_of_a_model_that_cannot_be_printed_is_a_problem_too():
    """Whatever a validator raises, the message ends with a reason."""
    _, (problem,) = read(Unhappy, {"amount": 1})

    assert problem.startswith("data: ")
    assert "OddError" in problem


@pytest.mark.parametrize("wanted", ["x", object(), type(read)])
def test_a_type_that_nothing_can_read_is_refused_at_registration(wanted):
    """Not at the first message."""
    with pytest.raises(TypeError, match="data can't be read as"):
        reader_of(wanted, {})


def test_a_field_of_such_a_type_is_named():
    """With the way to it."""
    line = dataclasses.make_dataclass("Line", [("amount", type(read))])
    invoice = dataclasses.make_dataclass("Invoice", [("number", int), ("lines", list[line])])

    with pytest.raises(TypeError, match=r"^Invoice\.lines: Line\.amount: data can't be read as function"):
        reader_of(invoice, {})


def test_without_pydantic_its_types_are_refused_with_a_cure(monkeypatch):
    """And the others are read."""
    monkeypatch.setitem(sys.modules, "pydantic", None)

    assert read(Customer, {"id": "c"}) == (Customer(id="c"), [])
    with pytest.raises(TypeError, match="add it to the requirements of the function"):
        reader_of(tuple[int, int], {})


def test_a_plain_dataclass_loads_no_pydantic():
    """It takes longer to load than all of this library."""
    code = (
        "import sys; from lanes import Consumer, Message; from dataclasses import dataclass\n"
        "@dataclass\nclass Order: order: int\n"
        "@Consumer().handler('k')\ndef place(message: Message[Order]) -> None: ...\n"
        "sys.exit('pydantic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


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


def hidden_alias(message: OrderMessage, context: Context) -> None:  # noqa: F821
    """Take a message under a name that only a type checker knows."""


def hidden_message(message: Message, context: Context) -> None:  # noqa: F821
    """Take a message beside something that only a type checker knows."""


def with_session(session: Session, message: Message[Order]) -> None:  # noqa: F821
    """Take one order, and a session from a decorator."""


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
    [order_handler, wrapped_handler, Shop().handle, Shop(), functools.partial(order_handler), with_session],
    ids=["function", "decorated", "method", "object", "partial", "second"],
)
def test_the_type_is_that_of_the_first_parameter(handler):
    """Postponed annotations are evaluated in the module of the handler."""
    read_data = data_reader(handler)

    assert read_data({"order": 7, "customer": {"id": "c"}}) == (Order(7, Customer(id="c")), "", 0)


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


@pytest.mark.parametrize("name", ["Order", "OnlyForTheTypeChecker"])
@pytest.mark.parametrize(
    "form",
    [
        lambda name: f"Message[{name}]",
        lambda name: f"'Message[{name}]'",
        lambda name: Message[name],
        lambda name: Annotated[Message[name], "first"],
        lambda name: Optional[Message[name]],  # noqa: UP045 - text in a union has no other form
        lambda name: TypeStatement(lambda: eval(f"Message[{name}]")),  # noqa: S307
    ],
    ids=["text", "text-in-text", "text-inside", "annotated", "optional", "type-statement"],
)
def test_an_alias_of_a_message_is_read_or_refused(form, name):
    """Never registered as a handler of plain data, which would get a dict."""
    handler = taking(form(name))

    if name == "Order":
        assert data_reader(handler)({"order": 7, "customer": {"id": "c"}})[0] == Order(7, Customer(id="c"))
    else:
        with pytest.raises(TypeError, match=r" is not defined.*, not under TYPE_CHECKING"):
            data_reader(handler)


@pytest.mark.parametrize(
    ("form", "takes_several"),
    [
        (Message[Amount], False),
        ("Message[Amount]", False),
        (Annotated[Message[Amount], "an amount"], False),
        (Message[TypeStatement(lambda: Amount)], False),
        (list[Message[Amount]], True),
    ],
    ids=["plain", "text", "annotated", "type-statement", "several"],
)
def test_what_is_annotated_to_the_data_holds_for_it(form, takes_several):
    """The check of an amount is not lost where it is the whole data."""
    read_data = data_reader(taking(form), takes_several=takes_several)

    assert read_data(5) == (5, "", 0)
    assert read_data(-5)[1] == "data: Input should be greater than 0"


def test_a_class_of_messages_of_its_own_is_refused_at_registration():
    """The handler would get a message of another class, with data of no type."""

    class OrderMessage(Message[Order]):
        """With methods of an application."""

    for annotation in (OrderMessage, OrderMessage[Order]):
        with pytest.raises(TypeError, match=r"takes OrderMessage, .* annotate message as Message\[\.\.\.\]"):
            data_reader(taking(annotation))


def test_words_that_are_annotated_to_a_type_change_nothing(monkeypatch):
    """They are for people."""
    monkeypatch.setitem(sys.modules, "pydantic", None)
    read_data = data_reader(taking(Message[Annotated[Customer, "who ordered"]]))

    assert read_data({"id": "c"}) == (Customer(id="c"), "", 0)


@pytest.mark.parametrize(
    "handler",
    [plain_handler, any_handler, generic_handler, untyped_handler, hidden_message, lambda *given: given],
)
def test_a_handler_that_names_no_type_takes_any_data(handler):
    """As before: an annotation that can't be evaluated is the type checker's own affair."""
    assert data_reader(handler) is None


def test_a_type_that_only_the_type_checker_imports_is_refused():
    """With the way out."""
    for handler in (hidden_handler, unknown_handler, hidden_alias):
        with pytest.raises(TypeError, match=r" is not defined.*, not under TYPE_CHECKING"):
            data_reader(handler)
    with pytest.raises(TypeError, match=r"the fields of HandlerContext .*'Callable' is not defined"):
        reader_of(HandlerContext, {})


def test_a_long_list_of_problems_is_cut():
    """The reason is an attribute of the dead letter."""

    def handle(message: Message[list[int]]) -> None: ...

    _, reason, _ = data_reader(handle)(["a"] * 100)

    assert reason.count(";") == MOST_PROBLEMS
    assert reason.endswith("; and 90 more problems")


def test_a_message_is_frozen_and_generic():
    """Its alias makes messages, and no Python lets you change one."""
    message = Message[Order](kind="order.placed", data=Order(7, Customer(id="c")))

    assert message.data.order == 7
    with pytest.raises(dataclasses.FrozenInstanceError):
        message.data = None


BASKET = {"basketId": "12345678-1234-5678-1234-567812345678", "at": "2026-01-31T12:00:00Z", "total": "1.50"}


def test_structs_are_read_by_msgspec_also_inside_of_a_dataclass():
    """With its names and tags, and the forms of JSON: text for a UUID, a time and a decimal."""
    value = {
        "basket": {**BASKET, "size": "l", "lines": [{"sku": "a"}]},
        "by": {"kind": "card", "number": "7"},
    }

    sale, problems = read(Sale, value)

    assert problems == []
    assert sale.basket == Basket(
        basket_id=UUID(BASKET["basketId"]),
        at=datetime(2026, 1, 31, 12, tzinfo=UTC),
        total=Decimal("1.50"),
        size=Size.LARGE,
        lines=[Line("a")],
    )
    assert sale.by == Card("7")


@pytest.mark.parametrize(
    ("wanted", "value", "expected"),
    [
        (Line, {"sku": 7}, "data.sku: Expected `str`, got `int`"),
        (Line, 7, "data: Expected `object`, got `int`"),
        (Basket, {**BASKET, "lines": [{}]}, "data.lines[0]: Object missing required field `sku`"),
        (Basket, {**BASKET, "size": "secret"}, "data.size: Invalid enum value"),
        (Closed, {"sku": "a", "more": 1}, "data: Object contains unknown field `more`"),
        (Sale, {"basket": BASKET, "by": {"kind": "gold"}}, "data.by must be Card or Cash, not an object"),
    ],
)
def test_a_struct_that_does_not_fit_is_refused_without_its_values(wanted, value, expected):
    """The path of the problem, in our form."""
    found, problems = read(wanted, value)

    assert (found if wanted is not Sale else None, problems) == (None, [expected])


def test_a_struct_whose_own_check_fails_is_a_problem():
    """Whatever it raises."""
    assert read(Wary, {"sku": "a"})[1] == ["data: tests.unit.test_data.OddError: <exception str() failed>"]


def test_a_field_that_a_struct_lacks_is_counted_or_refused():
    """As of every other type; its tag is no field that it lacks."""
    problems = Findings(strict=False)

    assert reader_of(Card, {})({"kind": "card", "number": "7", "more": 1}, "data", problems) == Card("7")
    assert (problems, problems.ignored) == ([], 1)
    assert read(Card, {"kind": "card", "number": "7", "more": 1}) == (
        None,
        ["data has the unknown field 'more'; Card has number"],
    )


def test_fields_that_structs_inside_of_a_struct_lack_count_as_well():
    """In their fields, arrays and objects."""

    class Shelf(msgspec.Struct):
        first: Line
        lines: list[Line]
        by_name: dict[str, Line] = {}

    line = {"sku": "a", "more": 1}
    value = {"first": line, "lines": [{"sku": "b"}, line], "by_name": {"c": line}}
    found, problems = read(Shelf, value, strict=False)

    assert found == Shelf(Line("a"), [Line("b"), Line("a")], {"c": Line("a")})
    assert (problems, problems.ignored) == ([], 3)
    assert read(Shelf, value) == (
        None,
        [
            f"data{path} has the unknown field 'more'; Line has sku, count"
            for path in (".first", ".lines[1]", ".by_name['c']")
        ],
    )


def test_a_struct_that_msgspec_cannot_read_is_refused_at_registration():
    """Not at the first message."""

    class Odd(msgspec.Struct):
        both: Line | Closed

    with pytest.raises(TypeError, match="data can't be read as Odd: msgspec: TypeError"):
        reader_of(Odd, {})
