"""
Rules of the event source mapping between an SQS FIFO queue and a function.

Decisions alone: what the function is sent, what its answer means, when a throttled batch is tried again.
Threads, clocks and AWS are the caller's, so that an emulator and a simulator can share the rules.
"""

import base64
import json
import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

# AWS: BatchSize of a FIFO queue is at most 10 (CreateEventSourceMapping, API reference of Lambda).
LARGEST_BATCH = 10
# AWS: a synchronous invocation takes at most 6 MB, the metadata of the records counted
# (Lambda quotas; Using Lambda with Amazon SQS).
LARGEST_EVENT_BYTES = 6_291_556
# No documentation says how many batches a FIFO mapping without maximum concurrency runs at once beyond
# the number of its message groups; five is where the pollers of a standard queue begin.
DEFAULT_CONCURRENCY = 5

_EVENT_START, _EVENT_END = b'{"Records":[', b"]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingSettings:
    """One deployed event source mapping, as ListEventSourceMappings tells it."""

    uuid: str
    queue_arn: str
    function_arn: str
    batch_size: int = LARGEST_BATCH
    maximum_concurrency: int | None = None
    enabled: bool = True
    reports_failures: bool = False

    @classmethod
    def from_api(cls, configuration: Mapping[str, Any]) -> Self:
        """Read an entry of ListEventSourceMappings."""
        return cls(
            uuid=configuration["UUID"],
            queue_arn=configuration["EventSourceArn"],
            function_arn=configuration["FunctionArn"],
            batch_size=int(configuration.get("BatchSize", LARGEST_BATCH)),
            maximum_concurrency=(configuration.get("ScalingConfig") or {}).get("MaximumConcurrency"),
            enabled=configuration.get("State") in {"Enabled", "Enabling"},
            reports_failures="ReportBatchItemFailures" in (configuration.get("FunctionResponseTypes") or ()),
        )

    @property
    def slots(self) -> int:
        """
        Batches that may run at once.

        # AWS: the number of message groups caps it as well (Configuring scaling for SQS event source
        # mappings); the queue sees to that, since it hands out no group twice.
        """
        return self.maximum_concurrency or DEFAULT_CONCURRENCY

    @property
    def receive_size(self) -> int:
        """Messages asked for at each receive."""
        return min(self.batch_size, LARGEST_BATCH)

    @property
    def queue_name(self) -> str:
        """Name of the queue, the last part of its ARN."""
        return self.queue_arn.rpartition(":")[2]

    @property
    def region(self) -> str:
        """Region of the queue."""
        return self.queue_arn.split(":")[3]


def start_order(mapping_names: Collection[str], *, seed: int) -> list[str]:
    """
    The order in which mappings poll for the first time.

    AWS documents no order between the mappings of a function: nobody may rely on one, so the seed decides.
    """
    order = sorted(mapping_names)
    random.Random(seed).shuffle(order)  # noqa: S311 - an order, not a secret
    return order


def lambda_record(message: Mapping[str, Any], settings: MappingSettings) -> dict[str, Any]:
    """
    One received message in the form of a Lambda event.

    # AWS: the example events of Using Lambda with Amazon SQS; attribute names in camel case there.
    """
    return {
        "messageId": message["MessageId"],
        "receiptHandle": message["ReceiptHandle"],
        "body": message["Body"],
        "attributes": message.get("Attributes", {}),
        "messageAttributes": {
            name: _attribute(value) for name, value in message.get("MessageAttributes", {}).items()
        },
        "md5OfBody": message["MD5OfBody"],
        "eventSource": "aws:sqs",
        "eventSourceARN": settings.queue_arn,
        "awsRegion": settings.region,
    }


