"""Rows reach the writer some at a time, fewer of large ones, so that a worker's memory stays flat."""

import pyarrow as pa
import pytest
from pyspark.sql import Row
from pyspark.sql import types as t

from spark_jobs.partitions import CHUNK_CHARACTERS, CHUNK_ROWS, chunks_of_rows
from spark_jobs.rows.plain import PlainRows
from spark_jobs.source import SLICE_BYTES, SLICE_ROWS, rows_of_batches

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

    chunks = list(chunks_of_rows(iter(rows), plain))

    assert len(chunks[0]) == CHUNK_ROWS
    assert sum(map(len, chunks)) == len(rows)
    assert max(map(len, chunks[1:])) * len(LARGE) <= CHUNK_CHARACTERS + len(LARGE)


def test_no_rows_are_no_chunk():
    """There is nothing to send."""
    assert list(chunks_of_rows(iter([]), PlainRows(SCHEMA))) == []
    assert list(rows_of_batches(iter([]))) == []


def test_rows_that_come_one_by_one_are_read_as_rows():
    """Streams of Spark 4.0 have no batches."""
    assert list(rows_of_batches(iter([Row(data="1")]), PlainRows(SCHEMA))) == [[{"data": "1"}]]
