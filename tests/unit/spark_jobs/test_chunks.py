"""Rows reach the writer some at a time, fewer of large ones, so that a worker's memory stays flat."""

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql import types as t

from spark_jobs.order import order_keys
from spark_jobs.rows.arrow import SLICE_BYTES, SLICE_ROWS, in_order, rows_of_batches
from spark_jobs.rows.outgoing import UnreadableRow
from spark_jobs.rows.plain import CHUNK_CHARACTERS, CHUNK_ROWS, PlainRows

SCHEMA = t.StructType([t.StructField("data", t.StringType())])
LARGE = "x" * 100_000


def batch(*texts):
    """Make an Arrow batch."""
    return pa.record_batch({"data": list(texts)})


def test_small_rows_of_a_batch_come_in_slices():
    """Every row once and in its order."""
    texts = [str(number) for number in range(2 * SLICE_ROWS + 1)]

    slices = list(rows_of_batches(iter([batch(*texts), batch()])))

    assert [len(one) for one in slices] == [SLICE_ROWS, SLICE_ROWS, 1]
    assert [row["data"] for one in slices for row in one] == texts


def test_large_rows_of_a_batch_come_in_smaller_slices():
    """However large a row, it comes."""
    slices = [len(one) for one in rows_of_batches(iter([batch(*[LARGE] * 200), batch("x" * SLICE_BYTES)]))]

    assert sum(slices) == 201
    assert slices[-1] == 1
    assert max(slices) * len(LARGE) <= SLICE_BYTES


def test_maps_at_any_depth_are_dicts():
    """Some columns have one, others none."""
    maps = pa.list_(pa.struct([("names", pa.map_(pa.string(), pa.int64()))]))
    rows = [{"plain": "x", "data": {"deep": [{"names": {"a": 1, "b": None}}]}}]
    schema = pa.schema([("plain", pa.string()), ("data", pa.struct([("deep", maps)]))])

    assert list(rows_of_batches(iter([pa.RecordBatch.from_pylist(rows, schema=schema)]))) == [rows]


@pytest.mark.parametrize(
    ("wrap", "kind"),
    [
        (str, t.StringType()),
        (lambda text: Row(texts=[text]), t.StructType([t.StructField("texts", t.ArrayType(t.StringType()))])),
        (lambda text: {"a": text}, t.MapType(t.StringType(), t.StringType())),
    ],
)
def test_large_rows_of_a_partition_come_in_smaller_chunks(wrap, kind):
    """Wherever the text is nested."""
    plain = PlainRows(t.StructType([t.StructField("data", kind)]))
    rows = [Row(data=wrap(text)) for text in ["s"] * (CHUNK_ROWS + 1) + [LARGE] * 200]

    chunks = list(plain.chunks(iter(rows)))

    assert len(chunks[0]) == CHUNK_ROWS
    assert sum(map(len, chunks)) == len(rows)
    assert max(map(len, chunks[1:])) * len(LARGE) <= CHUNK_CHARACTERS + len(LARGE)


def test_no_rows_are_no_chunk():
    """There is nothing to send."""
    assert list(PlainRows(SCHEMA).chunks(iter([]))) == []
    assert list(rows_of_batches(iter([]))) == []


def test_rows_that_come_one_by_one_are_read_as_rows():
    """Streams of Spark 4.0 have no batches."""
    assert list(PlainRows(SCHEMA).chunks(iter([Row(data="1")]))) == [[{"data": "1"}]]


def raw(numbers, kind):
    """Make an array of whole numbers that Arrow takes for dates or times."""
    return pa.array(numbers, pa.int32() if pa.types.is_date32(kind) else pa.int64()).cast(kind)


NEW_YORK = pa.timestamp("us", "America/New_York")
UNREADABLE = {
    "a date after 9999": (raw([0, 2_932_897], pa.date32()), "10000-01-01"),
    "the last second of 9999 in New York": (
        raw([0, 253_402_318_799_000_000], NEW_YORK),
        "9999-12-31 23:59:59",
    ),
    "a time after 9999": (raw([0, 253_402_300_800_000_000], pa.timestamp("us")), "10000-01-01 00:00:00"),
    "a string that is not UTF-8": (pa.array([b"a", b"\xff\xfeb"]).view(pa.string()), "\\xff\\xfeb"),
    "a repeated key": (
        pa.array([[("a", 1)], [("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int32())),
        "('a', 2)",
    ),
}


@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.parametrize("depth", ["column", "struct", "list", "map"])
def test_a_row_that_python_cannot_hold_is_set_apart_from_the_others(name, depth):
    """The other rows of its batch are read, and it is known by its readable columns."""
    values, text = UNREADABLE[name]
    nested = {
        "column": lambda: values,
        "struct": lambda: pa.StructArray.from_arrays([values, pa.array([1, 2])], ["at", "n"]),
        "list": lambda: pa.ListArray.from_arrays([0, 1, 2], values),
        "map": lambda: pa.MapArray.from_arrays([0, 1, 2], pa.array(["k", "k"]), values),
    }
    data = nested[depth]()
    batch = pa.RecordBatch.from_arrays([pa.array(["good", "bad"]), data], ["id", "data"])

    ((good, bad),) = rows_of_batches([batch])

    assert good["id"] == "good"
    assert isinstance(bad, UnreadableRow)
    assert "column 'data' has a value that Python cannot hold" in bad.reason
    assert bad.row["id"] == "bad"
    assert text in str([bad.row["data"]]).replace("\\\\", "\\")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.float32(), 0.1),
        (pa.struct([("f", pa.float32()), ("s", pa.string())]), {"f": 3.4028235e38, "s": "x"}),
        (pa.list_(pa.float32()), [1e-45, None, -0.1]),
        (pa.map_(pa.string(), pa.float32()), {"a": 0.3}),
        (pa.struct([("d", pa.float64())]), {"d": 0.1}),
    ],
)
def test_a_float_of_32_bits_keeps_its_shortest_form(kind, value):
    """0.1 stays 0.1: the 64-bit float of the same value is 0.10000000149011612."""
    given = list(value.items()) if pa.types.is_map(kind) else value

    ((row,),) = rows_of_batches([pa.RecordBatch.from_arrays([pa.array([given], kind)], ["data"])])

    assert row == {"data": value}


NESTED = pa.schema(
    [
        ("data", pa.struct([("day", pa.int32()), ("names", pa.map_(pa.string(), pa.int32()))])),
        ("id", pa.string()),
    ]
)


def test_a_partition_is_sorted_by_columns_and_fields():
    """Nulls last, equal rows as they came, whatever batches they are in."""
    days = [3, None, 1, 3, 2, 1]
    rows = [
        {"data": {"day": day, "names": [("a", place)]}, "id": str(place)} for place, day in enumerate(days)
    ]
    batches = [pa.RecordBatch.from_pylist(rows[start : start + 2], schema=NESTED) for start in (0, 2, 4)]

    def ids(text):
        return [
            row["id"] for part in rows_of_batches(in_order(iter(batches), order_keys(text))) for row in part
        ]

    assert ids("data.day") == ["2", "5", "4", "0", "3", "1"]
    assert ids("data.day desc, id DESC") == ["3", "0", "4", "5", "2", "1"]
    assert list(in_order(iter([]), order_keys("id"))) == []
    assert list(in_order(batches, ())) == batches
