"""
The plain pattern, to compare with: the first published description of priority queues on Lambda.

It reads the higher queues before each record, counts messages in any state, leaves the visibility timeout alone
(SQS's default), takes records one by one, and has no dead-letter queue. Where it has several slots, it yields to a
queue if one of its two counts exceeds them. Added here: the maximum concurrency of our mappings, without which most
of its calls are throttled, and larger batches, of which it returns everything from the first record that yields, as
SQS asks for (Lambda developer guide, "Implementing partial batch responses").
"""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lanes.config import EngineName, LanesConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.consumer.engines.check import DepthReader

VISIBILITY = timedelta(seconds=30)
"""Of its queues: that of SQS by default, for which a yielded record is away."""


def as_published(config: LanesConfig, *, batch: int = 1) -> LanesConfig:
    """Return the lanes with the pattern's own queues and mappings."""
    lanes = [
        dataclasses.replace(lane, batch_size=batch, visibility_timeout=VISIBILITY)
        for lane in without_shares(config).lanes
    ]
    return dataclasses.replace(config, lanes=tuple(lanes))


def without_shares(config: LanesConfig) -> LanesConfig:
    """Return the lanes with the defaults of mappings that share no slots, each with a whole batch."""
    if not config.serves_in_place:
        return config
    document = config.to_dict(brief=True)
    document["consumer"]["engine"] = EngineName.PULL.value
    return dataclasses.replace(LanesConfig.from_dict(document), consumer=config.consumer)


class PlainConsumer:
    """
    Check and yield like the plain pattern.

    Args:
        config: the lanes.
        depths: reads the queues.
        lane_of: returns the lane's name for the ARN of its queue.
        work: handles one record: lane, group, body.
        yields: False never reads the other queues: no priority at all.
        count_yields: called with the lane and its number of yielded records.

    """

    def __init__(
        self,
        *,
        config: LanesConfig,
        depths: DepthReader,
        lane_of: Callable[[str], str],
        work: Callable[[str, str, str], None],
        yields: bool,
        count_yields: Callable[[str, int], None] = lambda _lane, _count: None,
    ) -> None:
        self._config = config
        self._depths = depths
        self._lane_of = lane_of
        self._work = work
        self._yields = yields
        self._count_yields = count_yields

    def handle(self, event: Mapping[str, Any], context: object) -> dict[str, Any]:  # noqa: ARG002
        """Handle a batch up to the first record that yields or fails."""
        records = event["Records"]
        lane = self._config.lane(self._lane_of(records[0]["eventSourceARN"]))
        for position, record in enumerate(records):
            if self._yields and self._must_yield(lane.name):
                self._count_yields(lane.name, len(records) - position)
                return _kept(records[position:])
            try:
                self._work(lane.name, record["attributes"]["MessageGroupId"], record["body"])
            except Exception:  # noqa: BLE001 - like the pattern: any failure is returned
                return _kept(records[position:])
        return _kept([])

    def _must_yield(self, lane: str) -> bool:
        slots = self._config.consumer.reserved_concurrency
        most = slots if slots > 1 else 0
        above = (self._depths.depth(one.name) for one in self._config.lanes_above(self._config.lane(lane)))
        return any(depth.backlog > most or depth.in_flight > most for depth in above)


def _kept(records: list[Mapping[str, Any]]) -> dict[str, Any]:
    return {"batchItemFailures": [{"itemIdentifier": record["messageId"]} for record in records]}
