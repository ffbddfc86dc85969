"""
Which requests the page answers: those of its own scripts, on this machine, with the token that was printed.

Another site that the operator's browser has open can send requests here too, and a name that it controls can be made to
lead to 127.0.0.1 (DNS rebinding). So every request must name this page as its host, none may come from elsewhere, and
whatever reads or changes lanes needs the token, in a header that no other site can set without being asked first.
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
LARGEST_BODY_BYTES = 64 * 1024

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
}
"""What every answer carries: no script but our own, no frame, nothing kept by the browser."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a request is not answered."""

    status: int
    why: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """
    Decides about requests.

    Attributes:
        hosts: values of `Host` under which the page answers, such as `127.0.0.1:8320`.
        token: what the page's own scripts send along.
    """

    hosts: frozenset[str]
    token: str

    def refusal(self, method: str, path: str, headers: Mapping[str, str]) -> Refusal | None:
        """Tell why a request is refused, None where it is not; names of headers in small letters."""
        host = headers.get("host", "")
        if host not in self.hosts:
            return Refusal(
                status=421, why=f"this page is not {host!r}; open the address that lanes ui printed"
            )
        if headers.get("origin", f"http://{host}") != f"http://{host}":
            return ELSEWHERE
        return self._refuse_call(method, headers) if path.startswith(API) else _refuse_page(method, headers)

    def _refuse_call(self, method: str, headers: Mapping[str, str]) -> Refusal | None:
        """Refuse what does not come from the page's own scripts."""
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return ELSEWHERE
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
