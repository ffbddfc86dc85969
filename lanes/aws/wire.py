"""Requests of SQS and DynamoDB in JSON, signed by Signature Version 4, on kept-alive connections of our own."""

from __future__ import annotations

import hashlib
import hmac
import io
import re
import socket
import ssl
from dataclasses import dataclass
from functools import cache
from http.client import HTTPResponse
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from botocore.httpsession import get_cert_path
from botocore.utils import get_environ_proxies

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from _typeshed import WriteableBuffer
    from botocore.credentials import ReadOnlyCredentials

    from lanes.aws.clients import Clients, Place

OK = 200
READ_BYTES = 256 * 1024
STATUS_OK = b"HTTP/1.1 200 "
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+) *\r\n", re.IGNORECASE)
DATE = re.compile(rb"\r\ndate: *([^\r]+)\r\n", re.IGNORECASE)
# Each of these ends the short way: the standard library reads chunks and compressed bodies.
UNUSUAL = re.compile(rb"\r\n(?:connection: *close|transfer-encoding:|content-encoding:)", re.IGNORECASE)
END_OF_HEAD = b"\r\n\r\n"

ALGORITHM = "AWS4-HMAC-SHA256"
CONTENT_TYPE = "application/x-amz-json-1.0"
TARGETS = {"sqs": "AmazonSQS", "dynamodb": "DynamoDB_20120810"}
# AWS: SQS answers a JSON request with the error codes of its query protocol if this is set, as SDKs do (API
# reference, "Making API requests using the AWS JSON protocol").
QUERY_MODE = {"sqs": "x-amzn-query-mode:true\n"}


class Boto3NeededError(Exception):
    """The connections here don't know what the client is configured for; the message says what."""


