"""The lanes' queues, for the consumer: counts, receives, deletions, visibility timeouts and dead letters."""

from __future__ import annotations

import base64
import dataclasses
import json
import uuid
from typing import TYPE_CHECKING, Any

from lanes.aws.errors import aws_errors
from lanes.bell import BODY
from lanes.consumer.records import RawRecord
from lanes.depth import LaneDepth
from lanes.encoding import TRACE_HEADER, attribute_bytes, sendable_attribute, sendable_trace
from lanes.errors import AwsError
from lanes.mapping.event import polled_record
from lanes.message import CLAIMED_AT, LARGEST_BODY_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mypy_boto3_sqs import SQSClient

    from lanes.bell import Ring
    from lanes.config.deployment import Deployment
    from lanes.consumer.settlement import DeadLetterNote, VisibilityChange

NOTE_ATTRIBUTE = "lanes.dead_letter"
"""Message attribute of a dead letter: a JSON object with the fields of `DeadLetterNote` and of the original."""

# AWS: a message has at most 10 attributes, and a batch call at most 10 entries (SQS developer guide, quotas).
MOST_ATTRIBUTES = 10
LARGEST_BATCH = 10
# AWS: attributes count towards the 1 MiB of a message, and the text of an error may quote its whole body.
LONGEST_ERROR = 4_000


