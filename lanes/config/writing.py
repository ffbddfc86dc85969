"""Settings as JSON-able data, complete or without the values that reading fills in by itself."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lanes.config.consumer_table import PULL_KEYS, read_consumer
from lanes.config.lane_tables import read_lanes
from lanes.config.settings import EngineName

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lanes.config.settings import ConsumerSettings, Lane, OutboxSettings, Schedule

# The defaults of other keys follow from these, so they are always written.
DECIDING_CONSUMER_KEYS = ("reserved_concurrency", "function_timeout")
DECIDING_LANE_KEYS = ("name", "threshold", "max_wait")


def plain(
    settings: Lane | ConsumerSettings | OutboxSettings | Schedule, *, without: Collection[str] = ()
) -> dict[str, Any]:
    """
    Return the settings of a record by their keys, durations in seconds, without those that are not set.

    Args:
        settings: the record.
        without: keys to leave out.
    """
    omitted = {"position", *without}
    values = {key: getattr(settings, key) for key in settings.__slots__ if key not in omitted}
    return {key: _plain_value(value) for key, value in values.items() if value is not None}


def without_effect(consumer: ConsumerSettings) -> tuple[str, ...]:
    """Return the keys of consumer and lanes that reading refuses for this engine and this policy."""
    pull_keys = () if consumer.engine is EngineName.PULL else (*PULL_KEYS, "tenant_share")
    return pull_keys if consumer.is_weighted else (*pull_keys, "weight")


def without_defaults(
    consumer: dict[str, Any], lanes: list[dict[str, Any]], settings: ConsumerSettings
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """
    Leave out each value that reading the deciding keys alone would give.

    Args:
        consumer: all settings of the consumer.
        lanes: all settings of each lane.
        settings: the consumer's, on which defaults of the lanes depend.
    """
    deciding = {key: consumer[key] for key in DECIDING_CONSUMER_KEYS}
    # By reading, not from the records' defaults: some follow from other keys, and reading is where that is decided.
    defaults = plain(read_consumer(deciding, []))
    bare: list[Mapping[str, Any]] = [
        {key: lane[key] for key in DECIDING_LANE_KEYS if key in lane} for lane in lanes
    ]
    lane_defaults = [plain(lane) for lane in read_lanes(bare, settings, [])]
    return (
        deciding | {key: value for key, value in consumer.items() if value != defaults.get(key)},
        [
            {**kept, **{key: value for key, value in lane.items() if value != default.get(key)}}
            for lane, kept, default in zip(lanes, bare, lane_defaults, strict=True)
        ],
    )


def _plain_value(value: object) -> object:
    if not isinstance(value, timedelta):
        return value
    seconds = value.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds
