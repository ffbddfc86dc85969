"""
The form of a SendMessageBatch request, learned from one that botocore itself made, and its signature.

botocore resolves the endpoint, chooses protocol and headers and signs, once; the request is caught before it is
sent. Later requests are written after its likeness, and signed byte for byte like botocore's SigV4Auth, but much
faster. Where the likeness is not exact, `learn_form` says why.
"""

from __future__ import annotations

import hashlib
import hmac
import io
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from json.encoder import encode_basestring_ascii as quote
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.compat import HTTPHeaders
from botocore.utils import get_environ_proxies

from lanes.message import RUN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mypy_boto3_sqs import SQSClient

    from lanes.aws.queues.batch_calls import Entry

ALGORITHM = "AWS4-HMAC-SHA256"
DATE = "x-amz-date"
TOKEN = "x-amz-security-token"  # noqa: S105 - the name of a header


class Credentials(Protocol):
    """Frozen credentials of botocore."""

    @property
    def access_key(self) -> str | None:
        """The access key id."""

    @property
    def secret_key(self) -> str | None:
        """The secret access key."""

    @property
    def token(self) -> str | None:
        """The session token; None for permanent credentials."""


class RequestSignature:
    """
    Makes the headers that sign a request.

    Args:
        method: of every request.
        path: of every request, as it goes over the wire; none has a query.
        headers: those that are signed and stay the same, `host` among them.
        region: that the signature is for.
        service: that the signature is for.
    """

    def __init__(
        self, *, method: str, path: str, headers: Mapping[str, str], region: str, service: str
    ) -> None:
        self._method = method
        self._path = path
        # AWS: sequences of spaces count as one (IAM user guide, canonical request).
        self._headers = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
        self._region = region
        self._service = service
        self._key: tuple[str, str, bytes] = ("", "", b"")

    def with_target(self, old: str, new: str) -> RequestSignature:
        """Return the signature of requests whose headers have another text in place of one."""
        headers = {name: value.replace(old, new) for name, value in self._headers.items()}
        return RequestSignature(
            method=self._method, path=self._path, headers=headers, region=self._region, service=self._service
        )

    def headers(self, body: bytes, *, credentials: Credentials, now: datetime) -> dict[str, str]:
        """
        Give the headers to add for this body at this time, in UTC.

        AWS: the steps are those of IAM/UserGuide/reference_sigv-create-signed-request.
        """
        time = now.strftime("%Y%m%dT%H%M%SZ")
        scope = f"{time[:8]}/{self._region}/{self._service}/aws4_request"
        signed = self._headers | {DATE: time}
        if credentials.token:
            signed[TOKEN] = credentials.token
        names = sorted(signed)
        listed = ";".join(names)
        lines = "".join(f"{name}:{signed[name]}\n" for name in names)
        request = f"{self._method}\n{self._path}\n\n{lines}\n{listed}\n{hashlib.sha256(body).hexdigest()}"
        digest = hashlib.sha256(request.encode()).hexdigest()
        to_sign = f"{ALGORITHM}\n{time}\n{scope}\n{digest}"
        key = self._signing_key(credentials.secret_key or "", time[:8])
        signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
        added = {
            DATE: time,
            "authorization": f"{ALGORITHM} Credential={credentials.access_key}/{scope}, "
            f"SignedHeaders={listed}, Signature={signature}",
        }
        if credentials.token:
            added[TOKEN] = credentials.token
        return added

    def _signing_key(self, secret: str, day: str) -> bytes:
        known_secret, known_day, key = self._key
        # AWS: the key depends on secret, day, region and service (IAM user guide), so one serves a whole day.
        if (known_secret, known_day) != (secret, day):
            key = f"AWS4{secret}".encode()
            for part in (day, self._region, self._service, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._key = (secret, day, key)
        return key


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
