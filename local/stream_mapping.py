"""
The event source mapping of a table's stream: its rules, and a thread that reads each shard and invokes the function.

The rules are pure decisions: which records pass the filters, the event of the function, the retries of a failed batch.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from botocore.exceptions import BotoCoreError, ClientError

from .event_source_mapping import Invocable
from .polled_queue import without_qualifier
from .schedules import Repeated

# AWS: BatchSize of a stream is 100 unless set (CreateEventSourceMapping, API reference of Lambda).
USUAL_BATCH = 100
# AWS: "Lambda polls shards in your DynamoDB stream for records at a base rate of 4 times per second" (Developer
# Guide, "Using AWS Lambda with Amazon DynamoDB").
POLL_EVERY = timedelta(milliseconds=250)
# AWS: a stream keeps its records for 24 hours (DynamoDB, "Change data capture with DynamoDB Streams").
STREAM_RETENTION = timedelta(hours=24)
# The waits between the tries of a failed batch are not documented: these numbers are ours.
FIRST_RETRY, LONGEST_RETRY = timedelta(seconds=1), timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamMappingSettings:
    """One deployed event source mapping of a stream, as ListEventSourceMappings returns it."""

    uuid: str
    stream_arn: str
    function_arn: str
    batch_size: int = USUAL_BATCH
    enabled: bool = True
    patterns: tuple[str, ...] = ()
    maximum_retries: int = -1
    maximum_age: timedelta = STREAM_RETENTION
    failure_destination: str | None = None

    @classmethod
    def from_api(cls, configuration: Mapping[str, Any]) -> Self:
        """Read an entry of ListEventSourceMappings."""
        filters = (configuration.get("FilterCriteria") or {}).get("Filters") or []
        failure = (configuration.get("DestinationConfig") or {}).get("OnFailure") or {}
        seconds = int(configuration.get("MaximumRecordAgeInSeconds") or -1)
        return cls(
            uuid=configuration["UUID"],
            stream_arn=configuration["EventSourceArn"],
            function_arn=without_qualifier(configuration["FunctionArn"]),
            batch_size=int(configuration.get("BatchSize") or USUAL_BATCH),
            enabled=configuration.get("State") in {"Enabled", "Enabling"},
            patterns=tuple(one["Pattern"] for one in filters),
            maximum_retries=int(configuration.get("MaximumRetryAttempts", -1)),
            # AWS: -1, the default, means no limit but that of the stream (CreateEventSourceMapping).
            maximum_age=STREAM_RETENTION if seconds < 0 else timedelta(seconds=seconds),
            failure_destination=failure.get("Destination"),
        )

    @property
    def table_name(self) -> str:
        """Name of the table, in the middle of the stream's ARN."""
        return self.stream_arn.split("/")[1]


def passes(record: Mapping[str, Any], patterns: Sequence[str]) -> bool:
    """
    Return whether a record reaches the function.

    # AWS: a record passes when it meets any one filter; all conditions of a filter must hold, any value of a list
    # may match. Records that don't pass are gone by: the iterator moves on (Developer Guide, "Control which events
    # Lambda sends to your function").
    """
    return not patterns or any(_matches(record, json.loads(pattern)) for pattern in patterns)


def _matches(value: Any, rule: Any) -> bool:
    if isinstance(rule, dict):
        return isinstance(value, Mapping) and all(
            _matches(value.get(name), inner) for name, inner in rule.items()
        )
    return any(_meets(value, condition) for condition in rule)


def _meets(value: Any, condition: Any) -> bool:
    """Compare with one element of a rule: a literal, or an object with one comparison."""
    if not isinstance(condition, dict):
        return bool(value == condition)
    ((comparison, wanted),) = condition.items()
    if comparison == "exists":
        return (value is not None) is bool(wanted)
    if comparison == "prefix":
        return isinstance(value, str) and value.startswith(wanted)
    if comparison == "anything-but":
        return value is not None and value not in wanted
    raise ValueError(f"the comparison {comparison!r} of an event filter is not emulated")


def stream_event(records: Sequence[Mapping[str, Any]], settings: StreamMappingSettings) -> bytes:
    """
    Write the event of a batch.

    # AWS: the example event of Using AWS Lambda with Amazon DynamoDB; times are epoch seconds there.
    """
    region = settings.stream_arn.split(":")[3]
    described = [
        {**record, "awsRegion": region, "eventSourceARN": settings.stream_arn, "eventSource": "aws:dynamodb"}
        for record in records
    ]
    return json.dumps({"Records": described}, default=_plain).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.timestamp()
    raise TypeError(f"{type(value).__name__} in a stream record")


def retry_wait(tries: int, *, age: timedelta, settings: StreamMappingSettings) -> timedelta | None:
    """
    Give the wait before a failed batch is tried again, or None to give it up.

    # AWS: a failed batch is tried until it succeeds, its retries are used up or its records are too old; the shard
    # waits meanwhile (Developer Guide, "Using AWS Lambda with Amazon DynamoDB").

    Args:
        tries: so far, from 1.
        age: of the oldest record of the batch.
        settings: of the mapping.
    """
    if settings.maximum_retries >= 0 and tries > settings.maximum_retries:
        return None
    if age >= settings.maximum_age:
        return None
    doublings: int = 2 ** min(tries - 1, 20)
    return min(FIRST_RETRY * doublings, LONGEST_RETRY)


def failure_note(
    records: Sequence[Mapping[str, Any]], *, tries: int, shard: str, settings: StreamMappingSettings
) -> str:
    """
    Write the message to the failure destination: the place of the batch, not its records.

    # AWS: "Example invocation record" of Using AWS Lambda with Amazon DynamoDB.
    """
    numbers = [record["dynamodb"]["SequenceNumber"] for record in records]
    return json.dumps(
        {
            "requestContext": {
                "functionArn": settings.function_arn,
                "condition": "RetryAttemptsExhausted",
                "approximateInvokeCount": tries,
            },
            "version": "1.0",
            "timestamp": datetime.now(UTC).isoformat(),
            "DDBStreamBatchInfo": {
                "shardId": shard,
                "startSequenceNumber": numbers[0],
                "endSequenceNumber": numbers[-1],
                "batchSize": len(records),
                "streamArn": settings.stream_arn,
            },
        }
    )


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
