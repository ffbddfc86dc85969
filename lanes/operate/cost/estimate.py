"""
The lines of a bill, estimated from the use over a period, each with its source.

AWS counts invocations, seconds, write units, log bytes and empty polls. It does not count requests that carried
messages, and backlog checks; these are estimated from the counts of the consumer.

In the mapped engine each batch is an invocation of its lane. In the pull engine an invocation serves all lanes: a lane
pays for its own batches, and the rest of the function's time, which slots spend looking for work, is shared.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lanes.bell import HEARTBEAT_EVERY
from lanes.operate.cost.model import gb_seconds
from lanes.operate.cost.prices import Item
from lanes.operate.cost.usage import REQUEST_BYTES, UseLine

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lanes.operate.cost.usage import BellUse, LaneUse, SharedUse

# A change of visibility takes ten entries (API_ChangeMessageVisibilityBatch).
WOKEN_AT_ONCE = 10
NOTED_UNITS, WOKEN_UNITS = 2.0, 3.0
"""
Write units of a yielded record: written together with its index entry, and woken in a transaction.

AWS: an item up to 1 KB is a unit, an index that it is in another one, a transaction counts twice (DynamoDB developer
guide, "Read and write operations").
"""
YIELD_LOG_BYTES = 220
"""Size of a record in the event of its batch, as measured on the log."""
# AWS: prices by the month are of 730 hours, a twelfth of a year (AWS Pricing Calculator).
HOURS_A_MONTH = 730.0
GIGABYTE = 1024**3
RINGS_A_CALL = 10
"""Entries of a batch call (API_SendMessageBatch)."""


def use_of(
    lanes: Sequence[LaneUse], shared: SharedUse, *, hours: float, messages_a_send: float
) -> list[UseLine]:
    """Return the lines of a period, the lanes' first."""
    lines = [line for lane in lanes for line in _lane_lines(lane, lanes, shared, hours, messages_a_send)]
    looking = [] if shared.bell is None else [_looking(lanes, shared)]
    return [*lines, *looking, *_shared_lines(shared, hours)]


