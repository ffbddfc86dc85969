"""
Batch calls without botocore's cost per call: its endpoint, headers, credentials and signature on plain connections.

One thread keeps several calls on their way: it writes each request at once and waits for whichever answer comes
first. Against an endpoint that answers at once this takes a fifth of the time that boto3's client takes.
"""

from __future__ import annotations

import json
import logging
import selectors
import socket
import ssl
import time
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
from http.client import HTTPException, HTTPResponse
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError
from botocore.httpsession import get_cert_path
from botocore.parsers import create_parser
from urllib3.util.wait import wait_for_read

from lanes.aws.batch_calls import UNANSWERED, BatchCalls, CallEnded, ClientCalls, Entry
from lanes.aws.clients import CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS, Clients
from lanes.aws.errors import aws_errors, is_throttle
from lanes.aws.request_form import FormNotKnownError, RequestForm, batch_body, learn_form
from lanes.aws.sqs import SqsSender
from lanes.errors import AwsError
from lanes.outgoing import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mypy_boto3_sqs import SQSClient

    from lanes.aws.request_signature import Credentials

_logger = logging.getLogger(__name__)

OPERATION = "SendMessageBatch"
OK = 200
NO_SHAPE: Any = None


def open_calls(clients: Clients, *, concurrency: int) -> BatchCalls:
    """
    Open lean calls, or calls of boto3's client where those can't be: the log then says why.

    Args:
        clients: makes the client whose requests are meant.
        concurrency: most calls at once.
    """
    client = clients.sqs()
    try:
        with aws_errors(OPERATION):
            credentials = clients.credentials()
        form = learn_form(client, credentials())
        return LeanCalls(form, client=client, credentials=credentials, ca_bundle=clients.ca_bundle())
    except FormNotKnownError as reason:
        _logger.warning("sending through boto3's client, which takes more time a message: %s", reason)
        return ClientCalls(SqsSender(client), concurrency=concurrency)


@dataclass(slots=True)
class _Connection:
    socket: socket.socket
    number: int = 0
    entries: int = 0
    until: float = 0.0


class LeanCalls:
    """
    Makes batch calls on connections of its own; used by one thread.

    Args:
        form: of the requests.
        client: of boto3; its service model reads error answers.
        credentials: gives those of the moment, as botocore keeps them fresh.
        ca_bundle: certificates to trust; without it botocore's.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        form: RequestForm,
        *,
        client: SQSClient,
        credentials: Callable[[], Credentials],
        ca_bundle: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._form = form
        self._client = client
        self._credentials = credentials
        self._clock = clock
        self._tls = _tls_context(ca_bundle) if form.scheme == "https" else None
        self._selector = selectors.DefaultSelector()
        self._idle: deque[_Connection] = deque()
        self._failed: list[CallEnded] = []
        self._count = 0

    def start(self, queue_url: str, entries: Sequence[Entry]) -> int:
        """Start a call with up to ten entries and give its number."""
        self._count += 1
        body = batch_body(queue_url, entries)
        with aws_errors(OPERATION):
            credentials = self._credentials()
        request = self._form.request(body, credentials=credentials, now=datetime.now(UTC))
        try:
            connection = self._connection()
            connection.socket.sendall(request)
        except OSError as error:
            self._failed.append(CallEnded(number=self._count, error=_not_answered(error)))
            return self._count
        connection.number, connection.entries = self._count, len(entries)
        connection.until = self._clock() + READ_TIMEOUT_SECONDS
        self._selector.register(connection.socket, selectors.EVENT_READ, connection)
        return self._count

    def ended(self, timeout: float | None) -> list[CallEnded]:
        """Wait until a call is over or so many seconds have passed, and give those that are over."""
        if self._failed:
            failed, self._failed = self._failed, []
            return failed
        busy = [key.data for key in self._selector.get_map().values()]
        patience = min((connection.until for connection in busy), default=0.0) - self._clock()
        wait = max(0.0, patience if timeout is None else min(timeout, patience)) if busy else timeout
        ready = [key.data for key, _ in self._selector.select(wait)]
        ended = [self._read(connection) for connection in ready]
        if not ready:
            now = self._clock()
            late = [connection for connection in busy if connection.until <= now]
            ended = [self._drop(connection, TimeoutError("no answer in time")) for connection in late]
        return ended

    def close(self) -> None:
        """Close all connections."""
        for connection in [*self._idle, *(key.data for key in self._selector.get_map().values())]:
            connection.socket.close()
        self._idle.clear()
        self._selector.close()

    def _connection(self) -> _Connection:
        while self._idle:
            connection = self._idle.pop()
            if not wait_for_read(connection.socket, timeout=0):
                return connection
            # The server has closed it, or says something that nobody asked for.
            connection.socket.close()
        address = (self._form.host, self._form.port)
        plain = socket.create_connection(address, timeout=CONNECT_TIMEOUT_SECONDS)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        opened = plain if self._tls is None else self._tls.wrap_socket(plain, server_hostname=self._form.host)
        opened.settimeout(READ_TIMEOUT_SECONDS)
        return _Connection(opened)

    def _read(self, connection: _Connection) -> CallEnded:
        try:
            response = HTTPResponse(connection.socket, method="POST")
            response.begin()
            body = response.read()
        except (OSError, HTTPException) as error:
            return self._drop(connection, error)
        self._selector.unregister(connection.socket)
        if response.will_close:
            connection.socket.close()
        else:
            self._idle.append(connection)
        try:
            if response.status != OK:
                raise self._refusal(response, body)
            return CallEnded(number=connection.number, answers=_answers(body, connection.entries))
        except AwsError as error:
            return CallEnded(number=connection.number, error=error)

    def _drop(self, connection: _Connection, error: Exception) -> CallEnded:
        self._selector.unregister(connection.socket)
        connection.socket.close()
        return CallEnded(number=connection.number, error=_not_answered(error))

    def _refusal(self, response: HTTPResponse, body: bytes) -> AwsError:
        model = self._client.meta.service_model
        parser = create_parser(model.resolved_protocol)
        headers = {name.lower(): value for name, value in response.getheaders()}
        details = {"status_code": response.status, "headers": headers, "body": body, "context": {}}
        try:
            with aws_errors(OPERATION):
                parsed: Any = parser.parse(details, model.operation_model(OPERATION).output_shape or NO_SHAPE)
                raise ClientError(parsed, OPERATION)
        except AwsError as error:
            return error


def _answers(body: bytes, entries: int) -> list[Refused | None]:
    # AWS: a batch may fail in part while its HTTP status is 200 (API_SendMessageBatch).
    try:
        answer: dict[str, Any] = json.loads(body)
        answers: list[Refused | None] = [UNANSWERED] * entries
        for sent in answer.get("Successful") or ():
            answers[int(sent["Id"])] = None
        for failed in answer.get("Failed") or ():
            answers[int(failed["Id"])] = Refused(
                code=failed["Code"],
                reason=failed.get("Message", ""),
                retryable=not failed["SenderFault"] or is_throttle(failed["Code"]),
            )
    except (ValueError, TypeError, AttributeError, KeyError, IndexError) as error:
        raise AwsError(
            operation=OPERATION,
            code="ResponseParserError",
            message=str(error),
            retryable=True,
            answered=False,
        ) from error
    return answers


def _not_answered(error: Exception) -> AwsError:
    return AwsError(
        operation=OPERATION, code=type(error).__name__, message=str(error), retryable=True, answered=False
    )


def _tls_context(ca_bundle: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_bundle or get_cert_path(verify=True))
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context
