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
from functools import cached_property
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError
from urllib3.util.wait import wait_for_read

from lanes.aws.queues.connection import Connection, tls_context
from lanes.aws.queues.request_form import LEARNED, FormNotKnownError, caught_request, learn_form

if TYPE_CHECKING:
    from lanes.aws.clients import Clients
    from lanes.aws.queues.request_form import RequestForm

_logger = logging.getLogger(__name__)

OK = 200


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
        self._lean: _LeanCalls | None = None

    def receive_message(self, **parameters: Any) -> dict[str, Any]:
        """Receive as boto3's client does, but for binary attributes, which come in base64."""
        return self._make("ReceiveMessage", "receive_message", parameters)

    def delete_message_batch(self, **parameters: Any) -> dict[str, Any]:
        """Delete as boto3's client does."""
        return self._make("DeleteMessageBatch", "delete_message_batch", parameters)

    def change_message_visibility_batch(self, **parameters: Any) -> dict[str, Any]:
        """Change visibility timeouts as boto3's client does."""
        return self._make("ChangeMessageVisibilityBatch", "change_message_visibility_batch", parameters)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    @cached_property
    def _repeats(self) -> Any:
        """Make the remaining tries of a call: the lean one was the first."""
        tries = self._client.meta.config.retries["total_max_attempts"]
        return self._clients.sqs(tries=max(1, tries - 1))

    def _make(self, operation: str, method: str, parameters: dict[str, Any]) -> dict[str, Any]:
        lean = self._ready()
        if lean is None:
            answer: dict[str, Any] = getattr(self._client, method)(**parameters)
            return answer
        found = lean.make(operation, parameters)
        if found is None:
            found = getattr(self._repeats, method)(**parameters)
        return found

    def _ready(self) -> _LeanCalls | None:
        """Return the lean calls, if the requests of boto3's client are understood; they are learned once."""
        with self._lock:
            if self._lean is None:
                self._lean = _LeanCalls(self._client, self._clients)
        return self._lean if self._lean.is_known else None


class _LeanCalls:
    def __init__(self, client: Any, clients: Clients) -> None:
        self._client = client
        self._timeouts = client.meta.config.connect_timeout, client.meta.config.read_timeout
        self._idle: deque[Connection] = deque()
        weakref.finalize(self, _close, self._idle)
        self._forms: dict[str, RequestForm] = {}
        self._form: RequestForm | None = None
        try:
            self._caught = caught_request(client)
            self._credentials = clients.credentials()
            form = learn_form(self._caught, client, self._credentials())
            # A file without certificates is an OSError here; boto3's client reports it in its own words.
            self._tls = tls_context(clients.ca_bundle()) if form.scheme == "https" else None
        except (FormNotKnownError, BotoCoreError, ClientError, OSError) as reason:
            _logger.info("calling SQS through boto3's client, which takes more CPU time: %s", reason)
            return
        self._form = form

    @property
    def is_known(self) -> bool:
        """Whether the requests of boto3's client are understood."""
        return self._form is not None and not self._is_mocked()

    def make(self, operation: str, parameters: dict[str, Any]) -> dict[str, Any] | None:
        """Make a call; None if the answer is not a plain success, or there is none."""
        connection: Connection | None = None
        try:
            request = self._form_of(operation).request(
                json.dumps(parameters).encode(), credentials=self._credentials(), now=datetime.now(UTC)
            )
            connection = self._connection()
            connection.socket.sendall(request)
            answer = connection.read()
            found = _present(json.loads(answer.body)) if answer.status == OK else None
        except (OSError, HTTPException, BotoCoreError, ValueError, TypeError, AttributeError):
            found = None
        if connection is not None:
            # After any other answer nothing is known of what the connection holds.
            if found is None or answer.closes:
                connection.socket.close()
            else:
                self._idle.append(connection)
        return found

    def _is_mocked(self) -> bool:
        """Whether something answers in place of the network, such as moto, which a lean call would pass by."""
        answers = self._client.meta.events.emit(f"before-send.sqs.{LEARNED}", request=self._caught)
        return any(answer is not None for _, answer in answers)

    def _form_of(self, operation: str) -> RequestForm:
        if operation not in self._forms:
            assert self._form is not None  # noqa: S101 - see `is_known`
            self._forms[operation] = self._form.of(operation)
        return self._forms[operation]

    def _connection(self) -> Connection:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                assert self._form is not None  # noqa: S101 - see `is_known`
                return Connection.open(self._form, tls=self._tls, timeouts=self._timeouts)
            if not wait_for_read(connection.socket, timeout=0):
                return connection
            # The server has closed it, or says something without being asked.
            connection.socket.close()


def _close(connections: deque[Connection]) -> None:
    while connections:
        connections.pop().socket.close()


def _present(answer: dict[str, Any]) -> dict[str, Any]:
    """Leave out members without a value, as botocore's parser does."""
    return {name: value for name, value in answer.items() if value is not None}
