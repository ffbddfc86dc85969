"""Records in Powertools' event type. Loading it takes about 30 ms, so only its users load it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord


def sqs_record(entry: Mapping[str, Any]) -> SQSRecord:
    """Return an entry of `Records` in Powertools' type."""
    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

    return SQSRecord(dict(entry))
