"""Values of every type of Spark: no row changes, none disappears, and two rows share an id only if they are equal."""

import json
import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from lanes.errors import MessageError
from spark_jobs.rows.arrow import rows_of_batches
from spark_jobs.rows.outgoing import UnreadableRow
from spark_jobs.rows.reader import RowReader

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