class Endpoint:
    """
    A service as boto3's clients reach it: address, region and timeouts; `url` is the address of each request.

    Args:
        place: of the service.
        credentials: returns the current credentials, refreshed by botocore.
        config: configuration of botocore with the timeouts.
        service: `sqs` or `dynamodb`.
        ca_bundle: file of trusted certificates; by default those of botocore.
        agent: the sender's name in the requests.

    Raises:
        Boto3NeededError: requests go through a proxy or show a client certificate.
        OSError: the certificates can't be read.
    """

    def __init__(
        self,
        place: Place,
        credentials: Callable[[], ReadOnlyCredentials],
        config: Any,
        *,
        service: str = "sqs",
        ca_bundle: str | None = None,
        agent: str = "lanes",
    ) -> None:
        address, self._region = place.address, place.region
        self._service, self._target = service, TARGETS[service]
        self._query_mode = QUERY_MODE.get(service, "")
        if config.proxies or get_environ_proxies(address):
            raise Boto3NeededError("requests go through a proxy")
        if config.client_cert:
            raise Boto3NeededError("a client certificate is set")
        url = urlsplit(address)
        self._name = url.hostname or ""
        self._port = url.port or (443 if url.scheme == "https" else 80)
        self._host, self._path = url.netloc, url.path or "/"
        self.url = f"{url.scheme}://{url.netloc}{self._path}"
        self._tls = _tls_context(ca_bundle) if url.scheme == "https" else None
        self._agent = agent
        self._timeouts = config.connect_timeout, config.read_timeout
        self._credentials = credentials
        self._key: tuple[str, str, bytes] = ("", "", b"")

    @classmethod
    def of(cls, clients: Clients, place: Place, service: str = "sqs") -> Endpoint:
        """
        Return the endpoint of a service, as these clients reach it.

        Raises:
            Boto3NeededError: as for a new one, or only botocore's rules know the address.
            OSError: the certificates can't be read.
        """
        # `meta.endpoint_url` of boto3's client has another one in GovCloud.
        if service == "dynamodb" and clients.has_variants:
            raise Boto3NeededError("a FIPS or dual-stack address is configured")
        return cls(
            place,
            clients.credentials(),
            clients.config,
            service=service,
            ca_bundle=clients.ca_bundle(),
            agent=clients.agent,
        )

    def connect(self) -> Connection:
        """
        Open a connection.

        Raises:
            OSError: the server can't be reached, or its certificate is wrong.
        """
        connect, read = self._timeouts
        plain = socket.create_connection((self._name, self._port), timeout=connect)
        try:
            # Without it the kernel may keep the last part of a request until the server has acknowledged the one
            # before.
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            opened = plain if self._tls is None else self._tls.wrap_socket(plain, server_hostname=self._name)
        except OSError:
            plain.close()
            raise
        opened.settimeout(read)
        return Connection(opened)

    def request(self, operation: str, body: bytes, *, now: datetime) -> bytes:
        """
        Write a request.

        AWS: the steps of its signature are those of IAM/UserGuide/reference_sigv-create-signed-request.

        Args:
            operation: of the service.
            body: its parameters as JSON.
            now: in UTC.

        Raises:
            BotoCoreError: there are no credentials.
        """
        credentials = self._credentials()
        target, time = f"{self._target}.{operation}", now.strftime("%Y%m%dT%H%M%SZ")
        scope = f"{time[:8]}/{self._region}/{self._service}/aws4_request"
        token = f"x-amz-security-token:{credentials.token}\n" if credentials.token else ""
        # In the order of the alphabet, as they are signed.
        headers = (
            f"content-type:{CONTENT_TYPE}\nhost:{self._host}\nx-amz-date:{time}\n{token}"
            f"x-amz-target:{target}\n{self._query_mode}"
        )
        signed = ";".join(line.partition(":")[0] for line in headers.splitlines())
        canonical = f"POST\n{self._path}\n\n{headers}\n{signed}\n{hashlib.sha256(body).hexdigest()}"
        digest = hashlib.sha256(canonical.encode()).hexdigest()
        key = self._signing_key(credentials.secret_key or "", time[:8])
        signature = hmac.digest(key, f"{ALGORITHM}\n{time}\n{scope}\n{digest}".encode(), "sha256").hex()
        lines = headers.replace("\n", "\r\n")
        return (
            f"POST {self._path} HTTP/1.1\r\n{lines}user-agent:{self._agent}\r\naccept-encoding:identity\r\n"
            f"authorization:{ALGORITHM} Credential={credentials.access_key}/{scope}, "
            f"SignedHeaders={signed}, Signature={signature}\r\ncontent-length:{len(body)}\r\n\r\n"
        ).encode("latin-1") + body

    def _signing_key(self, secret: str, day: str) -> bytes:
        known_secret, known_day, key = self._key
        # AWS: the key depends on secret, day, region and service (IAM user guide), so one serves a whole day.
        if (known_secret, known_day) != (secret, day):
            key = f"AWS4{secret}".encode()
            for part in (day, self._region, self._service, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._key = (secret, day, key)
        return key


@cache
def _tls_context(ca_bundle: str | None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=ca_bundle or get_cert_path(verify=True))
    # AWS: endpoints refuse older versions (AWS security blog, TLS 1.2 to become the minimum).
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An HTTP response; the headers of a plain success are left out, but for its date."""

    status: int
    body: bytes
    headers: Sequence[tuple[str, str]] = ()
    closes: bool = False
    date: str | None = None


@dataclass(slots=True, eq=False)
class Connection:
    """
    A kept-alive connection with at most one request in progress.

    Attributes:
        socket: to the server.
        number: number of the call in progress; 0 without one.
        entries: number of entries in that call.
        queue_url: the queue of that call.
        used_at: time of the last request.
    """

    socket: socket.socket
    number: int = 0
    entries: int = 0
    queue_url: str = ""
    used_at: float = 0.0

    def read(self) -> Answer:
        """
        Read the answer to the request in progress.

        A plain success in one piece is read here; the standard library reads all other answers.

        Raises:
            OSError: the connection broke.
            HTTPException: the answer is not an HTTP response.
        """
        start = self.socket.recv(READ_BYTES)
        end = start.find(END_OF_HEAD)
        if end >= 0 and start.startswith(STATUS_OK) and not UNUSUAL.search(start, 0, end + 2):
            length = LENGTH.search(start, 0, end + 2)
            if length is not None and len(start) == end + len(END_OF_HEAD) + int(length[1]):
                date = DATE.search(start, 0, end + 2)
                return Answer(
                    status=OK,
                    body=start[end + len(END_OF_HEAD) :],
                    date=None if date is None else date[1].decode("latin-1"),
                )
        response = HTTPResponse(_Stream(start, self.socket), method="POST")  # type: ignore[arg-type]
        response.begin()
        body = response.read()
        return Answer(
            status=response.status,
            body=body,
            headers=response.getheaders(),
            closes=response.will_close,
            date=response.getheader("date"),
        )


class _Stream(io.RawIOBase):
    """What was read already, then what the socket gives; as `HTTPResponse` asks a socket for it."""

    def __init__(self, start: bytes, rest: socket.socket) -> None:
        self._start = memoryview(start)
        self._rest = rest

    def makefile(self, _mode: str) -> io.BufferedReader:
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> Any:
        if not self._start:
            return self._rest.recv_into(buffer)
        target = memoryview(buffer).cast("B")
        size = min(len(target), len(self._start))
        target[:size] = self._start[:size]
        self._start = self._start[size:]
        return size
