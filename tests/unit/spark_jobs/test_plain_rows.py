"""Rows that come one by one are the same as those that come in Arrow batches."""

import time
from datetime import UTC, datetime

import pytest
from pyspark.sql import Row
from pyspark.sql import types as t

from spark_jobs.rows.plain import PlainRows

MOMENT = datetime(2026, 7, 2, 12, 0, 0, 123456, tzinfo=UTC)
PLAIN = datetime(2026, 7, 2, 12)  # noqa: DTZ001 - a timestamp without a zone


@pytest.fixture
def new_york(monkeypatch):
    """Have this machine's clock show the time of New York."""
    with monkeypatch.context() as changed:
        changed.setenv("TZ", "America/New_York")
        time.tzset()
        yield
    time.tzset()


def schema(**columns):
    """Make a schema of columns and their types."""
    return t.StructType([t.StructField(name, kind) for name, kind in columns.items()])


@pytest.mark.usefixtures("new_york")
def test_timestamps_are_moments_wherever_they_stand():
    """Spark gives them as the clock of the machine showed them, which no other machine could know."""
    inner = schema(at=t.TimestampType(), on=t.TimestampNTZType())
    columns = schema(
        data=schema(
            one=inner,
            several=t.ArrayType(t.TimestampType()),
            named=t.MapType(t.StringType(), inner),
            none=t.TimestampType(),
        ),
        id=t.StringType(),
    )
    shown = t.TimestampType().fromInternal(int(MOMENT.timestamp() * 1_000_000))
    row = Row(
        data=Row(
            one=Row(at=shown, on=PLAIN),
            several=[shown, None],
            named={"a": Row(at=shown, on=PLAIN), "b": None},
            none=None,
        ),
        id="x",
    )

    assert shown.hour == 8
    assert PlainRows(columns)(row) == {
        "data": {
            "one": {"at": MOMENT, "on": PLAIN},
            "several": [MOMENT, None],
            "named": {"a": {"at": MOMENT, "on": PLAIN}, "b": None},
            "none": None,
        },
        "id": "x",
    }


@pytest.mark.usefixtures("new_york")
def test_the_hour_that_a_clock_shows_twice_is_told_apart():
    """When summer time ends."""
    moments = [datetime(2026, 11, 1, hour, 30, tzinfo=UTC) for hour in (5, 6)]
    shown = [t.TimestampType().fromInternal(int(one.timestamp() * 1_000_000)) for one in moments]
    read = PlainRows(schema(at=t.TimestampType()))

    assert [one.hour for one in shown] == [1, 1]
    assert [read(Row(at=one))["at"] for one in shown] == moments


def test_rows_without_timestamps_stay_as_they_are():
    """Their structs become dicts."""
    columns = schema(data=schema(days=t.ArrayType(t.DateType())), id=t.StringType())

    assert PlainRows(columns)(Row(data=Row(days=[]), id=None)) == {"data": {"days": []}, "id": None}
