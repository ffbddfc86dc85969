"""
Accept only requests of the page's own scripts with the printed token.

Another site in the operator's browser can send requests to this server too, and can point its own host name to
127.0.0.1 (DNS rebinding). So every request must name this host and come from this page. Requests of the API also need
the token, in a header that another site can't set without a preflight request.
"""

from __future__ import annotations

import dataclasses
import hmac
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

TOKEN_HEADER = "x-lanes-token"  # noqa: S105 - the name of the header
API = "/api/"
JSON = "application/json"
# Requests are filters and ids; 64 KB hold a thousand ids.
LARGEST_BODY_BYTES = 64 * 1024

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        # Text of messages is shown on the page; with this no script can write it as HTML.
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
"""Headers of every answer: only our own scripts, no frames, no caching."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a request is refused."""

    status: int
    why: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """
    Decides about requests.

    Attributes:
        hosts: values of `Host` under which the page answers, such as `127.0.0.1:8320`.
        token: the token that the scripts of the page send.
    """

    hosts: frozenset[str]
    token: str

    def refusal(self, method: str, path: str, headers: Mapping[str, str]) -> Refusal | None:
        """Return why a request is refused; None if it is accepted. Names of headers are in lower case."""
        host = headers.get("host", "")
        # HTTP: 421 is for a request that reached the wrong server (RFC 9110), as after DNS rebinding.
        if host not in self.hosts:
            return Refusal(
                status=421, why=f"this page is not {host!r}; open the address that lanes ui printed"
            )
        if headers.get("origin", f"http://{host}") != f"http://{host}":
            return ELSEWHERE
        return self._refuse_call(method, headers) if path.startswith(API) else _refuse_page(method, headers)

    def _refuse_call(self, method: str, headers: Mapping[str, str]) -> Refusal | None:
        """Refuse requests that are not from the scripts of the page."""
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return ELSEWHERE
        # In constant time: one that ends at the first difference shows how much of a guess was right.
        if not hmac.compare_digest(headers.get(TOKEN_HEADER, "").encode(), self.token.encode()):
            return Refusal(status=401, why="the token is missing, or of an earlier run of lanes ui")
        if method != "POST":
            return Refusal(status=405, why=f"{method} is not answered")
        if headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            return Refusal(status=415, why=f"{JSON} is needed")
        return None


ELSEWHERE = Refusal(status=403, why="the request comes from another site")


def _refuse_page(method: str, headers: Mapping[str, str]) -> Refusal | None:
    """Refuse what other sites embed; a link that leads here opens the page, which shows nothing without the token."""
    if method not in ("GET", "HEAD"):
        return Refusal(status=405, why=f"{method} is not answered")
    opens = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not opens:
        return ELSEWHERE
    return None
