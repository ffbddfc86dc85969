"""Data on the wire: every type that a handler can name is written so that it is read back; nothing is lost silently."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from types import SimpleNamespace
from typing import Annotated, Any, NamedTuple
from uuid import UUID

import msgspec
import pydantic
import pydantic.alias_generators
import pytest

from lanes import Message
from lanes.data import reader_of
from lanes.encoding import encoded
from lanes.errors import InvalidMessageError

ID = UUID("6f1c5c0e-7d0e-4c39-9d3c-0a7a4c9a1b11")


class Size(Enum):
    SMALL = "s"


class Urgency(IntEnum):
    ONE = 1


class Point(NamedTuple):
    x: int
    y: int


class Payment(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    id: UUID
    amount: Decimal
    at: datetime
    due: date = pydantic.Field(alias="dueOn")
    tags: set[str] = set()


@pydantic.dataclasses.dataclass
class Stock:
    count: Annotated[int, pydantic.Field(gt=0)]


class Line(msgspec.Struct, rename="camel"):
    sku_number: str
    price: Decimal
    counts: dict[int, int] = {}


@dataclass
class Order:
    id: UUID
    amount: Decimal
    at: datetime
    due: date
    size: Size
    urgency: Urgency
    point: Point
    stock: Stock
    payment: Payment | None = None
    parts: list[Order] = field(default_factory=list)
    total: int = field(default=0, init=False)


PAYMENT = Payment(id=ID, amount=Decimal("0.10"), at=datetime(2026, 1, 31, tzinfo=UTC), dueOn=date(2026, 2, 1))
ORDER = Order(
    id=ID,
    amount=Decimal("12345678901234567890.10"),
    at=datetime(2026, 1, 31, 12, tzinfo=UTC),
    due=date(2026, 2, 1),
    size=Size.SMALL,
    urgency=Urgency.ONE,
    point=Point(1, 2),
    stock=Stock(3),
    payment=PAYMENT,
)


@pytest.mark.parametrize(
    ("wanted", "value"),
    [
        (Order, ORDER),
        (list[Order], [replace(ORDER, parts=[ORDER, ORDER])]),
        (list[Payment], [PAYMENT]),
        (Payment, PAYMENT),
        (list[Line], [Line("a", Decimal("0.10"))]),
        (Point, Point(1, 2)),
        (dict[str, Decimal], {"a": Decimal("1.50")}),
    ],
)
def test_what_is_sent_is_read_back(wanted, value):
    """Through the body, in the type that a handler names."""
    data = Message.from_body(Message(kind="k", data=value).to_body()).data

    assert reader_of(wanted)(data) == (value, "")


@pytest.mark.parametrize(
    "value",
    [None, 7, 1.5, "ü\u2028", True, [1, [2]], {"a": {"b": None}, "c": 1e-9}, {1: "a", 2: "b"}, (1, 2)],
)
def test_values_of_json_are_written_as_by_its_library(value):
    """Byte by byte, as before."""
    assert encoded(value) == json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def test_times_and_enums_are_text():
    """In the forms of RFC 3339, or the values of their members."""
    value = [time(12, 30), Size.SMALL, Urgency.ONE, date(2026, 1, 31), pydantic.AnyUrl("http://a/b")]

    assert encoded(value) == '["12:30:00","s",1,"2026-01-31","http://a/b"]'


@dataclass
class Holder:
    counts: dict[object, int]


class Unwritable(pydantic.BaseModel):
    word: str

    @pydantic.field_serializer("word")
    def _write(self, _word):
        raise LookupError("no word")


def circle():
    """Return a list that contains itself."""
    value = []
    value.append(value)
    return value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({1: "a", "1": "b"}, "same in JSON"),
        ([{"deep": {True: 1, "true": 2}}], "same in JSON"),
        ({None: 1, "null": 2}, "same in JSON"),
        ({1.5: 1, "1.5": 2}, "same in JSON"),
        ([Holder({2: 1, "2": 1})], "same in JSON"),
        ({1, 2}, "set has no form in JSON; pass sorted(value)"),
        (b"bytes", "bytes has no form in JSON"),
        (object(), "object has no form in JSON"),
        (Order, "type has no form in JSON"),
        (float("nan"), "not JSON compliant"),
        (Decimal("NaN"), "NaN is not a finite number"),
        (circle(), "Circular reference"),
        (Unwritable(word="a"), "no word"),
        ({(1, 2): 3}, "keys must be"),
    ],
)
def test_what_has_no_form_is_refused_before_any_call(value, words):
    """With the reason, not half of it sent."""
    with pytest.raises(InvalidMessageError, match="the data is not JSON") as caught:
        Message(kind="k", data=value).to_body()

    assert words in str(caught.value)


class Scalar:
    """A number as NumPy has it: not one of Python's."""

    shape = ()

    def __init__(self, value):
        self._value = value

    def item(self):
        """Give the value as one of Python's."""
        return self._value


