"""The meaning of a function's answer for its batch: success, partial batch response or failure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection


class BatchOutcome(StrEnum):
    """The meaning of an invocation for its batch."""

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
        reason: why the whole batch failed; empty otherwise.
    """

    outcome: BatchOutcome
    failed_ids: frozenset[str] = frozenset()
    reason: str = ""


def is_dropped(payload: bytes) -> bool:
    """Whether a function returned nothing: a mapping takes that for the success of every record."""
    return payload.strip() in (b"", b"null")


def failed(message_ids: Collection[str], reason: str) -> Verdict:
    """
    Return the verdict that deletes nothing.

    # AWS: after an exception or a timeout every message of the batch stays in the queue until its visibility
    # timeout ends; a dropped batch as well (Handling errors for an SQS event source in Lambda).
    """
    return Verdict(outcome=BatchOutcome.FAILED, failed_ids=frozenset(message_ids), reason=reason)


def judge(
    payload: bytes, *, message_ids: Collection[str], function_error: str | None, reports_failures: bool
) -> Verdict:
    """
    Return the verdict on an invocation.

    Args:
        payload: the answer as the function returned it.
        message_ids: ids of the batch.
        function_error: kind of function error, timeout included; None if the handler returned.
        reports_failures: the mapping has ReportBatchItemFailures; if not, every return is a success.
    """
    if function_error is not None:
        return failed(message_ids, function_error)
    # AWS: without ReportBatchItemFailures each answer is a success, with it an empty one (errors of SQS mappings).
    if not reports_failures or not payload.strip():
        return Verdict(outcome=BatchOutcome.SUCCEEDED)
    try:
        answer = json.loads(payload)
    except ValueError as error:
        return failed(message_ids, f"unusable answer: {error}")
    return read_answer(answer, message_ids=message_ids)


def read_answer(answer: Any, *, message_ids: Collection[str]) -> Verdict:
    """
    Read a partial batch response.

    # AWS: Handling errors for an SQS event source in Lambda, "Success and failure conditions". An empty or
    # null answer or list is success. Malformed JSON, a missing, empty or null itemIdentifier and an id that is
    # not in the batch fail the whole batch. AWS does not mention JSON of another type; it fails the batch here,
    # since nothing can be read from it.
    """
    try:
        reported = _reported_ids(answer, frozenset(message_ids))
    except ValueError as error:
        return failed(message_ids, f"unusable answer: {error}")
    if reported:
        return Verdict(outcome=BatchOutcome.PARTIAL, failed_ids=reported)
    return Verdict(outcome=BatchOutcome.SUCCEEDED)


def _reported_ids(answer: Any, message_ids: frozenset[str]) -> frozenset[str]:
    """
    Return the reported ids.

    Raises:
        ValueError: the answer fails the whole batch.
    """
    if answer is None:
        return frozenset()
    if not isinstance(answer, dict):
        raise ValueError(f"{type(answer).__name__} instead of an object")  # noqa: TRY004 - a fault of data
    failures = answer.get("batchItemFailures")
    if failures is None:
        return frozenset()
    if not isinstance(failures, list):
        raise ValueError("batchItemFailures is not a list")  # noqa: TRY004 - a fault of data
    return frozenset(_reported_id(item, message_ids) for item in failures)


def _reported_id(item: Any, message_ids: frozenset[str]) -> str:
    identifier = item.get("itemIdentifier") if isinstance(item, dict) else None
    if not isinstance(identifier, str) or identifier not in message_ids:
        raise ValueError(f"itemIdentifier {identifier!r} is not in the batch")
    return identifier
