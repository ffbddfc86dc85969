"""
A deployed queue as an event source mapping polls it, and its records as Lambda sends them.

Speaks the JSON protocol of SQS over connections of its own: a call of boto3 costs this process a
millisecond and a half, more than the server needs for it, and a mapping makes two calls a batch.
"""

import contextlib
import http.client
import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self
from urllib.parse import urlparse

from lanes.mapping.event import polled_record
from lanes.mapping.rules import MappingSettings

from .account import MAPPING_KEY, REGION

# AWS: arn:partition:lambda:region:account:function:name, and :qualifier (Lambda API reference, FunctionArn).
_PARTS = 7


def without_qualifier(arn: str) -> str:
    """Return the ARN of the function itself."""
    return ":".join(arn.split(":")[:_PARTS])


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueMapping:
    """One deployed mapping: its settings, its queue and its function."""

    uuid: str
    queue_arn: str
    function_arn: str
    settings: MappingSettings

    @classmethod
    def from_api(cls, configuration: Mapping[str, Any]) -> Self:
        """Read an entry of ListEventSourceMappings."""
        return cls(
            uuid=configuration["UUID"],
            queue_arn=configuration["EventSourceArn"],
            function_arn=without_qualifier(configuration["FunctionArn"]),
            settings=MappingSettings.from_api(configuration),
        )

    @property
    def queue_name(self) -> str:
        """Name of the queue, the last part of its ARN."""
        return self.queue_arn.rpartition(":")[2]


@dataclass(frozen=True, slots=True)
class PolledMessage:
    """A message as ReceiveMessage returns it."""

    fields: Mapping[str, Any]

    @property
    def message_id(self) -> str:
        """Id of the message."""
        return str(self.fields["MessageId"])

    @property
    def receipt_handle(self) -> str:
        """Handle of this receive."""
        return str(self.fields["ReceiptHandle"])

    @property
    def group(self) -> str:
        """Message group; empty on a standard queue."""
        return str(self.fields.get("Attributes", {}).get("MessageGroupId", ""))

    def record(self, queue_arn: str) -> dict[str, Any]:
        """Return the record of the message in a Lambda event, attribute names in camel case."""
        return polled_record(self.fields, queue_arn=queue_arn)


# A mapping asks for every attribute of a message.
_EVERYTHING = ["All"]
_ANSWER_SECONDS = 30.0
_OK = 200


class PollError(RuntimeError):
    """The AWS server refused a call of a mapping, or is gone."""


class SqsQueue:
    """
    Receive and delete, the two calls of a mapping, and return messages; each thread has its own connection.

    Args:
        endpoint_url: of the AWS server.
        url: of the queue.
    """

    def __init__(self, *, endpoint_url: str, url: str) -> None:
        self.url = url
        self._host = urlparse(endpoint_url).netloc
        self._thread = threading.local()
        self._connections: list[http.client.HTTPConnection] = []

    def receive(self, *, limit: int, wait: timedelta) -> Sequence[PolledMessage]:
        """
        Long-poll for up to `limit` messages; none when the wait is over.

        Raises:
            PollError: the call failed.
        """
        answer = self._call(
            "ReceiveMessage",
            QueueUrl=self.url,
            MaxNumberOfMessages=limit,
            WaitTimeSeconds=int(wait.total_seconds()),
            MessageSystemAttributeNames=_EVERYTHING,
            MessageAttributeNames=_EVERYTHING,
        )
        return [PolledMessage(message) for message in answer.get("Messages") or ()]

    def delete(self, messages: Sequence[PolledMessage]) -> int:
        """
        Delete the messages; answers how many could not be deleted.

        Raises:
            PollError: the call failed.
        """
        entries = [
            {"Id": str(index), "ReceiptHandle": message.receipt_handle}
            for index, message in enumerate(messages)
        ]
        answer = self._call("DeleteMessageBatch", QueueUrl=self.url, Entries=entries)
        return len(answer.get("Failed") or ())

    def give_back(self, messages: Sequence[PolledMessage]) -> int:
        """Make the messages visible; answers how many were not visible yet."""
        given_back = 0
        for message in messages:
            # The receive may be over: another one has the message, or it is visible.
            with contextlib.suppress(PollError):
                handle = {"ReceiptHandle": message.receipt_handle, "VisibilityTimeout": 0}
                self._call("ChangeMessageVisibility", QueueUrl=self.url, **handle)
                given_back += 1
        return given_back

    def close(self) -> None:
        """Close the connections of all threads, once none of them calls any more."""
        for connection in self._connections:
            connection.close()

    def _call(self, operation: str, **parameters: Any) -> dict[str, Any]:
        connection = self._connection()
        try:
            connection.request("POST", "/", json.dumps(parameters), _headers(operation))
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise PollError(f"{operation}: {error or type(error).__name__}") from error
        if answer.status != _OK:
            raise PollError(f"{operation}: HTTP {answer.status} {body[:300].decode(errors='replace')}")
        parsed: dict[str, Any] = json.loads(body) if body else {}
        return parsed

    def _connection(self) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = getattr(self._thread, "connection", None)
        if connection is None:
            connection = http.client.HTTPConnection(self._host, timeout=_ANSWER_SECONDS)
            self._thread.connection = connection
            self._connections.append(connection)
        return connection


def _headers(operation: str) -> dict[str, str]:
    # The server looks at the key, the region and the service of a signature and never checks it.
    scope = f"{MAPPING_KEY}/20200101/{REGION}/sqs/aws4_request"
    return {
        "Authorization": f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host, Signature=none",
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": f"AmazonSQS.{operation}",
    }