Scalar.__module__ = "numpy"


def test_scalars_of_numpy_are_taken_by_value():
    """Columns of pandas and polars have them."""
    assert encoded({"n": Scalar(7), "is": [Scalar(True)], "at": Scalar(date(2026, 1, 2))}) == (
        '{"n":7,"is":[true],"at":"2026-01-02"}'
    )


class Kind:
    """The type of NumPy's values, by its letter."""

    def __init__(self, kind):
        self.kind = kind


class Time64(Scalar):
    """A time or duration of NumPy, whose value for Python is a number if it has nanoseconds."""

    def __init__(self, value, text, kind="M"):
        super().__init__(value)
        self.dtype, self._text = Kind(kind), text

    def __str__(self):
        return self._text


Time64.__module__, Time64.__name__ = "numpy", "timedelta64"


class Row(Scalar):
    """A row of a table of records, whose value for Python is a tuple."""

    dtype = SimpleNamespace(kind="V", names=("order", "amount"))


Row.__module__ = "numpy"


def test_times_of_numpy_are_written_as_times():
    """A column of pandas has nanoseconds, which are a number for Python."""
    text = "2026-01-02T00:00:00.000000001"

    assert encoded(Time64(1767312000000000001, text)) == f'"{text}"'


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (Time64(None, "NaT"), "NaT has no form in JSON; pass None"),
        (Time64(5, "5 nanoseconds", "m"), r"timedelta64 .* pass value / numpy.timedelta64\(1, 's'\)"),
        (Scalar(Scalar(1)), r"Scalar has no form in JSON; pass float\(value\)"),
        (
            Row((1, 2.5)),
            r"Row with fields has no form in JSON; pass dict\(zip\(value.dtype.names, value.item\(\)\)\)",
        ),
    ],
)
def test_what_numpy_would_give_as_something_else_is_refused(value, problem):
    """Missing times, durations without their unit, floats that Python lacks, and values without their names."""
    with pytest.raises(TypeError, match=problem):
        encoded([value])


def test_a_time_is_written_by_its_own_method():
    """Those of pandas have nanoseconds."""

    class Timestamp(datetime):
        def isoformat(self):
            return f"{super().isoformat()}.000000001"

    assert encoded(Timestamp(2026, 1, 2)) == '"2026-01-02T00:00:00.000000001"'


@pytest.mark.parametrize(("name", "bases"), [("NAType", ()), ("NaTType", (datetime,))])
def test_missing_values_of_pandas_are_refused_with_the_cure(name, bases):
    """The missing time is a datetime, and would be sent as text."""
    missing = type(name, bases, {})
    value = missing(2026, 1, 2) if bases else missing()

    with pytest.raises(TypeError, match=f"{name} has no form in JSON; pass None"):
        encoded({"at": value})


def test_keys_of_a_struct_that_are_one_in_json_are_refused():
    """A reader would lose one of them."""
    with pytest.raises(ValueError, match="the same in JSON"):
        encoded(Line("a", Decimal(1), {1: 1, "1": 2}))


class Aliased(pydantic.BaseModel):
    name: str = pydantic.Field(alias="Name")


