"""The listening address of the page, on this machine only."""

from __future__ import annotations

import dataclasses
import ipaddress
import secrets
import socket
from typing import Self

from lanes.errors import ConfigurationError, LanesError

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
