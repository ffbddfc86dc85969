"""
Lines of functions: into files, and into the log groups of the AWS server, as Lambda brings them to CloudWatch Logs.

One thread puts them in batches, so that no function waits for its log. Lines to send and lines
stored are bounded.
"""

import logging
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TextIO

from botocore.exceptions import BotoCoreError, ClientError

from .account import LOGS_KEY
from .deployed import make_client

_logger = logging.getLogger(__name__)
_GATHER = 0.2
"""Seconds for which lines are gathered into one call."""
# AWS: a call takes 10,000 events and 1 MB, each event 26 bytes more than its text (PutLogEvents, API reference).
_MOST_IN_CALL, _MOST_BYTES, _EVENT_BYTES = 1_000, 1_000_000, 26
_MOST_WAITING = 50_000
_STREAM_LINES, _STREAMS = 10_000, 4

Line = tuple[str, int, str]
"""Log group, epoch milliseconds, text."""


class LogDelivery:
    """
    Delivers lines to log groups.

    A log group keeps the latest 40,000 lines, in streams that are deleted as a whole. Lines that wait to be
    delivered are dropped, the oldest first, once there are 50,000.

    Args:
        group_of: gives the log group of a function, by the function's name.
        clock: epoch seconds.
    """

    def __init__(self, *, group_of: Callable[[str], str], clock: Callable[[], float] = time.time) -> None:
        self._group_of = group_of
        self._clock = clock
        self._waiting: deque[Line] = deque(maxlen=_MOST_WAITING)
        self._latest = 0
        self._arrived = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._streams: dict[str, deque[str]] = defaultdict(deque)
        self._numbers: Counter[str] = Counter()
        self._room: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, function_name: str, line: str) -> None:
        """Take one line of a function; never waits."""
        group = self._group_of(function_name)
        with self._lock:
            # AWS: the events of one call are in the order of their times.
            self._latest = max(self._latest, int(self._clock() * 1000))
            self._waiting.append((group, self._latest, line))
        self._arrived.set()

    def start(self, endpoint_url: str) -> None:
        """Begin to deliver."""
        client = make_client("logs", endpoint_url, access_key=LOGS_KEY)
        self._thread = threading.Thread(
            target=self._deliver, args=(client,), name="deliver logs", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """End; lines that still wait are lost, as the server's own memory is."""
        self._stopped.set()
        self._arrived.set()
        if self._thread is not None:
            self._thread.join()

    def _deliver(self, client: Any) -> None:
        while not self._stopped.is_set():
            self._arrived.wait()
            self._stopped.wait(_GATHER)
            self._arrived.clear()
            with self._lock:
                lines = list(self._waiting)
                self._waiting.clear()
            try:
                self._put_all(client, lines)
            except (BotoCoreError, ClientError):
                # The border of a thread: a server that ends, or a group that was deleted, loses its lines.
                if not self._stopped.is_set():
                    _logger.warning("%d log lines could not be delivered", len(lines), exc_info=True)
                self._streams.clear()
                self._room.clear()

    def _put_all(self, client: Any, lines: Iterable[Line]) -> None:
        by_group: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for group, at, text in lines:
            by_group[group].append({"timestamp": at, "message": text or " "})
        for group, events in by_group.items():
            for batch in _batches(events):
                client.put_log_events(
                    logGroupName=group,
                    logStreamName=self._stream(client, group, len(batch)),
                    logEvents=batch,
                )

    def _stream(self, client: Any, group: str, lines: int) -> str:
        """Return a stream for so many lines; beyond it, the oldest is removed."""
        streams = self._streams[group]
        if self._room[group] < lines:
            if not streams:
                _ensure_group(client, group)
            self._numbers[group] += 1
            streams.append(f"local-{self._numbers[group]}")
            client.create_log_stream(logGroupName=group, logStreamName=streams[-1])
            self._room[group] = _STREAM_LINES
            if len(streams) > _STREAMS:
                client.delete_log_stream(logGroupName=group, logStreamName=streams.popleft())
        self._room[group] -= lines
        return streams[-1]


def _ensure_group(client: Any, group: str) -> None:
    # AWS: Lambda creates the default group of a function with its first lines (Lambda developer guide, "Sending logs").
    try:
        client.create_log_group(logGroupName=group)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceAlreadyExistsException":
            raise


def _batches(events: Iterable[dict[str, Any]]) -> Iterable[list[dict[str, Any]]]:
    batch: list[dict[str, Any]] = []
    size = 0
    for event in events:
        more = len(event["message"].encode()) + _EVENT_BYTES
        if batch and (len(batch) == _MOST_IN_CALL or size + more > _MOST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += more
    if batch:
        yield batch


class FunctionLog:
    """
    Appends lines to `<directory>/<function name>.log`, and hands them on.

    Args:
        directory: made with the first line; logs of an earlier run are overwritten.
        on_line: gets function name and line, in the thread that read it.
    """

    def __init__(self, directory: Path, *, on_line: Callable[[str, str], None] | None = None) -> None:
        self._directory = directory
        self._on_line = on_line
        self._files: dict[str, TextIO] = {}
        self._lock = threading.Lock()
        self._closed = False

    def write(self, function_name: str, line: str) -> None:
        """Take one line of a function."""
        with self._lock:
            if not self._closed:
                stream = self._files.get(function_name) or self._open(function_name)
                stream.write(line + "\n")
        if self._on_line is not None:
            self._on_line(function_name, line)

    def _open(self, function_name: str) -> TextIO:
        self._directory.mkdir(parents=True, exist_ok=True)
        stream = (self._directory / f"{function_name}.log").open("w", encoding="utf-8", buffering=1)
        self._files[function_name] = stream
        return stream

    def close(self) -> None:
        """Close the files; later lines are dropped."""
        with self._lock:
            self._closed = True
            for stream in self._files.values():
                stream.close()