def _attribute(value: Mapping[str, Any]) -> dict[str, Any]:
    converted: dict[str, Any] = {
        "stringListValues": [],
        "binaryListValues": [],
        "dataType": value["DataType"],
    }
    if "StringValue" in value:
        converted["stringValue"] = value["StringValue"]
    if "BinaryValue" in value:
        binary = value["BinaryValue"]
        converted["binaryValue"] = base64.b64encode(binary).decode() if isinstance(binary, bytes) else binary
    return converted


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Messages that travel in one invocation, with the event already in bytes."""

    messages: tuple[Mapping[str, Any], ...]
    event: bytes

    @property
    def message_ids(self) -> frozenset[str]:
        """Ids by which the function may report failures."""
        return frozenset(message["MessageId"] for message in self.messages)


def batches(messages: Sequence[Mapping[str, Any]], settings: MappingSettings) -> list[Batch]:
    """
    Events for the messages of one receive, in order: nearly always one, more only when it would be too large.

    # AWS: a batch may hold several groups, each in order (Configuring scaling for SQS event source mappings).
    """
    made: list[Batch] = []
    open_messages: list[Mapping[str, Any]] = []
    open_records: list[bytes] = []
    size = len(_EVENT_START) + len(_EVENT_END)
    for message in messages:
        record = json.dumps(lambda_record(message, settings), separators=(",", ":")).encode()
        if open_records and size + len(record) > LARGEST_EVENT_BYTES:
            made.append(_batch(open_messages, open_records))
            open_messages, open_records = [], []
            size = len(_EVENT_START) + len(_EVENT_END)
        open_messages.append(message)
        open_records.append(record)
        size += len(record) + 1
    return [*made, _batch(open_messages, open_records)] if open_records else made


def _batch(messages: Sequence[Mapping[str, Any]], records: Sequence[bytes]) -> Batch:
    return Batch(messages=tuple(messages), event=_EVENT_START + b",".join(records) + _EVENT_END)


def without_groups(batch: Batch, groups: Collection[str], settings: MappingSettings) -> Batch | None:
    """The rest of a receive once some of its groups failed: their later messages wait for the failed ones."""
    kept = [message for message in batch.messages if group_of(message) not in groups]
    if len(kept) == len(batch.messages):
        return batch
    return batches(kept, settings)[0] if kept else None


def group_of(message: Mapping[str, Any]) -> str:
    """Message group of a received message; empty on a standard queue."""
    return str(message.get("Attributes", {}).get("MessageGroupId", ""))


class Outcome(StrEnum):
    """What an invocation meant for its batch."""

    SUCCEEDED = "succeeded"
    PARTIAL = "partial"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """
    Which messages of a batch are deleted.

    Attributes:
        outcome: success, partial batch response or failure of the whole batch.
        failed_ids: ids that stay in the queue until their visibility timeout ends.
        reason: why a whole batch failed; empty otherwise.
    """

    outcome: Outcome
    failed_ids: frozenset[str] = frozenset()
    reason: str = ""


def judge(
    payload: bytes, *, message_ids: Collection[str], function_error: str | None, reports_failures: bool
) -> Verdict:
    """
    Decide what an invocation's answer means for its batch.

    # AWS: Handling errors for an SQS event source in Lambda, "Success and failure conditions". An empty or
    # null answer or list is success; a raised exception, malformed JSON, a missing, empty or null
    # itemIdentifier and an id that is not in the batch fail the whole batch. An answer that is JSON but no
    # object is not mentioned; it counts as malformed here, since nothing can be read from it.

    Args:
        payload: the answer as the function gave it.
        message_ids: ids of the batch.
        function_error: kind of function error, timeout included; None if the handler returned.
        reports_failures: the mapping has ReportBatchItemFailures; if not, any return is success.
    """
    everything = frozenset(message_ids)
    if function_error is not None:
        return Verdict(outcome=Outcome.FAILED, failed_ids=everything, reason=function_error)
    if not reports_failures or not payload.strip():
        return Verdict(outcome=Outcome.SUCCEEDED)
    try:
        reported = _reported_ids(json.loads(payload), everything)
    except ValueError as error:
        return Verdict(outcome=Outcome.FAILED, failed_ids=everything, reason=f"unusable answer: {error}")
    if reported:
        return Verdict(outcome=Outcome.PARTIAL, failed_ids=reported)
    return Verdict(outcome=Outcome.SUCCEEDED)


def _reported_ids(answer: Any, message_ids: frozenset[str]) -> frozenset[str]:
    """
    Read the ids of a partial batch response.

    Raises:
        ValueError: the answer fails the whole batch.
    """
    if answer is None:
        return frozenset()
    if not isinstance(answer, dict):
        raise ValueError(f"{type(answer).__name__} instead of an object")  # noqa: TRY004 - a fault of data
    failures = answer.get("batchItemFailures") or []
    if not isinstance(failures, list):
        raise ValueError("batchItemFailures is no list")  # noqa: TRY004
    reported: set[str] = set()
    for item in failures:
        identifier = item.get("itemIdentifier") if isinstance(item, dict) else None
        if not isinstance(identifier, str) or identifier not in message_ids:
            raise ValueError(f"itemIdentifier {identifier!r} is not in the batch")
        reported.add(identifier)
    return frozenset(reported)