class LaneQueueCalls:
    """
    Speaks to SQS for one deployment; every method raises `AwsError`.

    Args:
        deployment: the lanes.
        client: client of SQS.
        receiver: client for receives, which waits longer for answers than the longest poll; by default `client`.
    """

    def __init__(
        self, *, deployment: Deployment, client: SQSClient, receiver: SQSClient | None = None
    ) -> None:
        self._queues = deployment.queues
        self._client = client
        self._receiver = receiver or client

    def depth(self, lane: str) -> LaneDepth:
        """Return the counts of a lane's queue."""
        return depth_of(self._client, self._queues[lane].url)

    def receive(self, lane: str, *, maximum: int, visibility: int, wait: int) -> list[RawRecord]:
        """
        Receive records, those of each group in the order in which they were sent.

        AWS: if an answer is lost, the same call with the same attempt id returns the same records. Any other call
        finds them hidden until their visibility timeout ends (API_ReceiveMessage). boto3's retries repeat a call with
        its parameters as they are, so the id is one for each call of this method.

        Args:
            lane: name of the lane.
            maximum: 1 to 10 records.
            visibility: seconds for which the records are hidden.
            wait: seconds to wait for a first record, up to 20; 0 is a short poll.
        """
        with aws_errors("ReceiveMessage"):
            answer = self._receiver.receive_message(
                QueueUrl=self._queues[lane].url,
                MaxNumberOfMessages=maximum,
                VisibilityTimeout=visibility,
                WaitTimeSeconds=wait,
                ReceiveRequestAttemptId=uuid.uuid4().hex,
                MessageSystemAttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
        arn = self._arn(lane)
        return [
            RawRecord.from_event(polled_record(message, queue_arn=arn))
            for message in answer.get("Messages", [])
        ]

    def delete(self, lane: str, records: Sequence[RawRecord]) -> list[str]:
        """
        Delete records, ten a call; return the message ids of those that SQS refused.

        SQS refuses a receipt that is no longer valid, since the record may be received again (SQS developer guide,
        "Exactly-once processing"). An entry that failed through no fault of its own is tried once more.
        """
        refused: list[str] = []
        for start in range(0, len(records), LARGEST_BATCH):
            wrong, failed = self._delete_batch(lane, records[start : start + LARGEST_BATCH])
            if failed:
                more, failed = self._delete_batch(lane, failed)
                wrong += more
            refused += [record.message_id for record in [*wrong, *failed]]
        return refused

    def change_visibility(self, lane: str, changes: Sequence[VisibilityChange]) -> list[str]:
        """Apply the changes in their order, ten a call; return the message ids of those that were refused."""
        refused = []
        for start in range(0, len(changes), LARGEST_BATCH):
            chunk = changes[start : start + LARGEST_BATCH]
            with aws_errors("ChangeMessageVisibilityBatch"):
                answer = self._client.change_message_visibility_batch(
                    QueueUrl=self._queues[lane].url,
                    Entries=[
                        {
                            "Id": str(position),
                            "ReceiptHandle": change.receipt_handle,
                            "VisibilityTimeout": change.seconds,
                        }
                        for position, change in enumerate(chunk)
                    ],
                )
            refused += [chunk[int(entry["Id"])].message_id for entry in answer.get("Failed", [])]
        return refused

    def dead_letter(self, lane: str, record: RawRecord, note: DeadLetterNote) -> None:
        """
        Send the untouched body, its group and attributes with the note to the lane's dead-letter queue.

        Safe to repeat: the deduplication id is that of this life of the message. A redriven message starts over,
        even if AWS keeps its message id, so its next dead letter is a new one.
        """
        with aws_errors("SendMessage"):
            self._client.send_message(
                QueueUrl=self._queues[lane].dead_letter_url,
                MessageBody=record.body,
                MessageGroupId=record.group,
                MessageDeduplicationId=f"{record.message_id}-{record.first_received_at:.3f}",
                MessageAttributes=attributes_with(note, lane, record),
                **sendable_trace(record.attributes.get(TRACE_HEADER)),
            )

    def remove(self, lane: str, record: RawRecord) -> None:
        """
        Delete a record whose dead letter was sent.

        Lambda would delete it after the answer; where a later record of the batch kills the process there is none, and
        the batch may come back when SQS has forgotten the dead letter's deduplication id.
        """
        with aws_errors("DeleteMessage"):
            self._client.delete_message(QueueUrl=self._queues[lane].url, ReceiptHandle=record.receipt_handle)

    def forward(self, lane: str, record: RawRecord, *, body: str, deduplication_id: str) -> None:
        """Send a record's body, as given, with its group and attributes to a lane."""
        attributes: Any = {
            name: sendable_attribute(value) for name, value in record.message_attributes.items()
        }
        with aws_errors("SendMessage"):
            self._client.send_message(
                QueueUrl=self._queues[lane].url,
                MessageBody=body,
                MessageGroupId=record.group,
                MessageDeduplicationId=deduplication_id,
                MessageAttributes=attributes,
                **sendable_trace(record.attributes.get(TRACE_HEADER)),
            )

    def ring(self, lane: str, rings: Sequence[Ring]) -> None:
        """Send rings to a lane's own queue."""
        for start in range(0, len(rings), LARGEST_BATCH):
            with aws_errors("SendMessageBatch"):
                # Which of them SQS refuses doesn't matter: the next ones are sent a second later.
                self._client.send_message_batch(
                    QueueUrl=self._queues[lane].url,
                    Entries=[
                        {
                            "Id": str(position),
                            "MessageBody": BODY,
                            "MessageGroupId": ring.group,
                            "MessageDeduplicationId": ring.deduplication_id,
                        }
                        for position, ring in enumerate(rings[start : start + LARGEST_BATCH])
                    ],
                )

    def _delete_batch(
        self, lane: str, records: Sequence[RawRecord]
    ) -> tuple[list[RawRecord], list[RawRecord]]:
        """Return the records with a wrong receipt, and those that SQS could not delete for another reason."""
        with aws_errors("DeleteMessageBatch"):
            answer = self._client.delete_message_batch(
                QueueUrl=self._queues[lane].url,
                Entries=[
                    {"Id": str(position), "ReceiptHandle": record.receipt_handle}
                    for position, record in enumerate(records)
                ],
            )
        done = {entry["Id"] for entry in answer.get("Successful", [])}
        # AWS: a fault of the sender is final (BatchResultErrorEntry); here it is an expired receipt.
        wrong = {entry["Id"] for entry in answer.get("Failed", []) if entry["SenderFault"]}
        named = {str(position): record for position, record in enumerate(records)}
        return (
            [record for name, record in named.items() if name in wrong],
            [record for name, record in named.items() if name not in done | wrong],
        )

    def _arn(self, lane: str) -> str:
        # From the URL, since GetQueueAttributes would be one more call in each cold start.
        account, name = self._queues[lane].url.split("/")[-2:]
        meta = self._client.meta
        return f"arn:{meta.partition}:sqs:{meta.region_name}:{account}:{name}"


def depth_of(client: SQSClient, url: str) -> LaneDepth:
    """
    Return the counts of a queue; raises `AwsError`.

    AWS: the counts are approximate, and may take a minute to settle (API_GetQueueAttributes).
    """
    with aws_errors("GetQueueAttributes"):
        answer = client.get_queue_attributes(
            QueueUrl=url,
            AttributeNames=["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"],
        )
    counts = answer.get("Attributes", {})
    try:
        return LaneDepth(
            backlog=int(counts["ApproximateNumberOfMessages"]),
            in_flight=int(counts["ApproximateNumberOfMessagesNotVisible"]),
        )
    except (KeyError, ValueError) as error:
        # Not knowing is a reason to yield, as after any call that fails.
        raise AwsError(
            operation="GetQueueAttributes", code="CountsMissing", message=str(error), retryable=True
        ) from error


def attributes_with(note: DeadLetterNote, lane: str, record: RawRecord) -> dict[str, Any]:
    """Return the original's attributes and the note, as far as they fit beside the body."""
    # The mark of a relay is about this sending: a redriven message starts over.
    named = ((name, value) for name, value in record.message_attributes.items() if name != CLAIMED_AT)
    kept = {name: sendable_attribute(value) for name, value in named}
    described = {
        **dataclasses.asdict(note),
        "error": note.error[:LONGEST_ERROR],
        "reason": note.reason[:LONGEST_ERROR],
        "lane": lane,
        "message_id": record.message_id,
        "deduplication_id": record.deduplication_id,
        "sent_at": record.sent_at,
    }
    # The note is an attribute itself, so a message with ten of its own has them inside the note.
    if len(kept) >= MOST_ATTRIBUTES:
        described["attributes"] = {name: _in_json(value) for name, value in kept.items()}
        kept = {}
    room = (
        LARGEST_BODY_BYTES
        - len(record.body.encode())
        - sum(attribute_bytes(*named) for named in kept.items())
    )
    # From the whole note to none: a dead letter must leave its lane even if no note fits beside it.
    least = {"reason": note.reason[:200], "lane": lane}
    for shortened in (described, {**described, "error": ""}, least):
        attribute = {"DataType": "String", "StringValue": json.dumps(shortened)}
        if attribute_bytes(NOTE_ATTRIBUTE, attribute) <= room:
            return {**kept, NOTE_ATTRIBUTE: attribute}
    return kept


def _in_json(sendable: dict[str, Any]) -> dict[str, str]:
    """Return an attribute as JSON can hold it: binary values in base64."""
    if "BinaryValue" not in sendable:
        return sendable
    return {**sendable, "BinaryValue": base64.b64encode(sendable["BinaryValue"]).decode()}


def attribute_in_note(noted: Mapping[str, str]) -> dict[str, Any]:
    """Return an attribute that had to make room for the note as SendMessage takes it."""
    if "BinaryValue" not in noted:
        return dict(noted)
    return {**noted, "BinaryValue": base64.b64decode(noted["BinaryValue"])}
