"""What claims to be an SQS FIFO queue, behind one face: the model and corrected moto."""

import itertools
from dataclasses import dataclass
from datetime import timedelta

from botocore.exceptions import ClientError

from lanes.testing.clock import FakeClock
from lanes.testing.fifo.message import (
    AttemptOverError,
    DeduplicationIdMissingError,
    FifoQueueError,
    FifoSettings,
    GroupOrder,
    MessageGoneError,
    MessageNotInFlightError,
    ReceiptHandleExpiredError,
    ReceiptHandleUnknownError,
    VisibilityTimeoutError,
)
from lanes.testing.fifo.queue import FifoQueue

CODES = {
    AttemptOverError: "InvalidParameterValue",
    DeduplicationIdMissingError: "InvalidParameterValue",
    MessageGoneError: "InvalidParameterValue",
    MessageNotInFlightError: "MessageNotInflight",
    ReceiptHandleExpiredError: "InvalidParameterValue",
    ReceiptHandleUnknownError: "ReceiptHandleIsInvalid",
    VisibilityTimeoutError: "InvalidParameterValue",
}


class RefusedError(Exception):
    """The queue refused; `code` is SQS's."""

    def __init__(self, code):
        super().__init__(code)
        self.code = code.rpartition(".")[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    body: str
    group: str
    handle: str
    message_id: str
    deduplication_id: str
    sequence_number: int
    receive_count: int
    sent_at: float
    first_received_at: float
    source: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    message_id: str
    sequence_number: int


class ModelSubject:
    """The model itself."""

    def __init__(self, order=GroupOrder.OLDEST):
        self._order = order
        self.clock = FakeClock()
        self._ids = itertools.count()
        self._dead = FifoQueue(self.clock, name="dead.fifo", handle_prefix="d.")
        self._queue = FifoQueue(
            self.clock, name="queue.fifo", handle_prefix="q.", dead_letter_queue=self._dead
        )
        self.configure()

    def configure(self, **settings):
        """Set attributes; those not named take their default."""
        self._queue.settings = FifoSettings(group_order=self._order, **settings)

    def send(self, body, *, group="A", deduplication_id=None):
        """Send one message, by default with a deduplication id of its own."""
        if deduplication_id is None and not self._queue.settings.content_based_deduplication:
            deduplication_id = f"id-{next(self._ids)}"
        sent = self._queue.send(body, group=group, deduplication_id=deduplication_id)
        return Sent(message_id=sent.message_id, sequence_number=sent.sequence_number)

    def receive(self, maximum=10, *, visibility=None, attempt=None):
        """Receive up to `maximum` messages."""
        timeout = None if visibility is None else timedelta(seconds=visibility)
        received = self._call(self._queue.receive, maximum, visibility_timeout=timeout, attempt_id=attempt)
        return [self._delivery(m) for m in received]

    def receive_dead(self):
        """Receive from the dead-letter queue."""
        return [self._delivery(m) for m in self._dead.receive(10)]

    def delete(self, handle):
        """Delete with a receipt handle."""
        self._call(self._queue.delete, handle)

    def change_visibility(self, handle, seconds):
        """Let the visibility timeout end some seconds from now."""
        self._call(self._queue.change_visibility, handle, timedelta(seconds=seconds))

    def purge(self):
        """Drop all messages."""
        self._queue.purge()

    def counts(self):
        """Return the numbers of visible, in-flight and delayed messages."""
        return tuple(self._queue.counts())

    @staticmethod
    def _call(action, *arguments, **options):
        try:
            return action(*arguments, **options)
        except FifoQueueError as error:
            raise RefusedError(CODES[type(error)]) from error

    @staticmethod
    def _delivery(message):
        return Delivery(
            body=message.body,
            group=message.group,
            handle=message.receipt_handle,
            message_id=message.message_id,
            deduplication_id=message.deduplication_id,
            sequence_number=message.sequence_number,
            receive_count=message.receive_count,
            sent_at=message.sent_at,
            first_received_at=message.first_received_at,
            source=message.dead_letter_source,
        )


class BotoSubject:
    """A queue behind a boto3 client; the clock is the one given to the corrections."""

    def __init__(self, client, clock, **more):
        self.client = client
        self.clock = clock
        self._ids = itertools.count()
        self.dead_url = client.create_queue(QueueName="dead.fifo", Attributes={"FifoQueue": "true"})[
            "QueueUrl"
        ]
        self.url = client.create_queue(QueueName="queue.fifo", Attributes={"FifoQueue": "true", **more})[
            "QueueUrl"
        ]
        self._content_based = False

    def configure(self, **settings):
        """Set attributes; those not named take their default."""
        merged = FifoSettings(**settings)
        self._content_based = merged.content_based_deduplication
        attributes = {
            "VisibilityTimeout": int(merged.visibility_timeout.total_seconds()),
            "DelaySeconds": int(merged.delay.total_seconds()),
            "MessageRetentionPeriod": int(merged.retention.total_seconds()),
            "ContentBasedDeduplication": str(merged.content_based_deduplication).lower(),
            "DeduplicationScope": "messageGroup" if merged.deduplicate_by_group else "queue",
        }
        if merged.max_receive_count is not None:
            dead_arn = self._attributes(self.dead_url, "QueueArn")["QueueArn"]
            attributes["RedrivePolicy"] = (
                f'{{"deadLetterTargetArn": "{dead_arn}", "maxReceiveCount": "{merged.max_receive_count}"}}'
            )
        self.client.set_queue_attributes(
            QueueUrl=self.url, Attributes={name: str(value) for name, value in attributes.items()}
        )

    def send(self, body, *, group="A", deduplication_id=None):
        """Send one message, by default with a deduplication id of its own."""
        options = {}
        if deduplication_id is not None or not self._content_based:
            options["MessageDeduplicationId"] = deduplication_id or f"id-{next(self._ids)}"
        answer = self.client.send_message(
            QueueUrl=self.url, MessageBody=body, MessageGroupId=group, **options
        )
        return Sent(message_id=answer["MessageId"], sequence_number=int(answer["SequenceNumber"]))

    def receive(self, maximum=10, *, visibility=None, attempt=None):
        """Receive up to `maximum` messages."""
        return self._receive(self.url, maximum, visibility, attempt)

    def receive_dead(self):
        """Receive from the dead-letter queue."""
        return self._receive(self.dead_url, 10, None)

    def delete(self, handle):
        """Delete with a receipt handle."""
        self._call(self.client.delete_message, QueueUrl=self.url, ReceiptHandle=handle)

    def change_visibility(self, handle, seconds):
        """Let the visibility timeout end some seconds from now."""
        self._call(
            self.client.change_message_visibility,
            QueueUrl=self.url,
            ReceiptHandle=handle,
            VisibilityTimeout=seconds,
        )

    def purge(self):
        """Drop all messages."""
        self.client.purge_queue(QueueUrl=self.url)

    def counts(self):
        """Return the numbers of visible, in-flight and delayed messages."""
        names = [f"ApproximateNumberOfMessages{suffix}" for suffix in ("", "NotVisible", "Delayed")]
        found = self._attributes(self.url, *names)
        return tuple(int(found[name]) for name in names)

    def _attributes(self, url, *names):
        return self.client.get_queue_attributes(QueueUrl=url, AttributeNames=list(names))["Attributes"]

    def _receive(self, url, maximum, visibility, attempt=None):
        options = {} if visibility is None else {"VisibilityTimeout": visibility}
        if attempt is not None:
            options["ReceiveRequestAttemptId"] = attempt
        answer = self._call(
            self.client.receive_message,
            QueueUrl=url,
            MaxNumberOfMessages=maximum,
            MessageSystemAttributeNames=["All"],
            **options,
        )
        return [self._delivery(message) for message in answer.get("Messages", [])]

    @staticmethod
    def _call(action, **arguments):
        try:
            return action(**arguments)
        except ClientError as error:
            raise RefusedError(error.response["Error"]["Code"]) from error

    @staticmethod
    def _delivery(message):
        attributes = message["Attributes"]
        source = attributes.get("DeadLetterQueueSourceArn")
        return Delivery(
            body=message["Body"],
            group=attributes["MessageGroupId"],
            handle=message["ReceiptHandle"],
            message_id=message["MessageId"],
            deduplication_id=attributes["MessageDeduplicationId"],
            sequence_number=int(attributes["SequenceNumber"]),
            receive_count=int(attributes["ApproximateReceiveCount"]),
            sent_at=int(attributes["SentTimestamp"]) / 1000,
            first_received_at=int(attributes["ApproximateFirstReceiveTimestamp"]) / 1000,
            source=None if source is None else source.rpartition(":")[2],
        )
