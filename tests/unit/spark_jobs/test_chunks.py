"""Rows reach the writer some at a time, fewer of large ones, so that a worker's memory stays flat."""

import pyarrow as pa
import pytest

from spark_jobs.rows.arrow import SLICE_BYTES, SLICE_ROWS, rows_of_batches
from spark_jobs.rows.outgoing import UnreadableRow

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
