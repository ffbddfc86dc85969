"""
The form of a SendMessageBatch request, learned from one that botocore itself made.

botocore resolves the endpoint, chooses protocol and headers and signs, once; the request is caught before it is
sent. Later requests are written after its likeness. Where the likeness is not exact, `learn_form` says why.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from json.encoder import encode_basestring_ascii as quote
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.utils import get_environ_proxies

from lanes.aws.queues.request_signature import ALGORITHM, DATE, TOKEN, RequestSignature
from lanes.message import RUN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_sqs import SQSClient

    from lanes.aws.queues.batch_calls import Entry
    from lanes.aws.queues.request_signature import Credentials

LEARNED = "SendMessageBatch"
"""The operation of the request that is caught."""

NAMED = {DATE, TOKEN, "authorization", "content-length"}
CONSTANT = {"x-amz-target", "content-type", "x-amzn-query-mode", "user-agent"}
# Telemetry of botocore's own retries, which these requests do not go through.
LEFT_OUT = {"amz-sdk-invocation-id", "amz-sdk-request"}
# RFC 2606 reserves .invalid, so a request that slipped through would reach no server.
PROBE_QUEUE = "https://sqs.invalid/0/probe.fifo"


class FormNotKnownError(Exception):
    """The requests of botocore here are not understood."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestForm:
    """
    The common parts of all requests.

    Attributes:
        scheme: http or https.
        host: name of the server.
        port: its port.
        head: first line and constant headers, as they go over the wire.
        signature: signs what is written.
    """

    scheme: str
    host: str
    port: int
    head: str
    signature: RequestSignature

    def of(self, operation: str) -> RequestForm:
        """Return the form of another operation of SQS."""
        learned, wanted = f".{LEARNED}", f".{operation}"
        return replace(
            self,
            head=self.head.replace(learned, wanted),
            signature=self.signature.with_target(learned, wanted),
        )

    def request(self, body: bytes, *, credentials: Credentials, now: datetime) -> bytes:
        """Return the bytes of a request."""
        added = self.signature.headers(body, credentials=credentials, now=now)
        lines = "".join(f"{name}: {value}\r\n" for name, value in added.items())
        return f"{self.head}{lines}content-length: {len(body)}\r\n\r\n".encode("latin-1") + body


def batch_body(queue_url: str, entries: Sequence[Entry], *, prefix: str = "") -> bytes:
    """Write the JSON of a batch, byte for byte like botocore; the entries' ids are a prefix and their positions."""
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


def learn_form(caught: AWSPreparedRequest, client: SQSClient, credentials: Credentials) -> RequestForm:
    """
    Derive the form from a caught request.

    Args:
        caught: a request of the client.
        client: of boto3, for the place where messages go.
        credentials: those that the client signs with.

    Raises:
        FormNotKnownError: requests of this client are of another form, with the reason.
    """
    url = urlsplit(str(caught.url))
    if getattr(client.meta.config, "proxies", None) or get_environ_proxies(str(caught.url)):
        raise FormNotKnownError("requests go through a proxy")
    if getattr(client.meta.config, "client_cert", None):
        raise FormNotKnownError("a client certificate is set")
    headers = {name.lower(): _text(value) for name, value in caught.headers.items()}
    unknown = headers.keys() - NAMED - CONSTANT - LEFT_OUT
    if unknown or url.query or caught.method != "POST":
        raise FormNotKnownError(f"requests have {', '.join(sorted(unknown)) or 'another method or a query'}")
    authorization = headers.get("authorization", "")
    if not authorization.startswith(ALGORITHM + " "):
        raise FormNotKnownError("requests are not signed by Signature Version 4")
    constant = {name: headers[name] for name in sorted(CONSTANT & headers.keys())}
    signed = authorization.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    region, service = authorization.partition("Credential=")[2].split("/")[2:4]
    form = RequestForm(
        scheme=url.scheme,
        host=url.hostname or "",
        port=url.port or (443 if url.scheme == "https" else 80),
        head=_head(url.path or "/", url.netloc, constant),
        signature=RequestSignature(
            method="POST",
            path=url.path or "/",
            headers={
                name: {"host": url.netloc, **constant}.get(name, "") for name in signed if name not in NAMED
            },
            region=region,
            service=service,
        ),
    )
    _compare(form, headers, _body(caught), credentials)
    return form


def caught_request(client: SQSClient) -> AWSPreparedRequest:
    """
    Let a client make a request, and catch it before it is sent.

    Raises:
        FormNotKnownError: no request is made.
    """
    caught: list[AWSPreparedRequest] = []

    def catch(request: AWSPreparedRequest, **_: Any) -> Any:
        caught.append(request)
        return AWSResponse(str(request.url), 200, HTTPHeaders(), _NoAnswer(b"{}"))

    # First: botocore takes the first answer, and another handler, such as that of a mock, would give one.
    client.meta.events.register_first(f"before-send.sqs.{LEARNED}", catch)
    try:
        client.send_message_batch(
            QueueUrl=PROBE_QUEUE,
            # A quotation mark and a letter outside ASCII: writers of JSON differ in these.
            Entries=[{"Id": "0", "MessageBody": '"é', "MessageGroupId": "g", "MessageDeduplicationId": "d"}],
        )
    finally:
        client.meta.events.unregister("before-send.sqs.SendMessageBatch", catch)
    if len(caught) != 1:
        raise FormNotKnownError("botocore answers by itself")
    return caught[0]


def _compare(form: RequestForm, headers: dict[str, str], body: bytes, credentials: Credentials) -> None:
    """Write the caught request again and compare, to detect any other influence on it."""
    written = batch_body(PROBE_QUEUE, [_Probe()])
    if written != body:
        raise FormNotKnownError("the body is written in another way")
    try:
        now = datetime.strptime(headers[DATE], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except (KeyError, ValueError):
        raise FormNotKnownError("requests carry another date") from None
    added = form.signature.headers(body, credentials=credentials, now=now)
    if any(headers.get(name) != value for name, value in added.items()):
        raise FormNotKnownError("requests are signed in another way")


class _Probe:
    body = '"é'
    message_group_id = "g"
    message_deduplication_id = "d"
    run = ""


class _NoAnswer(io.BytesIO):
    def stream(self, **_: Any) -> Any:
        yield self.read()


def _head(path: str, host: str, constant: dict[str, str]) -> str:
    lines = "".join(f"{name}: {value}\r\n" for name, value in constant.items())
    return f"POST {path} HTTP/1.1\r\nhost: {host}\r\naccept-encoding: identity\r\n{lines}"


def _body(request: AWSPreparedRequest) -> bytes:
    return request.body if isinstance(request.body, bytes) else str(request.body).encode()


def _text(value: bytes | str) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)
