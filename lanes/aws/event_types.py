"""Records as Powertools' event types. Loading them takes some 30 ms, so it is left to whoever asks for one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord


def sqs_record(entry: Mapping[str, Any]) -> SQSRecord:
    """Give one entry of `Records` in Powertools' type."""
    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

    return SQSRecord(dict(entry))
