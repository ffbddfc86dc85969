"""
The emulated event source mapping of a table's stream: reads each shard, invokes the deployed function.

`local.model.stream_mapping` decides about batches; this module has the thread and the calls.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from .event_source_mapping import Invocable
from .model.stream_mapping import (
    POLL_EVERY,
    StreamMappingSettings,
    failure_note,
    passes,
    retry_wait,
    stream_event,
)
from .repeated import Repeated

_logger = logging.getLogger(__name__)
# AWS: GetRecords answers with up to 1,000 records (API reference of DynamoDB Streams).
_MOST_READ = 1000

NoteSink = Callable[[str, str], None]


class StreamMappingEmulator(Repeated[StreamMappingSettings]):
    """
    One deployed mapping of a stream, running from the stream's beginning.

    Args:
        settings: as deployed.
        streams: client of DynamoDB Streams.
        function: of the mapping.
        write_note: gets the ARN of a failure destination and the note for it.
    """

    def __init__(
        self,
        settings: StreamMappingSettings,
        *,
        streams: Any,
        function: Invocable,
        write_note: NoteSink,
    ) -> None:
        super().__init__(settings, name=f"stream of {settings.table_name}")
        self._streams = streams
        self._function = function
        self._write_note = write_note
        self._iterators: dict[str, str] = {}
        self.invokes = 0
        self.given_up = 0

    def pause(self) -> float:
        """Return the seconds between two polls."""
        return POLL_EVERY.total_seconds()

    def once(self) -> None:
        """Read every shard, if the mapping is enabled."""
        if not self._settings.enabled:
            return
        try:
            for shard in self._shards():
                self._read(shard)
        except (ClientError, BotoCoreError) as error:
            if not self._stopped.is_set():
                _logger.warning("reading the stream of %s failed: %s", self._settings.table_name, error)
        except Exception:
            # The border of a thread.
            if not self._stopped.is_set():
                _logger.exception(
                    "a batch of the stream of %s failed in the emulator", self._settings.table_name
                )

    def _shards(self) -> list[str]:
        if not self._iterators:
            described = self._streams.describe_stream(StreamArn=self._settings.stream_arn)
            for shard in described["StreamDescription"]["Shards"]:
                answer = self._streams.get_shard_iterator(
                    StreamArn=self._settings.stream_arn,
                    ShardId=shard["ShardId"],
                    ShardIteratorType="TRIM_HORIZON",
                )
                self._iterators[shard["ShardId"]] = answer["ShardIterator"]
        return list(self._iterators)

    def _read(self, shard: str) -> None:
        answer = self._streams.get_records(ShardIterator=self._iterators[shard], Limit=_MOST_READ)
        records = [record for record in answer["Records"] if passes(record, self._settings.patterns)]
        size = self._settings.batch_size
        for start in range(0, len(records), size):
            self._send(shard, records[start : start + size])
        self._iterators[shard] = answer["NextShardIterator"]

    def _send(self, shard: str, records: Sequence[Mapping[str, Any]]) -> None:
        """Invoke until the function takes the batch or it is given up."""
        tries = 0
        while not self._stopped.is_set():
            invocation = self._function.invoke(stream_event(records, self._settings))
            if not invocation.throttled:
                self.invokes += 1
                tries += 1
            if not invocation.throttled and invocation.function_error is None:
                return
            # AWS: a throttle is tried again like a failure, and is none (it counts as no retry here).
            wait = retry_wait(max(tries, 1), age=_age(records), settings=self._settings)
            if wait is None:
                self._give_up(shard, records, tries)
                return
            self._stopped.wait(wait.total_seconds())

    def _give_up(self, shard: str, records: Sequence[Mapping[str, Any]], tries: int) -> None:
        self.given_up += 1
        destination = self._settings.failure_destination
        if destination is not None:
            note = failure_note(records, tries=tries, shard=shard, settings=self._settings)
            self._write_note(destination, note)


def _age(records: Sequence[Mapping[str, Any]]) -> timedelta:
    created = min(record["dynamodb"]["ApproximateCreationDateTime"] for record in records)
    moment = created if isinstance(created, datetime) else datetime.fromtimestamp(created, UTC)
    return datetime.now(UTC) - moment
