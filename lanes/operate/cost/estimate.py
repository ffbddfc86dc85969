"""
The lines of a bill, estimated from the use over a period, each with its source.

AWS counts invocations, seconds, write units, log bytes and empty polls. It does not count requests that carried
messages, and backlog checks; these are estimated from the counts of the consumer.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lanes.operate.cost.model import gb_seconds
from lanes.operate.cost.prices import Item
from lanes.operate.cost.usage import REQUEST_BYTES, UseLine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lanes.operate.cost.usage import LaneUse, SharedUse

WOKEN_AT_ONCE = 10
NOTED_UNITS, WOKEN_UNITS = 2.0, 3.0
"""
Write units of a yielded record: written together with its index entry, and woken in a transaction.

AWS: an item up to 1 KB is a unit, an index that it is in another one, a transaction counts twice (DynamoDB developer
guide, "Read and write operations").
"""
YIELD_LOG_BYTES = 220
"""Size of a record in the event of its batch, as measured on the log."""
HOURS_A_MONTH = 730.0
GIGABYTE = 1024**3


def use_of(
    lanes: Sequence[LaneUse], shared: SharedUse, *, hours: float, messages_a_send: float
) -> list[UseLine]:
    """Return the lines of a period, the lanes' first."""
    lines = [line for lane in lanes for line in _lane_lines(lane, lanes, shared, hours, messages_a_send)]
    return [*lines, *_shared_lines(shared, hours)]


def yields_of(lane: LaneUse, lanes: Sequence[LaneUse], shared: SharedUse) -> list[UseLine]:
    """Return the share of yields in the use of a lane; the other lines include it."""
    batches = lane.yielded_batches
    overhead = max(0.0, lane.batch_seconds - lane.handler_seconds) / lane.batches if lane.batches else 0.0
    all_yielded = sum(one.yielded for one in lanes)
    # The invocation that finds no backlog wakes the records, mostly those of another lane.
    woken = sum(one.woken for one in lanes) * (lane.yielded / all_yielded if all_yielded else 0.0)
    # With one slot the environment caches most parked records, so DynamoDB alone knows how many were written.
    most = NOTED_UNITS * lane.yielded + WOKEN_UNITS * woken
    units = None if shared.write_units is None else min(most, shared.write_units)

    def line(what: str, item: Item, amount: float | None, how: str) -> UseLine:
        return UseLine(lane=lane.lane, what=what, item=item, amount=amount, how=how, is_estimate=True)

    return [
        line(
            "receives after yields, parking and waking",
            Item.SQS_FIFO,
            batches * (lane.requests_a_batch + 1) + woken / WOKEN_AT_ONCE,
            "a receive and a visibility change for each batch that yields; one more for ten woken records",
        ),
        line("backlog checks", Item.SQS_OTHER, batches, "one for each batch that yields"),
        line("invocations", Item.INVOCATIONS, batches, "one for each batch that yields"),
        line(
            "time of these invocations",
            shared.compute,
            gb_seconds(batches * overhead, shared.memory_mb),
            "the time of an average invocation outside its handlers",
        ),
        line(
            "ledger",
            Item.WRITES,
            units,
            "2 units to write a record and 3 to wake it, at most the counted units",
        ),
        line(
            "log", Item.LOGS, lane.yielded * YIELD_LOG_BYTES / GIGABYTE, f"{YIELD_LOG_BYTES} bytes a record"
        ),
    ]


def _lane_lines(
    lane: LaneUse, lanes: Sequence[LaneUse], shared: SharedUse, hours: float, messages_a_send: float
) -> Iterator[UseLine]:
    yield from _queue_lines(lane, messages_a_send)
    yield from _function_lines(lane, lanes, shared)
    yield UseLine(
        lane=lane.lane,
        what="metrics of the consumer",
        item=Item.METRICS,
        amount=lane.metrics * hours / HOURS_A_MONTH,
        how=f"{lane.metrics} metrics, if they have data every hour",
        is_estimate=True,
    )