def yields_of(lane: LaneUse, lanes: Sequence[LaneUse], shared: SharedUse) -> list[UseLine]:
    """Return the share of yields in the use of a lane; the other lines include it."""
    batches = lane.yielded_batches
    overhead = max(0.0, lane.batch_seconds - lane.handler_seconds) / lane.batches if lane.batches else 0.0
    all_yielded = sum(one.yielded for one in lanes)
    # The invocation that finds no backlog wakes the records, mostly those of another lane.
    woken = sum(one.woken for one in lanes) * (lane.yielded / all_yielded if all_yielded else 0.0)
    # With one slot the environment caches most parked records, so DynamoDB alone knows how many were written.
    most = NOTED_UNITS * lane.yielded + WOKEN_UNITS * woken
    # An estimate above the counted units would be wrong for certain.
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
        line(
            "time of these batches",
            shared.compute,
            gb_seconds(batches * overhead, shared.memory_mb),
            "the time of an average batch outside its handlers",
        ),
        *(
            [
                line("backlog checks", Item.SQS_OTHER, batches, "one for each batch that yields"),
                line("invocations", Item.INVOCATIONS, batches, "one for each batch that yields"),
            ]
            if shared.bell is None
            else []
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
    yield from _queue_lines(lane, messages_a_send, pulls=shared.bell is not None)
    if shared.bell is None:
        yield from _function_lines(lane, lanes, shared)
    else:
        yield UseLine(
            lane=lane.lane,
            what="time of its batches",
            item=shared.compute,
            amount=gb_seconds(lane.batch_seconds, shared.memory_mb),
            how=f"counted by the consumer, at {shared.memory_mb} MB",
            is_estimate=True,
        )
    yield UseLine(
        lane=lane.lane,
        what="metrics of the consumer",
        item=Item.METRICS,
        amount=lane.metrics * hours / HOURS_A_MONTH,
        how=f"{lane.metrics} metrics, if they have data every hour",
        is_estimate=True,
    )


def _queue_lines(lane: LaneUse, messages_a_send: float, *, pulls: bool) -> Iterator[UseLine]:
    def line(what: str, item: Item, amount: float | None, how: str, *, estimate: bool = True) -> UseLine:
        return UseLine(lane=lane.lane, what=what, item=item, amount=amount, how=how, is_estimate=estimate)

    # SQS counts receives of throttled batches too, which the consumer never sees.
    received = lane.records if lane.received is None else lane.received
    sends = (
        None if lane.sent is None else lane.sent / messages_a_send * _requests_a_send(lane, messages_a_send)
    )
    others = (lane.returned + lane.failed) / lane.a_batch
    # A mapped batch is hidden for its invocation's time; `done_batches` is 0 in the pull engine.
    changes = lane.done_batches + lane.yielded_batches + others + lane.woken / WOKEN_AT_ONCE
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
    if pulls:
        yield line("deletions", Item.SQS_FIFO, lane.batches, "one for each batch")
    else:
        yield line("deletions", Item.SQS_FIFO, lane.done_batches, "one for each batch with a handled message")
    yield line(
        "visibility changes",
        Item.SQS_FIFO,
        changes,
        "one for each batch that is handled by mappings, yields, returns or fails; one for ten woken records",
    )
    yield line("dead letters", Item.SQS_FIFO, lane.dead_lettered, "counted by the consumer", estimate=False)


def _requests_a_send(lane: LaneUse, messages_a_send: float) -> int:
    if not lane.sent or not lane.sent_bytes:
        return 1
    # AWS: a batch is charged by its size together, not by the size of each message (Amazon SQS pricing).
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


def _looking(lanes: Sequence[LaneUse], shared: SharedUse) -> UseLine:
    """Return the time that slots spend outside batches: they look for messages, and wait before they leave."""
    seconds = None
    if shared.seconds is not None:
        seconds = max(0.0, shared.seconds - sum(lane.batch_seconds for lane in lanes))
    return UseLine(
        lane="",
        what="time outside batches",
        item=shared.compute,
        amount=None if seconds is None else gb_seconds(seconds, shared.memory_mb),
        how="counted by Lambda, less that of all batches: slots look for messages, and linger",
    )


def _bell_lines(bell: BellUse, hours: float) -> Iterator[UseLine]:
    def line(what: str, amount: float | None, how: str, *, estimate: bool = True) -> UseLine:
        return UseLine(lane="", what=what, item=Item.SQS_FIFO, amount=amount, how=how, is_estimate=estimate)

    heartbeats = hours * 3600 / HEARTBEAT_EVERY
    # A ring is for all slots, so its calls are full but for the last.
    at_once = min(bell.slots, RINGS_A_CALL)
    yield line(
        "rings",
        None if bell.sent is None else bell.sent / at_once,
        f"rings that the bell accepted, {at_once} a request; repeats within a second are not counted",
    )
    yield line("heartbeats", heartbeats, "one a minute from the schedule")
    yield line("receives of the bell", bell.received, "rings received, one a request")
    yield line("polls of an empty bell", bell.empty_receives, "counted by SQS", estimate=False)
    yield line("answers to rings", bell.received, "a deletion or a return for each ring received")


def _shared_lines(shared: SharedUse, hours: float) -> Iterator[UseLine]:
    def line(what: str, item: Item, amount: float | None, how: str) -> UseLine:
        return UseLine(lane="", what=what, item=item, amount=amount, how=how)

    def monthly(count: int | None) -> float | None:
        return None if count is None else count * hours / HOURS_A_MONTH

    if shared.bell is not None:
        yield from _bell_lines(shared.bell, hours)
        yield line("invocations", Item.INVOCATIONS, shared.invocations, "counted by Lambda")
    gigabytes = None if shared.log_bytes is None else shared.log_bytes / GIGABYTE
    yield line("writes to the table", Item.WRITES, shared.write_units, "units counted by DynamoDB")
    yield line("reads from the table", Item.READS, shared.read_units, "units counted by DynamoDB")
    yield line("log", Item.LOGS, gigabytes, "bytes counted by CloudWatch Logs")
    yield line(
        "alarms", Item.ALARMS, monthly(shared.alarms), f"{shared.alarms} of the stack, with any traffic"
    )
    yield line("dashboard", Item.DASHBOARDS, monthly(shared.dashboards), f"{shared.dashboards} of the stack")
    zones = shared.endpoint_zones
    yield line(
        "endpoints of bulk jobs",
        Item.ENDPOINTS,
        None if zones is None else zones * hours,
        f"{zones} times an endpoint in a zone, whether jobs run or not",
    )
