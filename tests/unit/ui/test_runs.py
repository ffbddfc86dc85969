"""Runs of the page: what is read again, and when."""

from datetime import timedelta
from types import SimpleNamespace

import pytest

from lanes import Consumer, Message
from lanes.testing import InMemoryLanes
from lanes.ui.readings import CHUNKS_A_SECOND, LISTED, OVER_LASTS, RUNS_INTERVAL, SINCE, RunReadings


@pytest.fixture
def page():
    """Readings of runs in memory; `page.chunks` has the chunks of each reading."""
    consumer = Consumer()
    consumer.handler("statement")(lambda _message: None)
    lanes = InMemoryLanes(consumer)
    table, read = lanes._stack.runs, []

    def chunks(mark, indexes):
        read.extend((mark.name, index) for index in indexes)
        return type(table).chunks(table, mark, indexes)

    table.chunks = chunks
    session = SimpleNamespace(operations=SimpleNamespace(runs=table))

    def send(name, count, expected=None):
        with lanes.producer.run(name, expected=expected or count) as run:
            run.send_many(Message(kind="statement", data=n, id=f"s-{n}") for n in range(count))

    return SimpleNamespace(runs=RunReadings(session, clock=lanes.clock), lanes=lanes, send=send, chunks=read)


def test_tabs_share_a_reading_for_its_time(page):
    """Whatever their number."""
    page.send("nov", 3)

    for _ in range(3):
        assert [row["run"] for row in page.runs.read()] == ["nov"]
    assert len(page.chunks) == 1

    page.lanes.clock.advance(timedelta(seconds=RUNS_INTERVAL))
    page.runs.read()
    assert len(page.chunks) == 2


def test_a_large_run_is_read_at_a_bounded_rate(page):
    """A run of a thousand chunks no more often than every ten seconds."""
    page.send("large", 3, expected=40_000)
    page.runs.read()
    seconds = 600
    for _ in range(seconds):
        page.lanes.clock.advance(timedelta(seconds=1))
        page.runs.read()

    assert seconds * CHUNKS_A_SECOND * 0.9 <= len(page.chunks) <= (seconds + 10) * CHUNKS_A_SECOND


def test_a_run_that_is_over_keeps_its_rate_and_is_read_once_a_minute(page):
    """Its rate is that of its whole time."""
    page.send("nov", 30)
    page.runs.read()
    page.lanes.run_until_idle()
    (ended,) = page.runs.read()
    assert (ended["state"], ended["done"], ended["left"], ended["eta"]) == ("ended", 30, 0, None)
    assert ended["rate"] == pytest.approx(30 / (ended["over_at"] - ended["opened_at"]), rel=0.01)

    page.chunks.clear()
    page.lanes.clock.advance(timedelta(seconds=OVER_LASTS - 1))
    assert page.runs.read() == [ended]
    assert page.chunks == []
    page.lanes.clock.advance(timedelta(seconds=1))
    assert page.runs.read() == [ended]
    assert page.chunks != []


def test_a_run_that_goes_on_has_a_rate_and_a_time_left(page):
    """From its first reading on."""
    page.send("nov", 200)
    page.lanes.run_until(lambda: len(page.lanes.journal.handled) >= 50)

    (row,) = page.runs.read()

    assert row["rate"] > 0
    assert row["eta"] == pytest.approx(row["left"] / row["rate"], abs=1)
    assert row["over_at"] is None


def test_only_the_latest_of_the_last_days_are_read(page):
    """Each reading of a run costs calls."""
    page.send("old", 1)
    page.lanes.clock.advance(timedelta(seconds=SINCE + 1))
    for number in range(LISTED + 5):
        page.send(f"run-{number}", 1)
        page.lanes.clock.advance(timedelta(seconds=1))

    names = [row["run"] for row in page.runs.read()]

    assert names == [f"run-{number}" for number in range(LISTED + 4, 4, -1)]


def test_an_id_used_again_after_its_time_is_another_run(page):
    """A name is free again after 45 days; its reading does not stay."""
    page.send("nov", 1)
    page.runs.read()
    page.lanes.run_until_idle()
    heads = page.lanes._stack.runs._heads
    heads.clear()
    page.lanes._stack.runs._chunks.clear()
    page.lanes.clock.advance(timedelta(days=1))
    page.send("nov", 2)

    assert page.runs.read()[0]["total"] == 2
