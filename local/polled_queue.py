"""A deployed queue as an event source mapping polls it."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

Received = Mapping[str, Any]

# What a mapping asks for: every attribute that SQS knows of a message.
_EVERYTHING = ["All"]


class SqsQueue:
    """
    Receive and delete, the two calls a mapping makes.

    Args:
        sqs: client of the AWS server, with a read timeout beyond the long poll.
        url: of the queue.
    """

    def __init__(self, *, sqs: Any, url: str) -> None:
        self._sqs = sqs
        self.url = url

    def receive(self, *, limit: int, wait: timedelta) -> Sequence[Received]:
        """Long-poll for up to `limit` messages; none when the wait is over."""
        answer = self._sqs.receive_message(
            QueueUrl=self.url,
            MaxNumberOfMessages=limit,
            WaitTimeSeconds=int(wait.total_seconds()),
            MessageSystemAttributeNames=_EVERYTHING,
            MessageAttributeNames=_EVERYTHING,
        )
        messages: Sequence[Received] = answer.get("Messages", [])
        return messages

    def delete(self, messages: Sequence[Received]) -> int:
        """Delete the messages; answers how many could not be deleted."""
        entries = [
            {"Id": str(index), "ReceiptHandle": message["ReceiptHandle"]}
            for index, message in enumerate(messages)
        ]
        answer = self._sqs.delete_message_batch(QueueUrl=self.url, Entries=entries)
        return len(answer.get("Failed", []))

    def visibility_timeout(self) -> timedelta:
        """The queue's own, which counts for every receive of a mapping."""
        names = ["VisibilityTimeout"]
        answer = self._sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)
        return timedelta(seconds=int(answer["Attributes"]["VisibilityTimeout"]))
