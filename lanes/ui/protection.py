"""
The page's address on this machine, and who may ask it: only its own scripts, with the printed token.

Another site in the operator's browser can send requests to this server too, and can point its own host name to
127.0.0.1 (DNS rebinding). So every request must name this host and come from this page. Requests of the API also need
the token, in a header that another site can't set without a preflight request.

A page for a team has no token: a proxy signs users in, and proves each request to be its own with a shared secret.
"""

from __future__ import annotations

import dataclasses
import hmac
import ipaddress
import secrets
import socket
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol, Self

from lanes.errors import ConfigurationError, LanesError

if TYPE_CHECKING:
    from collections.abc import Mapping

LOCALHOST = "localhost"
# 256 bits, as `secrets` recommends for tokens.
TOKEN_BYTES = 32


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """
    A listening address and the token that opens the page there.

    Attributes:
        socket: the listening socket.
        host: the host of the address, an IPv6 one in brackets.
        port: the port of the socket.
        token: a new token at each start.
    """

    socket: socket.socket
    host: str
    port: int
    token: str

    @classmethod
    def take(cls, host: str, port: int, *, is_for_team: bool = False) -> Self:
        """
        Take a port of this machine.

        Args:
            host: a loopback address, or localhost; for a team, any address of this machine.
            port: 0 for a free one.
            is_for_team: whether a proxy that signs users in is in front of the page.

        Raises:
            ConfigurationError: the host is not such an address.
            LanesError: the port is not available.
        """
        address = _address(host, is_for_team=is_for_team)
        family = socket.AF_INET6 if address.version == 6 else socket.AF_INET  # noqa: PLR2004 - IPv6
        listener = socket.socket(family, socket.SOCK_STREAM)
        # A restart may take the port of the run before, while its connections wait for their end.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((str(address), port))
            # Two programs may bind one port until the first of them listens.
            listener.listen()
        except OSError as error:
            listener.close()
            raise LanesError(
                f"port {port} of {address} is not available: {error.strerror}; choose another one with --port, "
                f"or leave it out to get a free one"
            ) from error
        shown = f"[{address}]" if address.version == 6 else str(address)  # noqa: PLR2004 - IPv6
        taken = int(listener.getsockname()[1])
        return cls(socket=listener, host=shown, port=taken, token=secrets.token_urlsafe(TOKEN_BYTES))

    @property
    def hosts(self) -> frozenset[str]:
        """The values of the header `Host` that name this address."""
        return frozenset({f"{self.host}:{self.port}", f"{LOCALHOST}:{self.port}"})

    @property
    def url(self) -> str:
        """
        The address to open in a browser.

        The token follows `#`: browsers send that part to no server and write it to no log.
        """
        return f"http://{self.host}:{self.port}/#token={self.token}"


def _address(host: str, *, is_for_team: bool) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == LOCALHOST else host.strip("[]"))
    except ValueError:
        address = None
    if address is None or not (address.is_loopback or is_for_team):
        needed = "an IP address" if is_for_team else "a loopback address"
        problem = (
            f"{host!r} is not {needed}; the page acts with your AWS credentials, so give 127.0.0.1 or ::1. "
            f"To open it from another machine, forward a port: ssh -L 8320:127.0.0.1:8320 HOST; for a team see --serve"
        )
        raise ConfigurationError([problem], source="--host")
    return address


TOKEN_HEADER = "x-lanes-token"  # noqa: S105 - the name of the header
SECRET_HEADER = "x-lanes-proxy-secret"  # noqa: S105 - the name of the header
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


