"""
The Lambda Runtime API of one execution environment, spoken over a loopback socket.

The thread that invokes also answers: it holds the runtime's open request for work and replies to it with
the event, so an invocation costs no other thread.
"""

import contextlib
import json
import selectors
import socket
import time
from dataclasses import dataclass
from enum import Enum
from typing import BinaryIO

from .account import HOST
from .callers import refusal_of

# AWS: paths of the Runtime API, "Using the Lambda runtime API for custom runtimes".
_NEXT = "/2018-06-01/runtime/invocation/next"
_INIT_ERROR = "/2018-06-01/runtime/init/error"
_ACCEPTED = b'{"status":"OK"}'


class RuntimeCall(Enum):
    """A call of the runtime."""

    NEXT = "next"
    RESPONSE = "response"
    ERROR = "error"
    INIT_ERROR = "init error"
    UNKNOWN = "unknown"


class RuntimeGoneError(Exception):
    """The process behind the runtime ended."""


@dataclass(slots=True, kw_only=True)
class RuntimeRequest:
    """One request of the runtime, open until `reply`."""

    call: RuntimeCall
    body: bytes
    connection: socket.socket

    def reply(self, status: str, body: bytes = _ACCEPTED, headers: tuple[tuple[str, str], ...] = ()) -> None:
        """Answer and close the connection; that the runtime is gone shows at its next request."""
        lines = [f"HTTP/1.1 {status}", *(f"{name}: {value}" for name, value in headers)]
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}", "Connection: close"]
        with contextlib.suppress(OSError), self.connection:
            self.connection.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def drop(self) -> None:
        """Close the connection without an answer."""
        self.connection.close()


class RuntimeApi:
    """
    Listens for one runtime process.

    Args:
        lifeline: a socket whose other end the process holds; it is closed when the process ends.
    """

    def __init__(self, *, lifeline: socket.socket) -> None:
        self._lifeline = lifeline
        self._listener = socket.create_server((HOST, 0), backlog=8)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(lifeline, selectors.EVENT_READ)

    @property
    def address(self) -> str:
        """Value of AWS_LAMBDA_RUNTIME_API."""
        return f"{HOST}:{self._listener.getsockname()[1]}"

    def next_request(self, *, until: float) -> RuntimeRequest | None:
        """
        Wait for the runtime's next request.

        Args:
            until: when to give up, on the monotonic clock.

        Returns:
            The request, or None when time is up.

        Raises:
            RuntimeGoneError: the process ended without saying anything more.
        """
        while True:
            ready = {key.fileobj for key, _ in self._selector.select(max(0.0, until - time.monotonic()))}
            if self._listener in ready:
                request = self._accept(until)
                if request is not None:
                    return request
            elif self._lifeline in ready:
                raise RuntimeGoneError
            elif time.monotonic() >= until:
                return None

    def _accept(self, until: float) -> RuntimeRequest | None:
        connection, _ = self._listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(max(0.001, until - time.monotonic()))
        try:
            with connection.makefile("rb") as stream:
                request, headers = _read(stream, connection)
        except (OSError, ValueError):
            # The process died while it spoke, or time ran out; the lifeline or the clock decides.
            connection.close()
            return None
        refusal = refusal_of(headers)
        if refusal is None:
            return request
        status, reason = refusal
        request.reply(status, json.dumps({"errorMessage": reason}).encode())
        return None

    def close(self) -> None:
        """Stop listening."""
        self._selector.close()
        self._listener.close()


def _read(stream: BinaryIO, connection: socket.socket) -> tuple[RuntimeRequest, dict[str, str]]:
    method, path, _ = stream.readline().decode("latin-1").split(" ", 2)
    headers: dict[str, str] = {}
    while (line := stream.readline().decode("latin-1").strip()) != "":
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    if "100-continue" in headers.get("expect", "").lower():
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    body = _body(stream, headers)
    return RuntimeRequest(call=_meaning(method, path), body=body, connection=connection), headers


def _body(stream: BinaryIO, headers: dict[str, str]) -> bytes:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        chunks = []
        while size := int(stream.readline().split(b";")[0], 16):
            chunks.append(_exactly(stream, size))
            stream.readline()
        return b"".join(chunks)
    return _exactly(stream, int(headers.get("content-length") or 0))


def _exactly(stream: BinaryIO, size: int) -> bytes:
    read = stream.read(size)
    if len(read) < size:
        raise ConnectionError("the runtime ended in the middle of a request")
    return read


def _meaning(method: str, path: str) -> RuntimeCall:
    if method == "GET" and path == _NEXT:
        return RuntimeCall.NEXT
    if method == "POST" and path == _INIT_ERROR:
        return RuntimeCall.INIT_ERROR
    verb = path.rpartition("/")[2]
    if method == "POST" and verb in {"response", "error"}:
        return RuntimeCall(verb)
    return RuntimeCall.UNKNOWN
