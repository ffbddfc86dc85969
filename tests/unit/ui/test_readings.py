"""Readings that open tabs share: lanes, events and runs."""

import json
from datetime import timedelta
from types import SimpleNamespace

import pytest

from lanes import Consumer, Message
from lanes.config import EngineName
from lanes.errors import AwsError
from lanes.operate.figures import UNKNOWN, Drain
from lanes.operate.log import LogLine
from lanes.operate.status import Cached, LaneStatus, Status
from lanes.testing import InMemoryLanes
from lanes.testing.clock import FakeClock
from lanes.ui.readings import (
    CHUNKS_A_SECOND,
    FEED_INTERVAL,
    IDLE_LIMIT,
    LISTED,
    OVER_LASTS,
    RUNS_INTERVAL,
    SINCE,
    Feed,
    RunReadings,
    Watch,
)


@pytest.fixture
def clock():
    """Time that stands."""
    return FakeClock(1000.0)


def status(waiting):
    """Give a reading of one lane."""
    lane = LaneStatus(
        lane="MAIN",
        waiting=waiting,
        in_flight=2,
        parked=1,
        figures=UNKNOWN,
        blocked=(),
        drain=Drain.NOT_YET,
        growth=None,
        time_to_drain=None,
        mapping="Enabled",
        dead_letters=0,
    )
    return Status(
        at=0.0,
        figures_read=True,
        engine=EngineName.MAPPINGS,
        lanes=[lane],
        bell=None,
        notes=["note"],
        symptoms=[],
    )


def test_pages_that_ask_together_share_a_reading(clock):
    """The next one comes after its time."""
    readings = iter(range(10))
    watch = Watch(read=lambda: status(next(readings)), every=timedelta(seconds=2), clock=clock)

    looks = [watch.look(since=0), watch.look(since=0)]
    clock.now += 2
    looks.append(watch.look(since=0))

    assert [look.lanes[0].waiting for look in looks] == [0, 0, 1]
    assert [look.at for look in looks] == [1000, 1000, 1002]


def test_a_page_gets_the_samples_that_it_does_not_have(clock):
    """All of them if it was opened later."""
    readings = iter(range(10))
    watch = Watch(read=lambda: status(next(readings)), every=timedelta(seconds=2), clock=clock)
    for _ in range(3):
        watch.look(since=0)
        clock.now += 2

    assert [one.counts[0] for one in watch.look(since=2).samples] == [(2, 2, 1, 0), (3, 2, 1, 0)]
    assert [one.number for one in watch.look(since=0).samples] == [1, 2, 3, 4]


def test_a_reading_that_fails_leaves_the_samples(clock):
    """And the next page to ask tries again."""
    outcomes = iter([status(1), AwsError(operation="X", code="Y", retryable=True), status(2)])

    def read():
        outcome = next(outcomes)
        if isinstance(outcome, AwsError):
            raise outcome
        return outcome

    watch = Watch(read=read, every=timedelta(0), clock=clock)
    watch.look(since=0)
    with pytest.raises(AwsError):
        watch.look(since=0)

    assert [one.counts[0][0] for one in watch.look(since=0).samples] == [1, 2]


def test_what_is_kept_is_read_again_when_it_is_old_or_forgotten(clock):
    """An error is kept as long."""
    outcomes = iter([1, AwsError(operation="X", code="Y", retryable=True), 3, 4])
    reads = []

    def read():
        reads.append(clock.now)
        outcome = next(outcomes)
        if isinstance(outcome, AwsError):
            raise outcome
        return outcome

    kept = Cached(read, lasts=timedelta(seconds=30), clock=clock)
    assert [kept.get(), kept.get()] == [1, 1]
    clock.now += 30
    for _ in range(2):
        with pytest.raises(AwsError):
            kept.get()
    clock.now += 30
    assert kept.get() == 3
    kept.forget()
    assert kept.get() == 4
    assert reads == [1000, 1030, 1060, 1060]


class Log:
    """A log in memory that counts its readings."""

    def __init__(self):
        self.written = []
        self.readings = []

    def add(self, at, name):
        """Write an event."""
        event = {"event": name, "lane": "MAIN", "to_lane": "HIGH", "message_ids": [f"m{at}"]}
        self.written.append(LogLine(id=f"{at}", at=at, text=json.dumps(event)))

    def lines(self, *, since, until=None, containing=()):
        self.readings.append((since, containing))
        return [
            line
            for line in self.written
            if line.at >= since and any(text in line.text for text in containing)
        ]


def test_a_feed_follows_the_log_once_for_all_pages(clock):
    """Those who come later get what was found before; a choice is asked for at its source."""
    log = Log()
    log.add(990.0, "batch_yielded")
    log.add(991.0, "message_handled")
    feed = Feed(log, "yields", clock=clock)

    first, again = feed.events(since=0), feed.events(since=0)
    log.add(1001.0, "batch_yielded")
    clock.now += FEED_INTERVAL.total_seconds()
    later = feed.events(since=first[-1].number)

    assert [(one.number, one.at, one.what, one.to_lane, one.count) for one in first] == [
        (1, 990.0, "yielded", "HIGH", 1)
    ]
    assert again == first
    assert [one.at for one in later] == [1001.0]
    assert [containing for _, containing in log.readings] == [("batch_yielded", "tenant_yielded")] * 2


def test_a_feed_that_nobody_asked_for_begins_anew(clock):
    """Numbers go on, and a line's id tells a page that it has the event."""
    log = Log()
    log.add(990.0, "batch_yielded")
    feed = Feed(log, "yields", clock=clock)
    (before,) = feed.events(since=0)

    clock.now += IDLE_LIMIT.total_seconds() + 1

    (again,) = feed.events(since=1)
    assert (before.number, again.number, again.id) == (1, 2, before.id)


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