class Guard(Protocol):
    """Decides about requests; names of headers are in lower case, and repeated ones are joined by commas."""

    def refusal(self, method: str, path: str, headers: Mapping[str, str]) -> Refusal | None:
        """Return why a request is refused; None if it is accepted."""

    def user(self, headers: Mapping[str, str]) -> User:
        """Return the user of an accepted request."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TokenGuard:
    """
    The guard of a page for the operator who started it.

    Attributes:
        hosts: values of `Host` under which the page answers, such as `127.0.0.1:8320`.
        token: the token that the scripts of the page send.
        writes: whether changes are allowed.
    """

    hosts: frozenset[str]
    token: str
    writes: bool = False

    def user(self, headers: Mapping[str, str]) -> User:  # noqa: ARG002 - everyone with the token is the operator
        """Return the operator."""
        return User(may_write=self.writes)

    def refusal(self, method: str, path: str, headers: Mapping[str, str]) -> Refusal | None:
        """Return why a request is refused; None if it is accepted."""
        host = headers.get("host", "")
        # HTTP: 421 is for a request that reached the wrong server (RFC 9110), as after DNS rebinding.
        if host not in self.hosts:
            return Refusal(
                status=421, why=f"this page is not {host!r}; open the address that lanes ui printed"
            )
        if headers.get("origin", f"http://{host}") != f"http://{host}":
            return ELSEWHERE
        if not path.startswith(API):
            return _refuse_page(method, headers)
        if headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return ELSEWHERE
        return self._refuse_call(method, headers)

    def _refuse_call(self, method: str, headers: Mapping[str, str]) -> Refusal | None:
        """Refuse requests that are not from the scripts of the page."""
        # In constant time: one that ends at the first difference shows how much of a guess was right.
        if not hmac.compare_digest(headers.get(TOKEN_HEADER, "").encode(), self.token.encode()):
            return Refusal(status=401, why="the token is missing, or of an earlier run of lanes ui")
        return _refuse_form(method, headers)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ProxyGuard:
    """
    The guard of a page for a team, behind a proxy that signs users in.

    Browsers send the proxy's cookie by themselves, so a call of the API must name its origin, which scripts can't
    forge, and be JSON, which another site can't send without a preflight request.

    Attributes:
        origin: the address of the page in the browser, without a path.
        secret: the secret that the proxy adds to every request.
        user_header: the header in which the proxy names the user, in lower case.
        operators: names of the users who may make changes.
    """

    origin: str
    secret: str
    user_header: str
    operators: frozenset[str] = frozenset()

    def refusal(self, method: str, path: str, headers: Mapping[str, str]) -> Refusal | None:
        """Return why a request is refused; None if it is accepted."""
        # The first check: without the secret not even the form of a right request is told.
        if not hmac.compare_digest(headers.get(SECRET_HEADER, "").encode(), self.secret.encode()):
            return Refusal(status=403, why="it did not come through the proxy that signs users in")
        if not _is_name(headers.get(self.user_header, "")):
            return Refusal(status=401, why=f"the proxy named no user in {self.user_header}")
        if not path.startswith(API):
            return _refuse_page(method, headers)
        if (
            headers.get("origin") != self.origin
            or headers.get("sec-fetch-site", "same-origin") != "same-origin"
        ):
            return ELSEWHERE
        return _refuse_form(method, headers)

    def user(self, headers: Mapping[str, str]) -> User:
        """Return the user whom the proxy signed in."""
        name = headers[self.user_header]
        return User(name=name, may_write=name in self.operators)


# An audit entry keeps the name; a longer one, or one with other characters, is not a name that a login gives.
LONGEST_NAME = 200


def _is_name(text: str) -> bool:
    # A comma joins repeated headers: a name that the browser sent, and the one of the proxy.
    is_plain = text.isascii() and text.isprintable() and "," not in text
    return is_plain and text.strip() == text and 0 < len(text) <= LONGEST_NAME


ELSEWHERE = Refusal(status=403, why="the request comes from another site")


def _refuse_form(method: str, headers: Mapping[str, str]) -> Refusal | None:
    """Refuse calls in another form than the scripts of the page send."""
    if method != "POST":
        return Refusal(status=405, why=f"{method} is not answered")
    if headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        return Refusal(status=415, why=f"{JSON} is needed")
    return None


def _refuse_page(method: str, headers: Mapping[str, str]) -> Refusal | None:
    """Refuse what other sites embed; a link that leads here opens the page, which shows nothing without the token."""
    if method not in ("GET", "HEAD"):
        return Refusal(status=405, why=f"{method} is not answered")
    opens = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and not opens:
        return ELSEWHERE
    return None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """
    The user of one request.

    Attributes:
        name: as the login in front of the page gave it; empty for the operator who started the page.
        may_write: whether changes are allowed.
    """

    name: str = ""
    may_write: bool = False


NO_ONE = User()
# Read by the audit trail, deep in a call or in the thread of a job, which takes its request's context along.
CURRENT: ContextVar[User] = ContextVar("user", default=NO_ONE)


def current_name() -> str:
    """Return the name of the user behind the request; empty for the operator who started the page."""
    return CURRENT.get().name
