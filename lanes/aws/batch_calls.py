"""
Batch calls of bulk senders: several in progress at once, answered in any order.

`LeanCalls` makes them in one thread without botocore's cost per call (docs/decisions.md#lean-calls): it
writes each request at once and waits for the first answer. Against an endpoint that answers at once, this takes a
fifth of the time of boto3's client, which is used where it is needed.
"""

from __future__ import annotations

import json
import logging
import selectors
import time
from collections import deque
from datetime import UTC, datetime
from http.client import HTTPException
from json.encoder import encode_basestring_ascii as quote
from typing import TYPE_CHECKING, Any, Protocol

from botocore.exceptions import ClientError
from botocore.parsers import create_parser
from urllib3.util.wait import wait_for_read

from lanes.aws.bell import SenderBell, sender_bell
from lanes.aws.clients import READ_TIMEOUT_SECONDS, Clients, place_of
from lanes.aws.errors import aws_errors
from lanes.aws.sending import SqsSender
from lanes.aws.wire import OK, Answer, Boto3NeededError, Connection, Endpoint
from lanes.errors import AwsError
from lanes.fault_codes import may_pass
from lanes.message import RUN
from lanes.producer.outgoing import ACCEPTED, UNANSWERED, CallEnded, Refused
from lanes.producer.sending import ThreadedCalls

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mypy_boto3_sqs import SQSClient

    from lanes.config.deployment import Deployment
    from lanes.producer.outgoing import Accepted, BatchCalls, SendEntry

_logger = logging.getLogger(__name__)

OPERATION = "SendMessageBatch"
# A connection that was used within this time is taken as open without a look.
FRESH_SECONDS = 1.0
NO_SHAPE: Any = None


class Entry(Protocol):
    """A message, for a batch call; `run` is the mark of its run, empty for none."""

    body: str
    message_group_id: str
    message_deduplication_id: str
    run: str

    def entry(self, entry_id: str) -> SendEntry:
        """Return it as boto3's client takes it."""


def open_calls(
    clients: Clients, *, concurrency: int, deployment: Deployment | None = None
) -> BatchCalls[Entry]:
    """
    Open lean calls, or calls of boto3's client if the configuration needs it; the log has the reason.

    Args:
        clients: creates the client.
        concurrency: maximum number of calls in progress.
        deployment: its bell, if it has one, is rung while you send; by default none is.
    """
    client = clients.sqs()
    bell = SenderBell() if deployment is None else sender_bell(deployment, client)
    try:
        with aws_errors(OPERATION):
            return LeanCalls(Endpoint.of(clients, place_of(client)), client=client, bell=bell)
    except Boto3NeededError as reason:
        _logger.warning("sending through boto3's client, which takes more time a message: %s", reason)
        return ThreadedCalls(SqsSender(client, bell), concurrency=concurrency)


