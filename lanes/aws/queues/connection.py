"""A kept-alive connection with at most one request in progress, and its answers."""

from __future__ import annotations

import io
import re
import socket
import ssl
from dataclasses import dataclass
from functools import cache
from http.client import HTTPResponse
from typing import TYPE_CHECKING, Any

from botocore.httpsession import get_cert_path

from lanes.aws.clients import CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from _typeshed import WriteableBuffer

    from lanes.aws.queues.request_form import RequestForm

READ_BYTES = 256 * 1024
STATUS_OK = b"HTTP/1.1 200 "
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+) *\r\n", re.IGNORECASE)
DATE = re.compile(rb"\r\ndate: *([^\r]+)\r\n", re.IGNORECASE)
# Each of these ends the short way: the standard library reads chunks and compressed bodies.
UNUSUAL = re.compile(rb"\r\n(?:connection: *close|transfer-encoding:|content-encoding:)", re.IGNORECASE)
END_OF_HEAD = b"\r\n\r\n"


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
    One connection.

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

    @classmethod
    def open(
        cls,
        form: RequestForm,
        *,
        tls: ssl.SSLContext | None,
        timeouts: tuple[float, float] = (CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS),
    ) -> Connection:
        """
        Connect.

        Args:
            form: names the server.
            tls: settings for https.
            timeouts: seconds to wait for the connection, and for a part of an answer.

        Raises:
            OSError: the server can't be reached, or its certificate is wrong.
        """
        plain = socket.create_connection((form.host, form.port), timeout=timeouts[0])
        try:
            # Without it the kernel may keep the last part of a request until the server has acknowledged the one
            # before.
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            opened = plain if tls is None else tls.wrap_socket(plain, server_hostname=form.host)
        except OSError:
            plain.close()
            raise
        opened.settimeout(timeouts[1])
        return cls(opened)

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
                    status=200,
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


@cache
def tls_context(ca_bundle: str | None) -> ssl.SSLContext:
    """Return the settings for https: trusted are the certificates of a file, by default those of botocore."""
    context = ssl.create_default_context(cafile=ca_bundle or get_cert_path(verify=True))
    # AWS: endpoints refuse older versions (AWS security blog, TLS 1.2 to become the minimum).
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


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
