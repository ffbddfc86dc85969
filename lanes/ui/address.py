"""Where the page listens: on this machine only."""

from __future__ import annotations

import dataclasses
import ipaddress
import secrets
import socket
from typing import Self

from lanes.errors import ConfigurationError, LanesError

LOCALHOST = "localhost"
TOKEN_BYTES = 32


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """
    A listening address and the token that opens the page there.

    Attributes:
        socket: bound, not yet listening.
        host: as it stands in the address, an IPv6 one in brackets.
        port: the one that was taken.
        token: made anew at each start.
    """

    socket: socket.socket
    host: str
    port: int
    token: str

    @classmethod
    def take(cls, host: str, port: int) -> Self:
        """
        Take a port of this machine.

        Args:
            host: a loopback address, or localhost.
            port: 0 for a free one.

        Raises:
            ConfigurationError: the host is no loopback address.
            LanesError: the port can't be had.
        """
        address = _loopback(host)
        family = socket.AF_INET6 if address.version == 6 else socket.AF_INET  # noqa: PLR2004 - IPv6
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((str(address), port))
            # Two programs may bind one port until the first of them listens.
            listener.listen()
        except OSError as error:
            listener.close()
            raise LanesError(
                f"port {port} of {address} can't be had: {error.strerror}; choose another one with --port, "
                f"or leave it out for a free one"
            ) from error
        shown = f"[{address}]" if address.version == 6 else str(address)  # noqa: PLR2004 - IPv6
        taken = int(listener.getsockname()[1])
        return cls(socket=listener, host=shown, port=taken, token=secrets.token_urlsafe(TOKEN_BYTES))

    @property
    def hosts(self) -> frozenset[str]:
        """The values of `Host` that mean this address."""
        return frozenset({f"{self.host}:{self.port}", f"{LOCALHOST}:{self.port}"})

    @property
    def url(self) -> str:
        """
        What to open.

        The token stands behind `#`, which browsers send to no server and put into no log.
        """
        return f"http://{self.host}:{self.port}/#token={self.token}"


def _loopback(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == LOCALHOST else host.strip("[]"))
    except ValueError:
        address = None
    if address is None or not address.is_loopback:
        problem = (
            f"{host!r} is no address of this machine alone: the page acts with your AWS credentials and is served to "
            f"nobody else. To see it from elsewhere, forward a port: ssh -L 8320:127.0.0.1:8320 HOST"
        )
        raise ConfigurationError([problem], source="--host")
    return address
