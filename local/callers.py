"""
Who may call the servers of this machine, programs and no web page, and how often each does.

A page in the developer's browser can send requests to loopback addresses, and can lead its own host name to 127.0.0.1
(DNS rebinding). A caller of the AWS server may create functions, and their code then runs here.
"""

import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from threading import Lock
from typing import Any
from urllib.parse import parse_qs

from .account import HOST

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]

HEADERS = ("host", "origin", "sec-fetch-site")
"""Headers that show where a request comes from, in lower case. Scripts can't set or remove them (Fetch, "Forbidden
request-header")."""
_HOSTS = (HOST, "localhost")
_OWN_SITES = ("", "none", "same-origin")


def refusal_of(headers: Mapping[str, str]) -> tuple[str, str] | None:
    """
    Return status and reason if a request is refused, None if it is accepted.

    Args:
        headers: the request's values of `HEADERS`; one that it lacks may be missing or empty.
    """
    host, origin, site = (headers.get(name, "").strip().lower() for name in HEADERS)
    if host.partition(":")[0] not in _HOSTS:
        # HTTP: 421 is for a request that reached the wrong server (RFC 9110), as after DNS rebinding.
        return "421 Misdirected Request", _reason(f"the host {host!r}", "call 127.0.0.1 or localhost")
    if origin not in ("", f"http://{host}"):
        return "403 Forbidden", _reason(f"the origin {origin!r}", "web pages may not call it")
    if site not in _OWN_SITES:
        return "403 Forbidden", _reason(f"Sec-Fetch-Site: {site}", "web pages may not call it")
    return None


def _reason(what: str, advice: str) -> str:
    return f"this server of the local platform refuses {what}; {advice}"


class ProgramsOnly:
    """
    WSGI middleware that refuses requests of web pages, and removes headers that would let a page read an answer.

    Args:
        application: gets every other request.
    """

    def __init__(self, application: Application) -> None:
        self._application = application

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Pass the request on, or refuse it."""
        names = {name: "HTTP_" + name.upper().replace("-", "_") for name in HEADERS}
        refusal = refusal_of({name: environ.get(key, "") for name, key in names.items()})
        if refusal is None:
            return self._application(environ, _without_cors(start_response))
        status, reason = refusal
        body = reason.encode()
        start_response(status, [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
        return [body]


def _without_cors(start_response: Callable[..., Any]) -> Callable[..., Any]:
    """Moto's server lets every page read its answers (flask-cors)."""

    def start(status: str, headers: list[tuple[str, str]], *details: Any) -> Any:
        kept = [(name, value) for name, value in headers if not name.lower().startswith("access-control-")]
        return start_response(status, kept, *details)

    return start


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