def _queue_lines(lane: LaneUse, messages_a_send: float) -> Iterator[UseLine]:
    def line(what: str, item: Item, amount: float | None, how: str, *, estimate: bool = True) -> UseLine:
        return UseLine(lane=lane.lane, what=what, item=item, amount=amount, how=how, is_estimate=estimate)

    received = lane.records if lane.received is None else lane.received
    sends = (
        None if lane.sent is None else lane.sent / messages_a_send * _requests_a_send(lane, messages_a_send)
    )
    others = (lane.returned + lane.failed) / lane.a_batch
    changes = lane.yielded_batches + others + lane.woken / WOKEN_AT_ONCE
    yield line("sends", Item.SQS_FIFO, sends, f"messages sent, {messages_a_send:g} a request")
    yield line(
        "receives",
        Item.SQS_FIFO,
        received / lane.a_batch * lane.requests_a_batch,
        f"messages received, {lane.a_batch:.1f} a request",
    )
    yield line(
        "polls of an empty queue", Item.SQS_FIFO, lane.empty_receives, "counted by SQS", estimate=False
    )
    yield line("deletions", Item.SQS_FIFO, lane.done_batches, "one for each batch with a handled message")
    yield line(
        "visibility changes",
        Item.SQS_FIFO,
        changes,
        "one for each batch that yields, returns or fails; one for ten woken records",
    )
    yield line("dead letters", Item.SQS_FIFO, lane.dead_lettered, "counted by the consumer", estimate=False)


def _requests_a_send(lane: LaneUse, messages_a_send: float) -> int:
    if not lane.sent or not lane.sent_bytes:
        return 1
    return max(1, math.ceil(lane.sent_bytes / lane.sent * messages_a_send / REQUEST_BYTES))


def _function_lines(lane: LaneUse, lanes: Sequence[LaneUse], shared: SharedUse) -> Iterator[UseLine]:
    all_batches, all_seconds = sum(one.batches for one in lanes), sum(one.batch_seconds for one in lanes)
    share = lane.batches / all_batches if all_batches else 0.0
    of_time = lane.batch_seconds / all_seconds if all_seconds else 0.0
    counted = shared.invocations is not None
    invocations = lane.batches if shared.invocations is None else shared.invocations * share
    taken = lane.batch_seconds if shared.seconds is None else shared.seconds * of_time
    how = "counted by Lambda, shared by the consumer's" if counted else "counted by the consumer, by its"
    yield UseLine(
        lane=lane.lane, what="invocations", item=Item.INVOCATIONS, amount=invocations, how=f"{how} batches"
    )
    yield UseLine(
        lane=lane.lane,
        what="time of the function",
        item=shared.compute,
        amount=gb_seconds(taken, shared.memory_mb),
        how=f"{how} time, at {shared.memory_mb} MB",
        is_estimate=not counted,
    )
    yield UseLine(
        lane=lane.lane,
        what="backlog checks",
        item=Item.SQS_OTHER,
        amount=_checks(lane, shared),
        how="one for each higher lane before a record that takes longer than the recheck interval, else once per "
        "interval; and one for each batch that yields",
        is_estimate=True,
    )


def _checks(lane: LaneUse, shared: SharedUse) -> float:
    long = bool(lane.handled) and lane.handler_seconds / lane.handled > shared.recheck_seconds
    between = lane.handled if long else min(lane.handled, lane.batch_seconds / shared.recheck_seconds)
    # A check ends at the first lane with a backlog, and a yield has found one.
    return between * lane.lanes_above + lane.yielded_batches


def _shared_lines(shared: SharedUse, hours: float) -> Iterator[UseLine]:
    def line(what: str, item: Item, amount: float | None, how: str) -> UseLine:
        return UseLine(lane="", what=what, item=item, amount=amount, how=how)

    def monthly(count: int | None) -> float | None:
        return None if count is None else count * hours / HOURS_A_MONTH

    gigabytes = None if shared.log_bytes is None else shared.log_bytes / GIGABYTE
    yield line("writes to the table", Item.WRITES, shared.write_units, "units counted by DynamoDB")
    yield line("reads from the table", Item.READS, shared.read_units, "units counted by DynamoDB")
    yield line("log", Item.LOGS, gigabytes, "bytes counted by CloudWatch Logs")
    yield line(
        "alarms", Item.ALARMS, monthly(shared.alarms), f"{shared.alarms} of the stack, with any traffic"
    )
    yield line("dashboard", Item.DASHBOARDS, monthly(shared.dashboards), f"{shared.dashboards} of the stack")
