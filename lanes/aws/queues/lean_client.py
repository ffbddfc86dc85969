"""
The SQS calls that a slot repeats all day, without botocore's cost per call (docs/decisions/0011-lean-batch-calls.md).

boto3's client repeats every call that is not a plain success: it reads errors, retries and raises as ever. Each of
these calls may be repeated: a receive has an attempt id, and the others have no further effect.
"""

from __future__ import annotations

import json
import logging
import threading
import weakref
from collections import deque
from datetime import UTC, datetime
from functools import cache, cached_property
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError, ClientError
from urllib3.util.wait import wait_for_read

from lanes.aws.queues.wire import OK, Boto3NeededError, Connection, Endpoint

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest

    from lanes.aws.clients import Clients

_logger = logging.getLogger(__name__)


class LeanClient:
    """
    Client of SQS that makes its most frequent calls by itself; threads may share it.

    Args:
        clients: creates boto3's client.
    """

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._client: Any = clients.sqs()
        self._lock = threading.Lock()
        self._idle: deque[Connection] = deque()
        weakref.finalize(self, _close, self._idle)

    def receive_message(self, **parameters: Any) -> dict[str, Any]:
        """Receive as boto3's client does, but for binary attributes, which come in base64."""
        return self._make("ReceiveMessage", "receive_message", parameters)

    def delete_message_batch(self, **parameters: Any) -> dict[str, Any]:
        """Delete as boto3's client does."""
        return self._make("DeleteMessageBatch", "delete_message_batch", parameters)

    def change_message_visibility_batch(self, **parameters: Any) -> dict[str, Any]:
        """Change visibility timeouts as boto3's client does."""
        return self._make("ChangeMessageVisibilityBatch", "change_message_visibility_batch", parameters)

    @staticmethod
    def read(body: bytes) -> dict[str, Any]:
        """Read an answer as botocore's parser does, without members that have no value."""
        return {name: value for name, value in json.loads(body).items() if value is not None}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    @cached_property
    def _repeats(self) -> Any:
        """Make the remaining tries of a call: the lean one was the first."""
        tries = self._client.meta.config.retries["total_max_attempts"]
        return self._clients.sqs(tries=max(1, tries - 1))

    @cached_property
    def _endpoint(self) -> Endpoint | None:
        try:
            return Endpoint.of(self._clients, self._client)
        # A file without certificates is an OSError here; boto3's client reports it in its own words.
        except (Boto3NeededError, BotoCoreError, ClientError, OSError) as reason:
            _logger.info("calling SQS through boto3's client, which takes more CPU time: %s", reason)
            return None

    def _make(self, operation: str, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        with self._lock:
            endpoint = self._endpoint
        client = self._client
        if endpoint is not None and not self._is_mocked(endpoint.url):
            found = self._call(endpoint, operation, parameters)
            if found is not None:
                return found
            client = self._repeats
        answer: dict[str, Any] = getattr(client, method)(**parameters)
        return answer

    def _call(self, endpoint: Endpoint, operation: str, parameters: dict[str, Any]) -> dict[str, Any] | None:
        """Make a call; None if the answer is not a plain success, or there is none."""
        connection: Connection | None = None
        try:
            request = endpoint.request(operation, json.dumps(parameters).encode(), now=datetime.now(UTC))
            connection = self._connection(endpoint)
            connection.socket.sendall(request)
            answer = connection.read()
            found = self.read(answer.body) if answer.status == OK else None
        except (OSError, HTTPException, BotoCoreError, ValueError, TypeError, AttributeError):
            found = None
        if connection is not None:
            # After any other answer nothing is known of what the connection holds.
            if found is None or answer.closes:
                connection.socket.close()
            else:
                self._idle.append(connection)
        return found

    def _is_mocked(self, url: str) -> bool:
        """Whether something answers in place of the network, such as moto, which a lean call would bypass."""
        answers = self._client.meta.events.emit("before-send.sqs.ListQueues", request=_harmless(url))
        return any(answer is not None for _, answer in answers)

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
def _harmless(url: str) -> AWSPreparedRequest:
    """Return a request without effect."""
    return AWSRequest("POST", url, {"x-amz-target": "AmazonSQS.ListQueues"}, b"{}").prepare()


def _close(connections: deque[Connection]) -> None:
    while connections:
        connections.pop().socket.close()