class LeanCalls:
    """
    Makes batch calls on connections of its own; used by one thread.

    Args:
        endpoint: writes the requests, and opens connections.
        client: client of boto3; its service model reads error answers.
        bell: rung for accepted messages.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        client: SQSClient,
        bell: SenderBell,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._endpoint = endpoint
        self._client = client
        self._bell = bell
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._idle: deque[Connection] = deque()
        self._busy: dict[int, Connection] = {}
        self._failed: list[CallEnded] = []
        self._count = 0

    def start(self, queue_url: str, entries: Sequence[Entry]) -> int:
        """Start a call with up to ten entries and return its number."""
        self._count += 1
        body = batch_body(queue_url, entries, prefix=_prefix(self._count))
        with aws_errors(OPERATION):
            request = self._endpoint.request(OPERATION, body, now=datetime.now(UTC))
        connection: Connection | None = None
        try:
            connection = self._connection()
            connection.socket.sendall(request)
        except OSError as error:
            if connection is not None:
                self._close(connection)
            self._failed.append(CallEnded(number=self._count, error=_not_answered(error)))
            return self._count
        connection.number, connection.entries, connection.queue_url = self._count, len(entries), queue_url
        connection.used_at = self._clock()
        self._busy[self._count] = connection
        return self._count

    def ended(self, timeout: float | None) -> list[CallEnded]:
        """Wait until a call ends or the timeout has passed, and return the calls that ended."""
        if self._failed:
            failed, self._failed = self._failed, []
            return failed
        # Dictionaries keep the order of insertion, so the first call is the oldest.
        oldest = next(iter(self._busy.values()), None)
        if oldest is not None:
            remaining = max(0.0, oldest.used_at + READ_TIMEOUT_SECONDS - self._clock())
            timeout = remaining if timeout is None else min(timeout, remaining)
        ready = [key.data for key, _ in self._selector.select(timeout)]
        for connection in [connection for connection in ready if not connection.number]:
            # The server closes what was idle for long.
            self._idle.remove(connection)
            self._close(connection)
        ended = [self._read(connection) for connection in ready if connection.number]
        if not ended and oldest is not None and oldest.used_at + READ_TIMEOUT_SECONDS <= self._clock():
            return [self._drop(oldest, TimeoutError("no answer in time"))]
        return ended

    def close(self) -> None:
        """Close all connections."""
        for connection in [*self._idle, *self._busy.values()]:
            self._close(connection)
        self._idle.clear()
        self._busy.clear()
        self._selector.close()

    def _connection(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            fresh = self._clock() - connection.used_at < FRESH_SECONDS
            if fresh or not wait_for_read(connection.socket, timeout=0):
                return connection
            # The server has closed it, or says something without being asked.
            self._close(connection)
        connection = self._endpoint.connect()
        self._selector.register(connection.socket, selectors.EVENT_READ, connection)
        return connection

    def _read(self, connection: Connection) -> CallEnded:
        try:
            answer = connection.read()
        except (OSError, HTTPException) as error:
            return self._drop(connection, error)
        ended = self._ended(answer, self._release(connection), connection)
        # An answer that isn't the call's own may be followed by the one that is.
        if answer.closes or (isinstance(ended.error, AwsError) and not ended.error.answered):
            self._close(connection)
        else:
            self._idle.append(connection)
        return ended

    def _ended(self, answer: Answer, number: int, connection: Connection) -> CallEnded:
        try:
            if answer.status != OK:
                raise self._refusal(answer)
            answers = _answers(answer.body, number, connection.entries)
        except AwsError as error:
            return CallEnded(number=number, error=error)
        if accepted := answers.count(ACCEPTED):
            self._bell.answered(connection.queue_url, answer.date, messages=accepted)
        return CallEnded(number=number, answers=answers)

    def _drop(self, connection: Connection, error: Exception) -> CallEnded:
        number = self._release(connection)
        self._close(connection)
        return CallEnded(number=number, error=_not_answered(error))

    def _release(self, connection: Connection) -> int:
        number, connection.number = connection.number, 0
        del self._busy[number]
        return number

    def _close(self, connection: Connection) -> None:
        self._selector.unregister(connection.socket)
        connection.socket.close()

    def _refusal(self, answer: Answer) -> AwsError:
        model = self._client.meta.service_model
        parser = create_parser(model.resolved_protocol)
        headers = {name.lower(): value for name, value in answer.headers}
        details = {"status_code": answer.status, "headers": headers, "body": answer.body, "context": {}}
        try:
            with aws_errors(OPERATION):
                parsed: Any = parser.parse(details, model.operation_model(OPERATION).output_shape or NO_SHAPE)
                raise ClientError(parsed, OPERATION)
        except AwsError as error:
            return error


def batch_body(queue_url: str, entries: Sequence[Entry], *, prefix: str = "") -> bytes:
    """Write the JSON of a batch, in half of json's time; the entries' ids are a prefix and their positions."""
    written = ", ".join(
        f'{{"Id": "{prefix}{place}", "MessageBody": {quote(entry.body)}, '
        f'"MessageGroupId": {quote(entry.message_group_id)}, '
        f'"MessageDeduplicationId": {quote(entry.message_deduplication_id)}{_attributes(entry.run)}}}'
        for place, entry in enumerate(entries)
    )
    return f'{{"QueueUrl": {quote(queue_url)}, "Entries": [{written}]}}'.encode()


def _attributes(run: str) -> str:
    if not run:
        return ""
    value = f'{{"DataType": "String", "StringValue": {quote(run)}}}'
    return f', "MessageAttributes": {{"{RUN}": {value}}}'


def _prefix(number: int) -> str:
    """Return the prefix of the ids of a call's entries, so that answers of different calls can't be mixed up."""
    return f"{number}-"


def _answers(body: bytes, number: int, entries: int) -> list[Accepted | Refused]:
    # AWS: a batch may fail in part while its HTTP status is 200 (API_SendMessageBatch).
    places = {f"{_prefix(number)}{place}": place for place in range(entries)}
    try:
        answer: dict[str, Any] = json.loads(body)
        answers: list[Accepted | Refused] = [UNANSWERED] * entries
        for sent in answer.get("Successful") or ():
            answers[places[sent["Id"]]] = ACCEPTED
        for failed in answer.get("Failed") or ():
            answers[places[failed["Id"]]] = Refused(
                code=failed["Code"],
                reason=failed.get("Message", ""),
                retryable=may_pass(failed["Code"], sender_fault=failed["SenderFault"]),
            )
    except (ValueError, TypeError, AttributeError, KeyError) as error:
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
