"""The bill of lanes, in examples worked out by hand."""

import dataclasses
from datetime import timedelta

import pytest

from lanes.operate.cost.bill import bill_of
from lanes.operate.cost.estimate import use_of, yields_of
from lanes.operate.cost.prices import Item, read_prices
from lanes.operate.cost.usage import BellUse, LaneUse, SharedUse

HOUR = timedelta(hours=1)
SHARED = SharedUse(
    memory_mb=512,
    is_arm=True,
    recheck_seconds=0.25,
    invocations=1_000,
    seconds=200.0,
    write_units=600,
    read_units=80,
    log_bytes=1024**3 / 100,
    alarms=11,
    dashboards=1,
    endpoint_zones=2,
)
# 10,000 messages of 10 ms in full batches of ten; nothing above was ever waiting.
MAIN = LaneUse(
    lane="MAIN",
    lanes_above=2,
    batch_size=10,
    sent=10_000,
    sent_bytes=10_000 * 1_000,
    received=10_000,
    empty_receives=900,
    records=10_000,
    handled=10_000,
    batches=1_000,
    done_batches=1_000,
    batch_seconds=110.0,
    handler_seconds=100.0,
    metrics=8,
)


def amounts(lines):
    return {line.what: line.amount for line in lines}


def test_each_line_of_a_lane_without_yields():
    """Requests by batches, looks by time, Lambda's own counts, a part of a month for metrics."""
    lines = use_of([MAIN], SHARED, hours=1, messages_a_send=1)

    assert amounts(lines) == pytest.approx(
        {
            "sends": 10_000,
            "receives": 1_000,
            "polls of an empty queue": 900,
            "deletions": 1_000,
            "visibility changes": 1_000,
            "dead letters": 0,
            "invocations": 1_000,
            "time of the function": 100.0,  # 200 s at half a gigabyte
            "backlog checks": 880,  # 110 s / 0.25 s, of two lanes
            "metrics of the consumer": 8 / 730,
            "writes to the table": 600,
            "reads from the table": 80,
            "log": 0.01,
            "alarms": 11 / 730,
            "dashboard": 1 / 730,
            "endpoints of bulk jobs": 2,
        }
    )
    assert {line.what for line in lines if not line.is_estimate} == {
        "polls of an empty queue", "dead letters", "invocations", "time of the function", "writes to the table",
        "reads from the table", "log", "alarms", "dashboard", "endpoints of bulk jobs",
    }  # fmt: skip


def test_a_day_and_a_million_messages():
    """24 times the hour; all dollars over all messages."""
    bill = bill_of([MAIN], SHARED, read_prices(), window=HOUR)
    requests = (10_000 + 1_000 + 900 + 1_000 + 1_000) * 0.50 / 1e6
    looks = 880 * 0.40 / 1e6
    function = 1_000 * 0.20 / 1e6 + 100 * 13.3334 / 1e6
    metrics = 8 / 730 * 0.30
    table = 600 * 0.625 / 1e6 + 80 * 0.125 / 1e6
    rest = 0.01 * 0.50 + 11 / 730 * 0.10 + 3.00 / 730 + 2 * 0.01
    lane = requests + looks + function + metrics

    assert bill.messages == 240_000
    assert bill.dollars == pytest.approx(24 * (lane + table + rest))
    assert bill.a_million == pytest.approx((lane + table + rest) / 10_000 * 1e6)
    assert bill.lanes[0].dollars == pytest.approx(24 * lane)
    assert bill.lanes[0].a_million == pytest.approx(lane / 10_000 * 1e6)
    assert bill.unknown == []


def test_long_records_are_looked_up_for_one_by_one():
    """A handler of 500 ms outlasts the recheck interval: each record has a look of its own."""
    long = dataclasses.replace(MAIN, handled=100, handler_seconds=50.0, batch_seconds=51.0)

    assert amounts(use_of([long], SHARED, hours=1, messages_a_send=1))["backlog checks"] == 200


def test_large_messages_count_as_several_requests():
    """Ten of 100 KB are a million bytes, sixteen times 64 KB; sent alone, each is two."""
    large = dataclasses.replace(MAIN, sent_bytes=10_000 * 100 * 1024)

    lines = amounts(use_of([large], SHARED, hours=1, messages_a_send=1))

    assert (lines["receives"], lines["sends"]) == (16_000, 20_000)


