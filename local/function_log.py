"""Log files of the deployed functions: one a function, every line its processes print."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TextIO


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
