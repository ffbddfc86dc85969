"""Rows of Arrow batches: values as they are or refused by name, and some at a time, so that memory stays flat."""

import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanes.errors import MessageError
from spark_jobs.arrow import SLICE_BYTES, SLICE_ROWS, rows_of_batches
from spark_jobs.rows import RowReader, UnreadableRow

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


EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - a timestamp without a zone
MICROSECONDS = st.sampled_from([0, 1, -1, 253_402_300_799_999_999, 253_402_300_800_000_000]) | st.integers(
    -62_135_596_900_000_000, 253_402_400_000_000_000
)
BITS = st.integers(0, 2**32 - 1)
COLUMNS = {
    "much": st.integers(-(10**15) + 1, 10**15 - 1),
    "at": MICROSECONDS,
    "local": MICROSECONDS,
    "on": st.integers(-719_200, 2_932_990) | st.sampled_from([0, 1]),
    "text": st.binary(max_size=4) | st.text(max_size=3).map(str.encode),
    "real": BITS,
    "names": st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), max_size=2),
}
ROWS = st.lists(st.fixed_dictionaries({}, optional=COLUMNS), min_size=1, max_size=6)


def whole(values, *kinds):
    """Make an array of whole numbers, and take it for one of other types."""
    made = pa.array(values, pa.int64())
    for kind in kinds:
        made = made.cast(kind)
    return made


ARRAYS = {
    "much": lambda values: pa.array(
        [None if one is None else Decimal(one).scaleb(-2) for one in values], pa.decimal128(15, 2)
    ),
    "at": lambda values: whole(values, pa.timestamp("us", "America/New_York")),
    "local": lambda values: whole(values, pa.timestamp("us")),
    "on": lambda values: whole(values, pa.int32(), pa.date32()),
    "text": lambda values: pa.array(values, pa.binary()).view(pa.string()),
    "real": lambda values: whole(values, pa.uint32()).view(pa.float32()),
    "names": lambda values: pa.array(values, pa.map_(pa.string(), pa.int32())),
}


def instant(value):
    """Give a time with a zone; Python must hold it in the session's zone too."""
    moment = EPOCH + timedelta(microseconds=value)
    assert moment - timedelta(hours=5) < moment
    return moment.replace(tzinfo=UTC).isoformat()


def shortest(value):
    """Give the shortest decimal of a 32-bit float."""
    number = pa.array([value], pa.uint32()).view(pa.float32())
    if not math.isfinite(number[0].as_py()):
        raise ValueError(value)
    return float(number.cast(pa.string())[0].as_py())


def members(value):
    """Give the members of an object, which has each name once."""
    if len(dict(value)) < len(value):
        raise ValueError(value)
    return dict(value)


EXPECTED = {
    "much": lambda value: float(Decimal(value).scaleb(-2)),
    "at": instant,
    "local": lambda value: (EPOCH + timedelta(microseconds=value)).isoformat(),
    "on": lambda value: date.fromordinal(date(1970, 1, 1).toordinal() + value).isoformat(),
    "text": bytes.decode,
    "real": shortest,
    "names": members,
}


def in_a_handler(row):
    """Give the data of a row in a handler, or None."""
    try:
        return {name: None if row.get(name) is None else read(row[name]) for name, read in EXPECTED.items()}
    except (ValueError, OverflowError):
        return None


@given(rows=ROWS)
@settings(max_examples=60)
def test_a_row_arrives_as_it_is_or_is_refused_by_name(rows):
    """Whatever is beside it in its batch."""
    columns = [ARRAYS[name]([row.get(name) for row in rows]) for name in COLUMNS]
    data = pa.StructArray.from_arrays(columns, list(COLUMNS))
    batch = pa.RecordBatch.from_arrays([data], ["data"])
    reader = RowReader(kind="a.kind", priority=0)
    identities = {}

    read = [row for part in rows_of_batches([batch]) for row in part]

    assert len(read) == len(rows)
    for position, (one, row) in enumerate(zip(read, rows, strict=True)):
        wanted = in_a_handler(row)
        try:
            item = None if isinstance(one, UnreadableRow) else reader.item(one, position)
        except (ValueError, MessageError):
            item = None
        # Next to the last year Python may hold a time in one zone and not in another.
        if item is None and wanted is not None:
            assert wanted["at"][:4] in ("0001", "9999")
            continue
        assert (item is None) == (wanted is None)
        if item is not None:
            assert json.loads(item.body)["data"] == wanted
            identities.setdefault(json.dumps(wanted, sort_keys=True), set()).add(item.identity)
    assert all(len(same) == 1 for same in identities.values())
    assert len({name for same in identities.values() for name in same}) == len(identities)
