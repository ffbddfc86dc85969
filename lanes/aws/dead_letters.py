"""The queues of a deployment for operators: their counts, and the dead letters, to receive, copy back and delete."""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lanes.aws.bell import date_of, sender_bell
from lanes.aws.errors import aws_errors
from lanes.aws.items import query_pages, sortable
from lanes.aws.ledger import entry_of
from lanes.aws.queues import (
    LARGEST_BATCH,
    MOST_ATTRIBUTES,
    NOTE_ATTRIBUTE,
    LaneQueueCalls,
    attribute_in_note,
    depth_of,
)
from lanes.depth import LaneDepth
from lanes.encoding import TRACE_HEADER, sendable_trace
from lanes.errors import AwsError
from lanes.message import CLAIMED_AT, LARGEST_BODY_BYTES
from lanes.operate.dead_letters import DeadLetteredMessage, read_note

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_sqs import SQSClient

    from lanes.aws.audit import RedriveRecords
    from lanes.config.deployment import Deployment
    from lanes.consumer.ledger import Entry

WAIT_SECONDS = 1
"""AWS: a long poll asks all servers of the queue, a short poll only some of them (SQS developer guide)."""


class DeadLetterQueueCalls:
    """
    The dead-letter queues of one deployment; every method raises `AwsError`.

    Args:
        deployment: the lanes.
        client: client of SQS.
        redrives: the copies that were sent; without them only SQS drops repeated copies, for five minutes.
    """

    def __init__(
        self, *, deployment: Deployment, client: SQSClient, redrives: RedriveRecords | None = None
    ) -> None:
        self._queues = deployment.queues
        self._client = client
        self._redrives = redrives
        self._unrecorded: dict[str, set[str]] = defaultdict(set)
        self._bell = sender_bell(deployment, client)

    def dead_letters(self, lane: str) -> LaneDepth:
        """Return the counts of a lane's dead-letter queue."""
        return depth_of(self._client, self._queues[lane].dead_letter_url)

    def receive(
        self, lane: str, *, limit: int, hold: timedelta, wait: bool = True
    ) -> list[DeadLetteredMessage]:
        """Receive up to ten dead letters, with a visibility timeout; `wait` for one to a second."""
        with aws_errors("ReceiveMessage"):
            answer = self._client.receive_message(
                QueueUrl=self._queues[lane].dead_letter_url,
                MaxNumberOfMessages=min(limit, LARGEST_BATCH),
                # AWS: 0 leaves them visible, so another reader would receive them too (API_ReceiveMessage).
                VisibilityTimeout=max(1, round(hold.total_seconds())),
                WaitTimeSeconds=WAIT_SECONDS if wait else 0,
                MessageSystemAttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
        return [_letter(lane, message) for message in answer.get("Messages", [])]

    def give_back(self, letters: Sequence[DeadLetteredMessage]) -> None:
        """Make dead letters visible; those that SQS refuses are visible or deleted already."""
        self._record_copies()
        self.hide(letters, timedelta(0))

    def hide(self, letters: Sequence[DeadLetteredMessage], hold: timedelta) -> None:
        """Give received messages another visibility timeout, from now on."""
        seconds = int(hold.total_seconds())
        for lane, chunk in _chunks(letters):
            with aws_errors("ChangeMessageVisibilityBatch"):
                self._client.change_message_visibility_batch(
                    QueueUrl=self._queues[lane].dead_letter_url,
                    Entries=[
                        {
                            "Id": str(place),
                            "ReceiptHandle": letter.receipt_handle,
                            "VisibilityTimeout": seconds,
                        }
                        for place, letter in enumerate(chunk)
                    ],
                )

    def copy(self, letters: Sequence[DeadLetteredMessage]) -> dict[str, str]:
        """
        Send copies to the lane; return the reasons of refusals by the dead letter's id.

        Dead letters that an earlier run has copied are not sent again.
        """
        refused: dict[str, str] = {}
        for lane, chunk in _chunks(self._not_copied(letters), largest=LARGEST_BODY_BYTES):
            with aws_errors("SendMessageBatch"):
                answer = self._client.send_message_batch(
                    QueueUrl=self._queues[lane].url,
                    Entries=[_copy_of(letter, str(place)) for place, letter in enumerate(chunk)],
                )
            sent = {entry["Id"] for entry in answer.get("Successful", [])}
            if sent:
                self._bell.answered(self._queues[lane].url, date_of(answer), messages=len(sent))
            why = {
                entry["Id"]: f"{entry['Code']}: {entry.get('Message', '')}"
                for entry in answer.get("Failed", [])
            }
            refused |= {
                letter.message_id: why.get(str(place), "SQS did not answer for it")
                for place, letter in enumerate(chunk)
                if str(place) not in sent
            }
            self._unrecorded[lane] |= {chunk[int(place)].message_id for place in sent}
        return refused

    def _not_copied(self, letters: Sequence[DeadLetteredMessage]) -> list[DeadLetteredMessage]:
        """Leave out the dead letters with a copy; only one that was received before can have one."""
        again = [letter.message_id for letter in letters if letter.receive_count > 1]
        # A dead letter on its first receive was never copied, so most runs read nothing.
        if self._redrives is None or not again:
            return list(letters)
        copied = self._redrives.copied(letters[0].lane, again)
        return [letter for letter in letters if letter.message_id not in copied]

    def _record_copies(self) -> None:
        """Record the copies whose dead letters stay, before those become visible."""
        for lane in list(self._unrecorded):
            letter_ids = self._unrecorded.pop(lane)
            # SQS drops a second copy for five minutes, so a missing record matters only to a run after that.
            if self._redrives is not None and letter_ids:
                with suppress(AwsError):
                    self._redrives.add(lane, sorted(letter_ids))

    def delete(self, letters: Sequence[DeadLetteredMessage]) -> dict[str, str]:
        """Delete dead letters; return the reasons of refusals by the dead letter's id."""
        refused: dict[str, str] = {}
        for lane, chunk in _chunks(letters):
            with aws_errors("DeleteMessageBatch"):
                answer = self._client.delete_message_batch(
                    QueueUrl=self._queues[lane].dead_letter_url,
                    Entries=[
                        {"Id": str(place), "ReceiptHandle": letter.receipt_handle}
                        for place, letter in enumerate(chunk)
                    ],
                )
            refused |= {
                chunk[int(entry["Id"])].message_id: f"{entry['Code']}: {entry.get('Message', '')}"
                for entry in answer.get("Failed", [])
            }
            # A deleted one is received by no later run, and needs no record.
            self._unrecorded[lane] -= {one.message_id for one in chunk} - refused.keys()
        self._record_copies()
        return refused


def _letter(lane: str, message: Any) -> DeadLetteredMessage:
    attributes = dict(message.get("MessageAttributes", {}))
    # SQS keeps the mark of a relay when it moves a message itself; a redriven message starts over.
    attributes.pop(CLAIMED_AT, None)
    note = read_note(attributes.pop(NOTE_ATTRIBUTE, {}).get("StringValue", ""))
    system = message["Attributes"]
    return DeadLetteredMessage(
        lane=lane,
        message_id=message["MessageId"],
        receipt_handle=message["ReceiptHandle"],
        body=message["Body"],
        group=system["MessageGroupId"],
        sent_at=int(system["SentTimestamp"]) / 1000,
        receive_count=int(system["ApproximateReceiveCount"]),
        attributes=attributes,
        note=note,
        # AWS: the queue from which SQS moved a message (API_ReceiveMessage); nobody else can set it.
        moved_by_sqs="DeadLetterQueueSourceArn" in system,
        trace_header=system.get(TRACE_HEADER, ""),
        first_received_at=int(system["ApproximateFirstReceiveTimestamp"]) / 1000,
    )


def _copy_of(letter: DeadLetteredMessage, entry_id: str) -> Any:
    """Return the entry of a dead letter's copy."""
    return {
        "Id": entry_id,
        "MessageBody": letter.body,
        "MessageGroupId": letter.group,
        # Made from the dead letter's id, not the message's: a message that dies twice has two dead letters.
        "MessageDeduplicationId": letter.copied_as,
        "MessageAttributes": _sent_attributes(letter),
        **sendable_trace(letter.trace_header),
    }


def _sent_attributes(letter: DeadLetteredMessage) -> Any:
    """Return the original's attributes: the dead letter's own, or, if there was no room for them, the note's."""
    kept: Mapping[str, Any] = letter.attributes
    if not kept:
        noted: Mapping[str, Any] = letter.note.get("attributes") or {}
        kept = {name: attribute_in_note(value) for name, value in noted.items()}
    return _without_own_fields(dict(list(kept.items())[:MOST_ATTRIBUTES]))


def _without_own_fields(attributes: Mapping[str, Any]) -> Any:
    """Return attributes as SendMessage takes them."""
    wanted = ("DataType", "StringValue", "BinaryValue")
    return {name: {key: value[key] for key in wanted if key in value} for name, value in attributes.items()}


def _chunks(
    letters: Sequence[DeadLetteredMessage], *, largest: int | None = None
) -> Iterator[tuple[str, list[DeadLetteredMessage]]]:
    """Split into batches of one lane, of at most ten and, if given, at most `largest` bytes."""
    chunk: list[DeadLetteredMessage] = []
    size = 0
    for letter in letters:
        more = size_of(letter) if largest else 0
        # AWS: a batch has at most ten entries, and 1 MiB together (API_SendMessageBatch).
        full = len(chunk) == LARGEST_BATCH or (largest is not None and size + more > largest)
        if chunk and (full or chunk[0].lane != letter.lane):
            yield chunk[0].lane, chunk
            chunk, size = [], 0
        chunk.append(letter)
        size += more
    if chunk:
        yield chunk[0].lane, chunk


def size_of(letter: DeadLetteredMessage) -> int:
    """Return the size that SQS counts: the body, and the names, types and values of attributes."""
    return len(letter.body.encode()) + sum(
        len(name)
        + len(value["DataType"])
        + len(value.get("BinaryValue") or value.get("StringValue", "").encode())
        for name, value in _sent_attributes(letter).items()
    )


DUE_FOR = 60.0
"""Seconds for which a message whose next try is due counts as blocking; later it may have ended."""


class Depths:
    """Counts of queues, parked messages; every method raises `AwsError`."""

    def __init__(self, *, deployment: Deployment, sqs: SQSClient, dynamodb: DynamoDBClient) -> None:
        self._lanes = LaneQueueCalls(deployment=deployment, client=sqs)
        self._dead = DeadLetterQueueCalls(deployment=deployment, client=sqs)
        self._bell = deployment.bell
        self._sqs = sqs
        self._table = deployment.table
        self._dynamodb = dynamodb

    def depth(self, lane: str) -> LaneDepth:
        """Return the counts of a lane's queue."""
        return self._lanes.depth(lane)

    def dead_letters(self, lane: str) -> LaneDepth:
        """Return the counts of a lane's dead-letter queue."""
        return self._dead.dead_letters(lane)

    def bell(self) -> LaneDepth:
        """Return the counts of the bell's queue; zeros without a bell."""
        if self._bell is None:
            return LaneDepth(backlog=0, in_flight=0)
        return depth_of(self._sqs, self._bell)

    def parked(self, lane: str) -> int:
        """Return the number of messages of a lane that are parked now."""
        pages = query_pages(
            self._dynamodb,
            TableName=self._table,
            KeyConditionExpression="parked_lane = :lane AND parked_until > :now",
            ExpressionAttributeValues={":lane": {"S": lane}, ":now": {"S": sortable(time.time())}},
            # AWS: a count is charged like the items that it counts; only the answer is smaller (API_Query).
            Select="COUNT",
        )
        return sum(page["Count"] for page in pages)

    def blocking(self, lane: str) -> list[Entry]:
        """Return the entries of a lane's messages that block their groups, but for those that are tried now."""
        since = time.time() - DUE_FOR
        pages = query_pages(
            self._dynamodb,
            TableName=self._table,
            KeyConditionExpression="parked_lane = :lane AND parked_until > :since",
            FilterExpression="attribute_exists(blocking)",
            ExpressionAttributeValues={":lane": {"S": lane}, ":since": {"S": sortable(since)}},
        )
        return [entry_of(item) for page in pages for item in page["Items"]]
