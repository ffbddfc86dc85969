"""
Who may call the servers of this machine: programs, and no web page.

A page in the developer's browser can send requests to loopback addresses, and can lead its own host name to 127.0.0.1
(DNS rebinding). A caller of the AWS server may create functions, and their code then runs here.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

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