class Camel(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(alias_generator=pydantic.alias_generators.to_camel)
    first_name: str
    inner: Aliased | None = None


class ByName(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(validate_by_name=True, validate_by_alias=False)
    name: str = pydantic.Field(alias="Name")


class EitherName(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(populate_by_name=True)
    name: str = pydantic.Field(validation_alias=pydantic.AliasChoices("Name", "called"))


class WrittenAs(pydantic.BaseModel):
    name: str = pydantic.Field(serialization_alias="Name")


class ReadAs(pydantic.BaseModel):
    name: str = pydantic.Field(validation_alias="Name")


class ReadAndWrittenAs(pydantic.BaseModel):
    name: str = pydantic.Field(validation_alias="a", serialization_alias="b")


class Computed(pydantic.BaseModel, extra="forbid"):
    name: str

    @pydantic.computed_field
    @property
    def length(self) -> int:
        return len(self.name)


class InText(pydantic.BaseModel):
    numbers: pydantic.Json[list[int]]


class Excluding(pydantic.BaseModel):
    name: str
    cached: int = pydantic.Field(default=0, exclude=True)


class GermanDay(pydantic.BaseModel):
    day: date

    @pydantic.field_serializer("day")
    def _write(self, day):
        return f"{day:%d.%m.%Y}"


class Seconds(pydantic.BaseModel):
    wait: timedelta

    @pydantic.field_serializer("wait")
    def _write(self, wait):
        return wait.total_seconds()


class OtherForm(pydantic.BaseModel):
    name: str

    @pydantic.model_serializer
    def _write(self):
        return {"Name": self.name}


class Named(pydantic.BaseModel):
    name: str


class Person(Named):
    born: date


class Holding(pydantic.BaseModel):
    one: Named


class HoldingAny(pydantic.BaseModel):
    one: pydantic.SerializeAsAny[Named]


class HoldingReadAs(pydantic.BaseModel):
    one: ReadAs


class Loose(pydantic.BaseModel):
    anything: Any


class Secret(pydantic.BaseModel):
    token: pydantic.SecretStr


class SecretBytes(pydantic.BaseModel):
    token: pydantic.SecretBytes


class Private(pydantic.BaseModel):
    name: str
    _made: object = pydantic.PrivateAttr(default_factory=object)


class Open(pydantic.BaseModel, extra="allow"):
    name: str


class Numbers(pydantic.RootModel[list[int]]):
    pass


class Forms(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    at: datetime
    some: set[int]
    pair: tuple[int, str]
    content: bytes


@pydantic.dataclasses.dataclass
class AliasedStock:
    count: int = pydantic.Field(alias="Count")


PERSON = Person(name="a", born=date(2000, 1, 2))


@pytest.mark.parametrize(
    "value",
    [
        Aliased(Name="a"),
        Camel(firstName="a", inner=Aliased(Name="b")),
        ByName(name="a"),
        EitherName(name="a"),
        WrittenAs(name="a"),
        Computed(name="a"),
        InText(numbers="[1]"),
        Excluding(name="a"),
        Seconds(wait=timedelta(seconds=1.5)),
        Holding(one=Named(name="a")),
        Loose(anything=[1, {"a": None}]),
        Private(name="a"),
        Open(name="a", more=1),
        Numbers([1, 2]),
        Forms(at=datetime(2026, 1, 2, tzinfo=UTC), some={1}, pair=(1, "a"), content=b"a"),
        AliasedStock(Count=1),
        PERSON,
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_model_at_both_ends_arrives_equal(value):
    """Its aliases, computed fields and JSON in texts are written as it reads them, also inside of other data."""
    data = Message.from_body(Message(kind="k", data=[value]).to_body()).data
    ((found,), problem) = reader_of(list[type(value)])(data)

    assert problem == ""
    assert {**vars(found)} == {**vars(value)}
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (ReadAs(Name="a"), "ReadAs would not arrive as it is sent: Name: Field required"),
        (ReadAndWrittenAs(a="a"), "a: Field required"),
        (HoldingReadAs(one={"Name": "a"}), "one.Name: Field required"),
        (Excluding(name="a", cached=7), "Excluding would not arrive as it is sent: cached (int); pass"),
        (GermanDay(day=date(2026, 1, 2)), "day: Input should be a valid date"),
        (OtherForm(name="a"), "name: Field required"),
        (Holding(one=PERSON), "one (Person)"),
        (HoldingAny(one=PERSON), "one (Person)"),
        (Loose(anything=(1, 2)), "anything (tuple)"),
        (Loose(anything=date(2026, 1, 2)), "anything (date)"),
        (Open(name="a", more=date(2026, 1, 2)), "Open would not arrive as it is sent: its extra fields"),
        (Secret(token="hidden"), "Secret would not arrive as it is sent: token (SecretStr)"),
        (SecretBytes(token=b"hidden"), "token (SecretBytes)"),
        (Named.model_construct(name=7), "name: Input should be a valid string"),
        (pydantic.SecretStr("hidden"), "SecretStr is a secret, which has no form in JSON"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_model_that_would_arrive_as_another_is_refused(value, problem):
    """By the names of its fields, and without their values."""
    with pytest.raises(InvalidMessageError) as caught:
        Message(kind="k", data={"inside": value}).to_body()

    assert problem in str(caught.value)
    assert "hidden" not in str(caught.value)
