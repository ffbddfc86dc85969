"""The data of a message in the type that its handler names: which library reads it, and what none can read."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, ClassVar, Generic, Literal, NamedTuple, NewType, TypeVar
from uuid import UUID

import msgspec
import pydantic
import pytest
from typing_extensions import TypedDict

from lanes import HandlerContext
from lanes.data import MOST_PROBLEMS, reader_of

ID = "6f1c5c0e-7d0e-4c39-9d3c-0a7a4c9a1b11"
CustomerId = NewType("CustomerId", str)
Amount = Annotated[int, pydantic.Field(gt=0)]
Some = TypeVar("Some")


class Size(Enum):
    SMALL = "s"


class Address(TypedDict):
    street: str


class Point(NamedTuple):
    x: int
    y: int


@dataclass
class Item:
    name: str
    parts: list[Item] = field(default_factory=list)


@dataclass
class Page(Generic[Some]):
    entries: list[Some]
    next: Page[Some] | None = None


@dataclass
class Order:
    id: UUID
    at: datetime
    due: date
    total: Decimal
    size: Size
    lane: Literal["fast", "slow"]
    customer: CustomerId
    where: Address | None = None
    point: Point | None = None
    items: list[Item] = field(default_factory=list)
    prices: dict[str, float] = field(default_factory=dict)
    lock: Callable[[], None] | None = field(default=None, init=False)
    known: ClassVar[BaseException]


ORDER = {
    "id": ID,
    "at": "2026-01-31T12:00:00Z",
    "due": "2026-02-01",
    "total": "10.50",
    "size": "s",
    "lane": "fast",
    "customer": "c",
    "where": {"street": "a"},
    "point": [1, 2],
    "items": [{"name": "a", "parts": [{"name": "b"}]}],
    "prices": {"a": 1},
}


class Line(msgspec.Struct, rename="camel"):
    sku_number: str
    count: int = 1


class Card(msgspec.Struct, tag_field="kind", tag="card"):
    number: str


class Cash(msgspec.Struct, tag_field="kind", tag="cash"):
    pass


class Payment(pydantic.BaseModel):
    amount: Amount
    currency: Literal["EUR", "USD"] = "EUR"


class Closed(pydantic.BaseModel, extra="forbid"):
    amount: int


@pydantic.dataclasses.dataclass
class Stock:
    count: Amount


@dataclass
class Sale:
    amount: Amount
    count: int = 1
    by: Payment | None = None


@dataclass
class Created:
    order: int


@dataclass
class Cancelled:
    reason: str


@dataclass
class Refused:
    word: str

    def __post_init__(self):
        raise LookupError("no word is right")


@pytest.mark.parametrize(
    ("wanted", "value", "expected"),
    [
        (
            Order,
            ORDER,
            Order(
                id=UUID(ID),
                at=datetime(2026, 1, 31, 12, tzinfo=UTC),
                due=date(2026, 2, 1),
                total=Decimal("10.50"),
                size=Size.SMALL,
                lane="fast",
                customer=CustomerId("c"),
                where={"street": "a"},
                point=Point(1, 2),
                items=[Item("a", [Item("b")])],
                prices={"a": 1.0},
            ),
        ),
        (Page[Item], {"entries": [{"name": "a"}]}, Page([Item("a")])),
        (int | list[str] | None, ["a"], ["a"]),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (Any, {"a": [1]}, {"a": [1]}),
        (Annotated[Item, "for people", Item("for programs")], {"name": "a"}, Item("a")),
        (list[Line], [{"skuNumber": "a", "more": 1}], [Line("a")]),
        (Card | Cash, {"kind": "cash"}, Cash()),
        (Payment, {"amount": "5", "more": 1}, Payment(amount=5)),
        (list[list[Payment]], [[{"amount": "5"}]], [[Payment(amount=5)]]),
        (Payment | None, None, None),
        (Stock, {"count": 2}, Stock(2)),
        (Sale, {"amount": 5, "by": {"amount": 5}}, Sale(5, by=Payment(amount=5))),
        (Created | Cancelled, {"reason": "late"}, Cancelled("late")),
    ],
)
def test_data_that_fits_is_read_in_its_type(wanted, value, expected):
    """By msgspec, or by pydantic if it is one of its types or one that msgspec lacks."""
    found, problem = reader_of(wanted)(value)

    assert (found, problem) == (expected, "")
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("wanted", "value", "problem"),
    [
        (Item, {"name": "a", "parts": [{"name": 7}]}, "data.parts[0].name: Expected `str`, got `int`"),
        (Item, {}, "data: Object missing required field `name`"),
        (int, "7", "data: Expected `int`, got `str`"),
        (int, True, "data: Expected `int`, got `bool`"),
        (Order, ORDER | {"size": "secret"}, "data.size: Invalid enum value"),
        (Order, ORDER | {"lane": "secret"}, "data.lane: Invalid enum value"),
        (Card | Cash, {"kind": "secret"}, "data.kind: Invalid value"),
        (Line, {"skuNumber": 7}, "data.skuNumber: Expected `str`, got `int`"),
        (
            list[Payment],
            [{"amount": 0, "currency": "DM"}],
            "data.0.amount: Input should be greater than 0; data.0.currency: Input should be 'EUR' or 'USD'",
        ),
        (Closed, {"amount": 5, "tip": 1}, "data.tip: Extra inputs are not permitted"),
        (Sale, {"amount": 0}, "data.amount: Input should be greater than 0"),
        (Sale, {"amount": 1, "count": "7"}, "data.count: Input should be a valid integer"),
        (Amount, -5, "data: Input should be greater than 0"),
        (Refused, {"word": "a"}, "data: LookupError: no word is right"),
    ],
)
def test_a_problem_has_its_path_and_shows_no_value(wanted, value, problem):
    """Since data may be confidential."""
    assert reader_of(wanted)(value) == (None, problem)


def test_a_long_list_of_problems_is_cut():
    """The reason is an attribute of the dead letter."""
    _, problem = reader_of(list[Payment])([{}] * 100)

    assert problem.count(";") == MOST_PROBLEMS
    assert problem.endswith("; and 90 more problems")


@pytest.mark.parametrize(
    "wanted",
    [
        object(),
        Callable[[], int],
        type(reader_of),
        list[complex | type(reader_of)],
        make_dataclass("Invoice", [("lines", list[make_dataclass("Line", [("amount", type(reader_of))])])]),
    ],
)
def test_a_type_that_nothing_can_read_is_refused(monkeypatch, wanted):
    """At registration, not at the first message."""
    if wanted == Callable[[], int]:  # pydantic can tell a function, which no JSON is
        monkeypatch.setitem(sys.modules, "pydantic", None)

    with pytest.raises(TypeError, match="data can't be read as"):
        reader_of(wanted)


@pytest.mark.parametrize(
    ("missing", "wanted", "reason"),
    [
        (
            "pydantic",
            Created | Cancelled,
            "more than one dataclass.*; add pydantic to the requirements",
        ),
        ("pydantic", Sale, "pydantic is missing; add pydantic to the requirements of the function"),
        ("msgspec", Item, "msgspec is missing; add msgspec to the requirements of the function"),
    ],
)
def test_without_its_library_a_type_is_refused_with_the_cure(monkeypatch, missing, wanted, reason):
    """The asset of a typed handler has msgspec; pydantic is for your requirements."""
    monkeypatch.setitem(sys.modules, missing, None)

    with pytest.raises(TypeError, match=reason):
        reader_of(wanted)


def test_fields_that_only_a_type_checker_knows_are_refused():
    """With the way out."""
    with pytest.raises(
        TypeError, match=r"the fields of HandlerContext .*'Callable' is not defined.*TYPE_CHECKING"
    ):
        reader_of(HandlerContext)


@pytest.mark.parametrize(
    ("wanted", "imported"),
    [
        ("Message", "[]"),
        ("Message[Any]", "[]"),
        ("Message[Order]", "['msgspec']"),
        ("Message[Model]", "['pydantic']"),
    ],
)
def test_a_cold_start_imports_no_library_that_it_does_not_need(wanted, imported):
    """Pydantic takes longer to load than all of this library."""
    code = (
        "import sys, dataclasses; from typing import Any; from lanes import Consumer, Message\n"
        "@dataclasses.dataclass\nclass Order: order: int\n"
        "if 'Model' in sys.argv[1]:\n"
        "  import pydantic\n  class Model(pydantic.BaseModel): order: int\n"
        "def place(message): ...\n"
        "place.__annotations__['message'] = eval(sys.argv[1])\n"
        "Consumer().handler('k')(place)\n"
        "print([one for one in ('msgspec', 'pydantic') if one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, wanted], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == imported
