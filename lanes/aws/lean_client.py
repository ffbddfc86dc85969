"""
The calls that a function repeats all day, without botocore's cost per call (docs/decisions.md#lean-calls).

boto3's client repeats every call that is not a plain success or a condition that does not hold: it reads errors,
retries and raises as ever. Each of these calls may be repeated: a receive has an attempt id, a sent message its
deduplication id, a transaction a token, and the others have no further effect.
"""

from __future__ import annotations

import json
import logging
import threading
import weakref
from collections import deque
from datetime import UTC, datetime
from functools import cache, cached_property, partial
from http.client import HTTPException
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError, ClientError
from urllib3.util.wait import wait_for_read

from lanes.aws.wire import OK, Boto3NeededError, Connection, Endpoint

if TYPE_CHECKING:
    from collections.abc import Callable

    from botocore.awsrequest import AWSPreparedRequest

    from lanes.aws.clients import Clients, Place

_logger = logging.getLogger(__name__)


OPERATIONS = {
    "sqs": {
        "receive_message": "ReceiveMessage",
        "delete_message_batch": "DeleteMessageBatch",
        "delete_message": "DeleteMessage",
        "change_message_visibility_batch": "ChangeMessageVisibilityBatch",
        "change_message_visibility": "ChangeMessageVisibility",
        "get_queue_attributes": "GetQueueAttributes",
        "send_message_batch": "SendMessageBatch",
        "send_message": "SendMessage",
    },
    "dynamodb": {
        "get_item": "GetItem",
        "batch_get_item": "BatchGetItem",
        "put_item": "PutItem",
        "update_item": "UpdateItem",
        "delete_item": "DeleteItem",
        "transact_write_items": "TransactWriteItems",
        "query": "Query",
    },
}
"""The calls that are made here, by service and method of boto3's client."""

NAMES = {"sqs": "SQS", "dynamodb": "DynamoDB"}
HARMLESS = {"sqs": "AmazonSQS.ListQueues", "dynamodb": "DynamoDB_20120810.ListTables"}
TRANSACTION = "TransactWriteItems"
# AWS: neither is worth another try (DynamoDB developer guide, "Error handling").
REFUSALS = frozenset({"ConditionalCheckFailedException", "TransactionCanceledException"})


class _Meta:
    """The region and partition of boto3's client, which is made only for the rest of its metadata."""

    def __init__(self, place: Place, client: Callable[[], Any]) -> None:
        self.region_name, self.partition = place.region, place.partition
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client().meta, name)


class LeanClient:
    """
    Client of a service that makes its most frequent calls by itself; threads may share it.

    Values are those of boto3's client, but for binary ones, which are in base64.

    Args:
        clients: creates boto3's client, with a number of tries in its settings.
        service: `sqs` or `dynamodb`.
        near: URL of a queue, by which the usual address of the service is known without boto3's client.

    Raises:
        AwsError: as for boto3's client.
        ConfigurationError: as for boto3's client.
    """

    def __init__(self, clients: Clients, service: str = "sqs", *, near: str = "") -> None:
        self._clients = clients
        self._service = service
        self._operations = OPERATIONS[service]
        self._place = clients.place(service, near=near)
        self._lock = threading.Lock()
        self._idle: deque[Connection] = deque()
        weakref.finalize(self, _close, self._idle)

    def __getattr__(self, name: str) -> Any:
        operation = self._operations.get(name)
        return getattr(self._client, name) if operation is None else partial(self._make, operation, name)

    @property
    def meta(self) -> Any:
        """What boto3's client says of itself."""
        return _Meta(self._place, lambda: self._client)

    @cached_property
    def _client(self) -> Any:
        return self._clients.operations(self._service)

    @cached_property
    def _repeats(self) -> Any:
        """Make the remaining tries of a call: the lean one was the first."""
        tries = self._clients.config.retries["total_max_attempts"] - 1
        return self._clients.operations(self._service, tries=max(1, tries))

    @cached_property
    def _endpoint(self) -> Endpoint | None:
        try:
            return Endpoint.of(self._clients, self._place, self._service)
        # A file without certificates is an OSError here; boto3's client reports it in its own words.
        except (Boto3NeededError, BotoCoreError, ClientError, OSError) as reason:
            _logger.info(
                "calling %s through boto3's client, which takes more CPU time: %s",
                NAMES[self._service],
                reason,
            )
            return None

    def _make(self, operation: str, method: str, **parameters: Any) -> dict[str, Any]:
        with self._lock:
            endpoint = self._endpoint
        # moto is to answer for AWS here, too.
        if endpoint is None or self._clients.answers(self._service, _harmless(self._service, endpoint.url)):
            with self._lock:
                client = self._client
        else:
            if operation == TRANSACTION:
                # botocore gives one to each call; a second try must have that of the first.
                parameters.setdefault("ClientRequestToken", str(uuid4()))
            found = self._call(endpoint, operation, parameters)
            if found is not None:
                return found
            with self._lock:
                client = self._repeats
        answer: dict[str, Any] = getattr(client, method)(**parameters)
        return answer

    def _call(self, endpoint: Endpoint, operation: str, parameters: dict[str, Any]) -> dict[str, Any] | None:
        """
        Make a call; None if boto3's client has to repeat it.

        Raises:
            ClientError: a condition does not hold, or a transaction is cancelled.
        """
        connection: Connection | None = None
        refusal: ClientError | None = None
        try:
            request = endpoint.request(operation, json.dumps(parameters).encode(), now=datetime.now(UTC))
            connection = self._connection(endpoint)
            connection.socket.sendall(request)
            answer = connection.read()
            found: dict[str, Any] | None = self.read(answer.body)
            if answer.status != OK:
                refusal = _refusal(operation, answer.status, found or {})
                found = None if refusal is None else found
        except (OSError, HTTPException, BotoCoreError, ValueError, TypeError, AttributeError):
            found = None
        if connection is not None:
            # After any other answer nothing is known of what the connection holds.
            if found is None or answer.closes:
                connection.socket.close()
            else:
                self._idle.append(connection)
        if refusal is not None:
            raise refusal
        return found

    @staticmethod
    def read(body: bytes) -> dict[str, Any]:
        """Read an answer as botocore's parser does, without members that have no value."""
        return {name: value for name, value in json.loads(body).items() if value is not None}

    def _connection(self, endpoint: Endpoint) -> Connection:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return endpoint.connect()
            if not wait_for_read(connection.socket, timeout=0):
                return connection
            # The server has closed it, or says something without being asked.
            connection.socket.close()


@cache
def _harmless(service: str, url: str) -> AWSPreparedRequest:
    """Return a request without effect to an address."""
    return AWSRequest("POST", url, {"x-amz-target": HARMLESS[service]}, b"{}").prepare()


def _refusal(operation: str, status: int, answer: dict[str, Any]) -> ClientError | None:
    """Return the error of an answer that another try would not change; None for any other."""
    code = str(answer.get("__type", "")).rpartition("#")[2]
    if code not in REFUSALS:
        return None
    error = {"Code": code, "Message": str(answer.get("message") or answer.get("Message") or "")}
    response: Any = {**answer, "Error": error, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(response, operation)


def _close(connections: deque[Connection]) -> None:
    while connections:
        connections.pop().socket.close()
