"""The bell: the queue that starts invocations of the pull engine, rung by its slots and by senders."""

from __future__ import annotations

import logging
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.bell import BODY, Ring, Ringer
from lanes.errors import AwsError
from lanes.fault_codes import may_pass

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mypy_boto3_sqs import SQSClient

    from lanes.config import LanesConfig
    from lanes.config.deployment import Deployment

_logger = logging.getLogger(__name__)

OPERATION = "SendMessageBatch"
# AWS: of a mapping (Lambda API, ScalingConfig).
MOST_SLOTS = 1000


class BellQueue(Ringer):
    """
    The bell of one deployment; every method raises `AwsError`.

    Args:
        url: of its queue.
        config: the lanes.
        client: client of SQS, which threads may share.
        clock: returns epoch seconds.
    """

    def __init__(
        self, url: str, config: LanesConfig, client: SQSClient, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(config, clock)
        self._url = url
        self._client = client

    def has_rings(self) -> bool:
        """Whether rings wait, also those behind one of their group that an invocation has."""
        with aws_errors("GetQueueAttributes"):
            answer = self._client.get_queue_attributes(
                QueueUrl=self._url, AttributeNames=["ApproximateNumberOfMessages"]
            )
        return answer["Attributes"]["ApproximateNumberOfMessages"] != "0"

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


class SenderBell:
    """
    Rings after sends, and never fails: the heartbeat serves messages of a lost ring within 20 s.

    The first failure is logged.

    Args:
        bell: of the lanes that the messages go to; None rings nothing.
        lanes: the names of the lanes by the URL of their queue.
    """

    def __init__(self, bell: Ringer | None = None, lanes: Mapping[str, str] | None = None) -> None:
        self._bell = bell
        self._lanes = lanes or {}
        self._rung: dict[str, tuple[str, int]] = {}
        self._has_warned = False

    def answered(self, queue_url: str, date: str | None, *, messages: int = 1) -> None:
        """
        Ring for messages that SQS has accepted, again within a second only for more of them than before.

        A failed ring is not repeated within its second, so that an outage of the bell does not slow down every send.

        Args:
            queue_url: of the lane.
            date: the `Date` header of SQS's answer. Its second is that of SQS's clock, so yours may be wrong.
            messages: number of them in one call.
        """
        if (lane := self._lanes.get(queue_url)) is None:
            return
        rung_at, rung_for = self._rung.get(lane, ("", 0))
        if date is not None and date == rung_at and messages <= rung_for:
            return
        # Before the ring, so that a failed one is not repeated at each send.
        self._rung[lane] = (date or "", messages)
        self._ring(lane, messages=messages, at=_epoch(date))

    def resumed(self, lane: str) -> None:
        """Ring for all slots that serve a lane: any number of messages waits in it."""
        self._ring(lane, messages=MOST_SLOTS, at=None)

    def _ring(self, lane: str, *, messages: int, at: float | None) -> None:
        if self._bell is None:
            return
        try:
            self._bell.ring_for(lane, messages=messages, at=at)
        except AwsError as error:
            if not self._has_warned:
                # Once in a process: at thousands of sends a second the log would hold nothing else.
                self._has_warned = True
                _logger.warning("the bell could not be rung, so messages may start 20 s late: %s", error)


def sender_bell(deployment: Deployment, client: SQSClient) -> SenderBell:
    """Return the bell for senders to a deployment; it rings nothing where mappings start the function."""
    if deployment.bell is None:
        return SenderBell()
    lanes = {queue.url: name for name, queue in deployment.queues.items()}
    return SenderBell(BellQueue(deployment.bell, deployment.config, client), lanes)


def date_of(answer: Mapping[str, Any]) -> str | None:
    """Return the `Date` header of an answer of boto3's client."""
    date: str | None = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
    return date


def _epoch(date: str | None) -> float | None:
    try:
        return None if date is None else parsedate_to_datetime(date).timestamp()
    except ValueError:
        return None