def test_producers_that_send_batches_make_fewer_requests():
    """What nobody counts has to be told."""
    lines = amounts(use_of([MAIN], SHARED, hours=1, messages_a_send=10))

    assert lines["sends"] == 1_000


def test_lambdas_counts_are_shared_by_the_lanes_parts():
    """By their batches and by their time, which the consumer knows apart."""
    high = dataclasses.replace(MAIN, lane="HIGH", lanes_above=0, batches=250, batch_seconds=10.0)
    low = dataclasses.replace(MAIN, batches=750, batch_seconds=90.0)

    bill = {
        (line.lane, line.what): line.amount
        for line in use_of([high, low], SHARED, hours=1, messages_a_send=1)
    }

    assert (bill["HIGH", "invocations"], bill["MAIN", "invocations"]) == (250, 750)
    assert bill["HIGH", "time of the function"] == pytest.approx(10.0)
    assert bill["MAIN", "time of the function"] == pytest.approx(90.0)
    assert bill["HIGH", "backlog checks"] == 0


def test_what_yields_add():
    """1,000 records in batches of ten that made way and were woken: the README's fifty write units for ten."""
    yielding = dataclasses.replace(
        MAIN,
        yielded=1_000,
        yielded_batches=100,
        woken=1_000,
        records=11_000,
        batches=1_100,
        batch_seconds=111.0,
    )
    shared = dataclasses.replace(SHARED, write_units=9_000)

    added = {line.item: 0.0 for line in yields_of(yielding, [yielding], shared)}
    for line in yields_of(yielding, [yielding], shared):
        added[line.item] += line.amount

    assert added == pytest.approx(
        {
            Item.SQS_FIFO: 100 * 2 + 100,
            Item.SQS_OTHER: 100,
            Item.INVOCATIONS: 100,
            Item.COMPUTE_ARM: 100 * 0.01 * 0.5,  # 11 s beside the handlers in 1,100 batches
            Item.WRITES: 5_000,
            Item.LOGS: 220_000 / 1024**3,
        }
    )


def test_yields_add_no_more_write_units_than_were_counted():
    """With one slot most yields are remembered by the environment and not written."""
    yielding = dataclasses.replace(MAIN, yielded=1_000, yielded_batches=100, woken=1_000)
    unknown = dataclasses.replace(SHARED, write_units=None)

    written = [line.amount for line in yields_of(yielding, [yielding], SHARED) if line.item is Item.WRITES]
    not_known = [line.amount for line in yields_of(yielding, [yielding], unknown) if line.item is Item.WRITES]

    assert (written, not_known) == ([600], [None])


def test_waking_is_part_of_the_yields_that_are_woken():
    """Mostly an invocation of a higher lane wakes, and yields nothing itself."""
    high = dataclasses.replace(MAIN, lane="HIGH", lanes_above=0, woken=900)
    main = dataclasses.replace(MAIN, yielded=1_000, yielded_batches=100, woken=100)

    requests = [yields_of(lane, [high, main], SHARED)[0].amount for lane in (high, main)]

    assert requests == [0, 100 * 2 + 100]


def test_yields_failures_and_returns_change_visibility():
    """One call for a batch of them, one for ten that are woken, beside the one of each handled batch."""
    busy = dataclasses.replace(
        MAIN,
        yielded=100,
        yielded_batches=10,
        returned=50,
        failed=50,
        woken=30,
        dead_lettered=4,
        records=10_000,
    )

    lines = amounts(use_of([busy], SHARED, hours=1, messages_a_send=1))

    assert (lines["visibility changes"], lines["dead letters"]) == (1_023, 4)
    assert lines["backlog checks"] == 880 + 10


