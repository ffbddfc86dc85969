"""Counts AWS calls per access key id and operation, to separate the function's calls from others."""

import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any
from urllib.parse import parse_qs

from .callers import Application

CALLS_PATH = "/_lanes/calls"

Environ = dict[str, Any]
StartResponse = Callable[..., Any]

_CREDENTIAL = re.compile(r"Credential=([^/,\s]+)/[^/]+/[^/]+/([^/,\s]+)/")
_NOBODY = ("unsigned", "unknown")


class CallCounter:
    """
    WSGI middleware in front of the AWS server.

    `GET /_lanes/calls` answers `{access key id: {"sqs.ReceiveMessage": 12, ...}}`; `DELETE` answers the same
    and starts again from zero. Services that speak REST are counted by HTTP method: `s3.GET`.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self._lock = Lock()
        self._counts: dict[str, Counter[str]] = defaultdict(Counter)

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Count the call and pass it on, or answer for the counts."""
        if environ.get("PATH_INFO") == CALLS_PATH:
            return self._report(environ, start_response)
        key, operation = _identify(environ)
        with self._lock:
            self._counts[key][operation] += 1
        return self._application(environ, start_response)

    def _report(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        with self._lock:
            counted = {key: dict(counts) for key, counts in self._counts.items()}
            if environ["REQUEST_METHOD"] == "DELETE":
                self._counts.clear()
        body = json.dumps(counted).encode()
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        start_response("200 OK", headers)
        return [body]


def _identify(environ: Environ) -> tuple[str, str]:
    signed = _CREDENTIAL.search(environ.get("HTTP_AUTHORIZATION", ""))
    key, service = (signed.group(1), signed.group(2)) if signed else _NOBODY
    target = environ.get("HTTP_X_AMZ_TARGET")
    if target:
        return key, f"{service}.{target.rpartition('.')[2]}"
    return key, f"{service}.{_form_action(environ) or environ['REQUEST_METHOD']}"


def _form_action(environ: Environ) -> str | None:
    """The Action of a query request; its body is read here and put back for the server."""
    if not str(environ.get("CONTENT_TYPE", "")).startswith("application/x-www-form-urlencoded"):
        return None
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    environ["wsgi.input"] = io.BytesIO(body)
    return next(iter(parse_qs(body.decode(errors="replace")).get("Action", [])), None)
