"""
Correction of moto 5.2.5's server: connections stay open between requests.

Werkzeug's development server closes each connection, so every AWS call pays for a new one and a new thread,
which costs more than the call. Here the whole request is read before it is handled, so that the next one
starts clean, and the answer leaves in one write. Requests without a plain length take the usual way.
"""

import logging
from collections.abc import Callable
from http import HTTPStatus
from io import BytesIO
from typing import Any

from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.exceptions import InternalServerError

from .moto_version import check_moto_version

_MARK = "_lanes_keep_alive"
_SERVER_LOG = "werkzeug"
_FIRST_STATUS_WITH_BODY = 200


def install() -> None:
    """
    Correct moto's server in this process; calling it again changes nothing.

    Raises:
        MotoVersionError: another moto is installed than the one this correction was written for.
    """
    check_moto_version()
    if getattr(MotoRequestHandler, _MARK, False):
        return
    MotoRequestHandler.run_wsgi = _kept_alive(MotoRequestHandler.run_wsgi)
    # One small write per answer must not wait for the acknowledgement of the one before.
    MotoRequestHandler.disable_nagle_algorithm = True
    setattr(MotoRequestHandler, _MARK, True)


def _kept_alive(original: Callable[[Any], None]) -> Callable[[Any], None]:
    def run_wsgi(handler: Any) -> None:
        if "Transfer-Encoding" in handler.headers or "Expect" in handler.headers:
            original(handler)
            return
        length = int(handler.headers.get("Content-Length") or 0)
        body = handler.rfile.read(length)
        environ = handler.environ = handler.make_environ()
        environ["wsgi.input"] = BytesIO(body)
        answer = _Answer()
        try:
            content = answer.collect(handler.server.app, environ)
        except Exception:
            logging.getLogger(_SERVER_LOG).exception("Error on request")
            answer = _Answer()
            content = answer.collect(InternalServerError(), environ)
        handler.wfile.write(answer.encode(handler, content))
        if logging.getLogger(_SERVER_LOG).isEnabledFor(logging.INFO):
            handler.log_request(answer.status.partition(" ")[0], len(content))

    return run_wsgi


class _Answer:
    """Collects the answer of a WSGI application."""

    def __init__(self) -> None:
        self.status = ""
        self.headers: list[tuple[str, str]] = []
        self._written: list[bytes] = []

    def collect(self, application: Any, environ: dict[str, Any]) -> bytes:
        parts = application(environ, self._start)
        try:
            self._written.extend(parts)
        finally:
            if hasattr(parts, "close"):
                parts.close()
        return b"".join(self._written)

    def _start(
        self, status: str, headers: list[tuple[str, str]], _exception: object = None
    ) -> Callable[[bytes], None]:
        self.status, self.headers = status, headers
        return self._written.append

    def encode(self, handler: Any, content: bytes) -> bytes:
        code = int(self.status.partition(" ")[0])
        lines = [f"HTTP/1.1 {self.status}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        names = {name.lower() for name, _value in self.headers}
        if "server" not in names:
            lines.append(f"Server: {handler.server_version}")
        if "date" not in names:
            lines.append(f"Date: {handler.date_time_string()}")
        if "content-length" not in names and _may_have_body(code) and handler.command != "HEAD":
            lines.append(f"Content-Length: {len(content)}")
        if handler.close_connection:
            lines.append("Connection: close")
        head = "\r\n".join([*lines, "", ""]).encode("latin-1")
        return head if handler.command == "HEAD" else head + content


def _may_have_body(code: int) -> bool:
    return code >= _FIRST_STATUS_WITH_BODY and code not in {HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED}
