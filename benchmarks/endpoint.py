"""
An endpoint of SQS that takes the same short time for every call and keeps nothing; a process of its own.

`python -m benchmarks.endpoint [CALLS_A_SECOND]`: with a limit, calls beyond it are throttled as SQS does, and every
answer takes `LATENCY` seconds.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from functools import cache

LOOPBACK = "127.0.0.1"
# Of a call within a region.
LATENCY = 0.01
MESSAGE_ID = "219f8380-5770-4cc2-8c3e-5c715e145f5e"


def _response(body: dict[str, object], status: str = "200 OK") -> bytes:
    text = json.dumps(body).encode()
    head = (
        f"HTTP/1.1 {status}\r\nx-amzn-RequestId: 5f4bb2a1-3c52-5b6e-8e0f-e0b8b8a1a6aa\r\n"
        "Date: Fri, 02 Jan 2026 03:04:05 GMT\r\nContent-Type: application/x-amz-json-1.0\r\n"
        f"Content-Length: {len(text)}\r\nconnection: keep-alive\r\n\r\n"
    )
    return head.encode() + text


def _sent(**more: str) -> dict[str, str]:
    return {
        "MessageId": MESSAGE_ID,
        "MD5OfMessageBody": "5d41402abc4b2a76b9719d911017c592",
        "SequenceNumber": "18849496460467696128",
        **more,
    }


# Quotation marks inside of a body are escaped, so nothing there looks like this.
ENTRY_ID = re.compile(rb'"Id": "([^"]*)"')
ONE = _response(dict(_sent()))
# AWS: a call beyond the quota of a queue (Amazon SQS API Reference, "Common Errors").
THROTTLED = _response(
    {"__type": "com.amazonaws.sqs#RequestThrottled", "message": "Request is throttled."}, "400 Bad Request"
)


@cache
def _sent_batch(size: int, id_bytes: int) -> tuple[bytes, ...]:
    """Give the answer to a batch in the pieces between its ids, which are all of one length."""
    mark = "?" * id_bytes
    return tuple(_response({"Successful": [_sent(Id=mark)] * size}).split(mark.encode()))


def _answer(ids: list[bytes]) -> bytes:
    first, *others = _sent_batch(len(ids), len(ids[0]))
    return first + b"".join(one + piece for one, piece in zip(ids, others, strict=True))


LENGTH = b"content-length:"


class Limit:
    """
    A number of calls each second, of which a tenth may come at once.

    Args:
        per_second: of the calls; None for no limit.
    """

    def __init__(self, per_second: float | None) -> None:
        self.per_second = per_second
        self._left = 0.0
        self._at = time.monotonic()

    def allows(self) -> bool:
        """Count a call; return whether it is within the limit."""
        if self.per_second is None:
            return True
        now = time.monotonic()
        self._left = min(self.per_second / 10, self._left + (now - self._at) * self.per_second)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Calls(asyncio.Protocol):
    """Answers the calls of one connection."""

    def __init__(self, limit: Limit) -> None:
        self._buffer = bytearray()
        self._limit = limit

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep where answers go."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer the requests received in full."""
        self._buffer += data
        while True:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._buffer[:end]).lower()
            start = head.index(LENGTH) + len(LENGTH)
            length = int(head[start : head.find(b"\r\n", start) if head.find(b"\r\n", start) > 0 else end])
            if len(self._buffer) < end + 4 + length:
                return
            body = bytes(self._buffer[end + 4 : end + 4 + length])
            del self._buffer[: end + 4 + length]
            answer = _answer(ENTRY_ID.findall(body)) if b"sendmessagebatch" in head else ONE
            assert isinstance(self._transport, asyncio.WriteTransport)  # noqa: S101 - a connection is one
            if self._limit.per_second is None:
                self._transport.write(answer)
                continue
            answer = answer if self._limit.allows() else THROTTLED
            asyncio.get_running_loop().call_later(LATENCY, self._transport.write, answer)


async def serve(limit: Limit) -> None:
    """Serve until the process ends; the port is the first line printed."""
    server = await asyncio.get_running_loop().create_server(lambda: Calls(limit), LOOPBACK, 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(Limit(float(sys.argv[1]) if sys.argv[1:] else None)))
