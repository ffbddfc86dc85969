"""Columns are checked before any task starts, and each problem names the allowed types."""

import pytest
from pyspark.sql import types as t

from lanes.errors import ConfigurationError
from spark_jobs.columns import check_columns

TEXT = t.StringType()
DATA = ("data", TEXT)


def struct(*fields):
    """Make a struct, or the schema of a table, from names and types."""
    return t.StructType([t.StructField(name, kind) for name, kind in fields])


def problems_of(*columns, kind="a.kind"):
    """Give the problems of these columns."""
    with pytest.raises(ConfigurationError) as caught:
        check_columns(struct(*columns), kind=kind)
    return caught.value.problems


@pytest.mark.parametrize(
    "columns",
    [
        [DATA],
        [
            DATA,
            ("kind", TEXT),
            ("group", t.LongType()),
            ("id", t.IntegerType()),
            ("priority", t.ShortType()),
            ("traceparent", TEXT),
        ],
        [
            (
                "data",
                t.MapType(
                    TEXT, t.ArrayType(struct(("at", t.TimestampType()), ("much", t.DecimalType(15, 2))))
                ),
            )
        ],
        [
            (
                "data",
                struct(
                    ("a", t.BooleanType()), ("b", t.DoubleType()), ("c", t.DateType()), ("d", t.NullType())
                ),
            )
        ],
        [
            (
                "data",
                struct(("key", t.DecimalType(38, 0))),
            )
        ],
    ],
)
def test_columns_that_have_a_form_in_json_are_taken(columns):
    """Strings, whole numbers and everything that nests down to JSON is fine."""
    check_columns(struct(*columns), kind="a.kind")


def test_data_is_required_and_kind_without_the_option():
    """Columns that every message needs are named."""
    data, kind = problems_of(("id", TEXT), kind=None)

    assert data == "column 'data' is missing; a string with a JSON document, a struct or a map is needed"
    assert kind.startswith("column 'kind' is missing")


def test_unknown_columns_are_refused_rather_than_dropped():
    """An unknown column is usually a spelling mistake."""
    (problem,) = problems_of(DATA, ("grp", TEXT))

    assert problem.startswith("unknown column 'grp'; did you mean 'group'?")


def test_a_column_twice_is_refused():
    """Spark allows two columns of one name; a message has one of each."""
    assert problems_of(DATA, ("id", TEXT), ("id", TEXT)) == ["column 'id' occurs more than once"]


@pytest.mark.parametrize(
    ("column", "needed"),
    [
        (("priority", TEXT), "column 'priority' is string; a whole number is needed"),
        (("group", t.DoubleType()), "column 'group' is double; a string or a whole number is needed"),
        (("id", t.BinaryType()), "column 'id' is binary; a string or a whole number is needed"),
        (("kind", t.IntegerType()), "column 'kind' is int; a string is needed"),
    ],
)
def test_a_column_of_the_wrong_type_is_named(column, needed):
    """The error names the type and the allowed types."""
    assert problems_of(DATA, column) == [needed]


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (struct(("a", struct(("photo", t.BinaryType())))), "data.a.photo is binary"),
        (struct(("a", t.ArrayType(t.DayTimeIntervalType()))), "data.a[] is interval day to second"),
        (t.MapType(t.IntegerType(), TEXT), "data is map<int,string>; keys"),
        (t.MapType(TEXT, t.DecimalType(20, 2)), "data[key] is decimal(20,2); a JSON number keeps 15 digits"),
        (t.IntegerType(), "column 'data' is int"),
    ],
)
def test_data_without_a_form_in_json_is_named_by_its_path(data, place):
    """A type deep inside the data is found before the job runs."""
    (problem,) = problems_of(("data", data))

    assert problem.startswith(place)


def test_a_name_that_a_struct_has_twice_is_named():
    """A join leaves such structs behind, and one of the values would be lost."""
    twice = struct(("id", TEXT), ("total", TEXT), ("id", TEXT))

    assert problems_of(("data", t.MapType(TEXT, twice))) == [
        "data[key] has 'id' more than once; a JSON object has each name once"
    ]
