"""The bell: the queue that starts invocations of the pull engine, rung by its slots and by senders."""

from __future__ import annotations

import logging
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Protocol

from lanes.aws.errors import aws_errors
from lanes.bell import BODY, Ring, rings, second_of
from lanes.errors import AwsError
from lanes.fault_codes import may_pass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mypy_boto3_sqs import SQSClient

    from lanes.config.deployment import Deployment

_logger = logging.getLogger(__name__)

OPERATION = "SendMessageBatch"
# AWS: a batch call has at most 10 entries (API_SendMessageBatch).
LARGEST_BATCH = 10


class BellQueue:
    """
    The bell of one deployment; every method raises `AwsError`.

    Args:
        url: of its queue.
        slots: number of slots.
        client: client of SQS, which threads may share.
        clock: returns epoch seconds.
    """

    def __init__(
        self, url: str, slots: int, client: SQSClient, clock: Callable[[], float] = time.time
    ) -> None:
        self._url = url
        self._slots = slots
        self._client = client
        self._clock = clock
        self._rung: int | None = None

    def ring(self, *, at: float | None = None) -> None:
        """
        Ring for all slots; nothing is sent if this process has rung in the same second.

        Args:
            at: epoch time of SQS's answer to your send; by default that of the clock.
        """
        moment = self._clock() if at is None else at
        second = second_of(moment)
        if second == self._rung:
            return
        wanted = rings(self._slots, moment)
        for start in range(0, len(wanted), LARGEST_BATCH):
            self._send(wanted[start : start + LARGEST_BATCH])
        # After the calls, so that a slot's next ring in this second repeats a failed one.
        self._rung = second

    def return_after(self, receipt_handle: str, seconds: int) -> None:
        """Let a received message of the bell become visible again after some seconds."""
        with aws_errors("ChangeMessageVisibility"):
            self._client.change_message_visibility(
                QueueUrl=self._url, ReceiptHandle=receipt_handle, VisibilityTimeout=seconds
            )

    def _send(self, wanted: Sequence[Ring]) -> None:
        with aws_errors(OPERATION):
            answer = self._client.send_message_batch(
                QueueUrl=self._url,
                Entries=[
                    {
                        "Id": str(position),
                        "MessageBody": BODY,
                        "MessageGroupId": ring.group,
                        "MessageDeduplicationId": ring.deduplication_id,
                    }
                    for position, ring in enumerate(wanted)
                ],
            )
        # One failure is enough: in a repeat SQS drops the groups that have this second's ring already.
        for failed in answer.get("Failed", []):
            raise AwsError(
                operation=OPERATION,
                code=failed["Code"],
                message=failed.get("Message", ""),
                retryable=may_pass(failed["Code"], sender_fault=failed["SenderFault"]),
            )


class Bell(Protocol):
    """Rings for all slots."""

    def ring(self, *, at: float | None = None) -> None:
        """Ring once in the second of an epoch time; raises `AwsError`."""


class SenderBell:
    """
    Rings after sends, and never fails: the heartbeat serves messages of a lost ring within 20 s.

    The first failure is logged.

    Args:
        bell: of the lanes that the messages go to; None rings nothing.
    """

    def __init__(self, bell: Bell | None) -> None:
        self._bell = bell
        self._date: str | None = None
        self._has_warned = False

    def answered(self, date: str | None) -> None:
        """
        Ring for messages that SQS has accepted, once for each second.

        A failed ring is not repeated within its second, so that an outage of the bell does not slow down every send.

        Args:
            date: the `Date` header of SQS's answer. Its second is that of SQS's clock, so yours may be wrong.
        """
        if self._bell is None or (date is not None and date == self._date):
            return
        # Before the ring, so that a failed one is not repeated at each send.
        self._date = date
        try:
            self._bell.ring(at=_epoch(date))
        except AwsError as error:
            if not self._has_warned:
                # Once in a process: at thousands of sends a second the log would hold nothing else.
                self._has_warned = True
                _logger.warning("the bell could not be rung, so messages may start 20 s late: %s", error)


def sender_bell(deployment: Deployment, client: SQSClient) -> SenderBell:
    """Return the bell for senders to a deployment; it rings nothing where mappings start the function."""
    if deployment.bell is None:
        return SenderBell(None)
    slots = deployment.config.consumer.reserved_concurrency
    return SenderBell(BellQueue(deployment.bell, slots, client))


def date_of(answer: Mapping[str, Any]) -> str | None:
    """Return the `Date` header of an answer of boto3's client."""
    date: str | None = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    return date


def _epoch(date: str | None) -> float | None:
    try:
        return None if date is None else parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None