def test_what_cloudwatch_does_not_know_is_unknown_and_not_nothing():
    """It is in no sum, and named; what the consumer counts stands in where it can."""
    lane = dataclasses.replace(MAIN, sent=None, sent_bytes=None, received=None, empty_receives=None)
    shared = SharedUse(memory_mb=512, is_arm=False, recheck_seconds=0.25)

    bill = bill_of([lane], shared, read_prices(), window=HOUR)

    assert bill.unknown == [
        "sends", "polls of an empty queue", "writes to the table", "reads from the table", "log", "alarms",
        "dashboard", "endpoints of bulk jobs",
    ]  # fmt: skip
    by_name = {line.use.what: line for line in bill.lines}
    assert by_name["receives"].amount == 24_000
    assert by_name["invocations"].amount == 24_000
    assert by_name["time of the function"].use.item is Item.COMPUTE_X86
    assert by_name["time of the function"].amount == pytest.approx(24 * 55)
    assert (by_name["log"].amount, by_name["log"].dollars) == (None, None)


def test_an_idle_lane_costs_its_polls():
    """And there is no price of a million messages where there were none."""
    idle = LaneUse(lane="HIGH", lanes_above=0, batch_size=10, empty_receives=900)

    bill = bill_of([idle], SHARED, read_prices(), window=HOUR)

    assert bill.lanes[0].dollars == pytest.approx(24 * 900 * 0.50 / 1e6)
    assert (bill.lanes[0].a_million, bill.a_million) == (None, None)


def test_the_readmes_table_comes_out():
    """A million messages of 10 ms, full batches, no yields: the 34 cents that the README has."""
    million = dataclasses.replace(
        MAIN, sent=1e6, sent_bytes=1e9, received=1e6, empty_receives=0, records=1e6, handled=1e6, batches=1e5,
        done_batches=1e5, batch_seconds=12_000.0, handler_seconds=10_000.0, metrics=0,
    )  # fmt: skip
    shared = dataclasses.replace(
        SHARED,
        invocations=1e5,
        seconds=12_000.0,
        write_units=0,
        read_units=0,
        log_bytes=0,
        alarms=0,
        dashboards=0,
        endpoint_zones=0,
    )

    bill = bill_of([million], shared, read_prices(), window=timedelta(days=1), messages_a_send=10)

    assert bill.dollars == pytest.approx(0.34, abs=0.01)


PULLED = dataclasses.replace(
    SHARED, seconds=500.0, bell=BellUse(slots=3, sent=3_600, received=3_780, empty_receives=700)
)


def test_each_line_of_the_pull_engine():
    """A lane pays for its batches; rings, heartbeats and the slots' search for work are shared."""
    lane = dataclasses.replace(MAIN, empty_receives=4_000, done_batches=0)

    lines = use_of([lane], PULLED, hours=1, messages_a_send=1)

    assert amounts(lines) == pytest.approx(
        {
            "sends": 10_000,
            "receives": 1_000,
            "polls of an empty queue": 4_000,
            "deletions": 1_000,
            "visibility changes": 0,
            "dead letters": 0,
            "time of its batches": 55.0,  # 110 s at half a gigabyte
            "metrics of the consumer": 8 / 730,
            "time outside batches": 195.0,
            "rings": 1_200,
            "heartbeats": 60,
            "receives of the bell": 3_780,
            "polls of an empty bell": 700,
            "answers to rings": 3_780,
            "invocations": 1_000,
            "writes to the table": 600,
            "reads from the table": 80,
            "log": 0.01,
            "alarms": 11 / 730,
            "dashboard": 1 / 730,
            "endpoints of bulk jobs": 2,
        }
    )
    assert {line.lane for line in lines if line.what in ("invocations", "rings", "time outside batches")} == {
        ""
    }


def test_yields_of_the_pull_engine_start_no_invocations():
    """Only a handler at a checkpoint yields there, and its slot goes on."""
    yielding = dataclasses.replace(MAIN, yielded=10, yielded_batches=10)

    assert "invocations" in amounts(yields_of(yielding, [yielding], SHARED))
    assert not {"invocations", "backlog checks"} & amounts(yields_of(yielding, [yielding], PULLED)).keys()


def test_an_idle_pull_engine_costs_its_heartbeats():
    """Three invocations a minute, in which slots look for messages."""
    idle = LaneUse(lane="HIGH", lanes_above=0, batch_size=10, empty_receives=540)
    shared = dataclasses.replace(PULLED, invocations=180, seconds=230.0)

    bill = bill_of([idle], shared, read_prices(), window=HOUR)

    by_name = {line.use.what: line.amount for line in bill.lines}
    assert by_name["time outside batches"] == pytest.approx(24 * 115)
    assert by_name["invocations"] == 24 * 180
