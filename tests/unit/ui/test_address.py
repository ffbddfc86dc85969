"""Where the page listens."""

import socket

import pytest

from lanes.errors import ConfigurationError, LanesError
from lanes.ui.protection import Address


def test_a_free_port_of_this_machine_is_taken():
    """The address holds a token where no server and no log sees it."""
    address = Address.take("127.0.0.1", 0)
    with address.socket:
        assert address.socket.getsockname() == ("127.0.0.1", address.port)
        assert address.hosts == {f"127.0.0.1:{address.port}", f"localhost:{address.port}"}
        assert address.url == f"http://127.0.0.1:{address.port}/#token={address.token}"
        assert len(address.token) >= 43


def test_each_start_has_a_token_of_its_own():
    """An old address opens nothing."""
    tokens = set()
    for _ in range(2):
        address = Address.take("localhost", 0)
        address.socket.close()
        tokens.add(address.token)

    assert len(tokens) == 2


def test_the_other_loopback_stands_in_brackets():
    """As addresses are written."""
    address = Address.take("::1", 0)
    with address.socket:
        assert address.url.startswith(f"http://[::1]:{address.port}/")
        assert f"[::1]:{address.port}" in address.hosts


EVERYWHERE = "0.0.0.0"  # noqa: S104 - what must be refused


@pytest.mark.parametrize("host", [EVERYWHERE, "192.168.1.7", "::", "example.com", ""])
def test_addresses_that_others_can_reach_are_refused(host):
    """With what to do instead."""
    with pytest.raises(ConfigurationError, match="ssh -L"):
        Address.take(host, 0)


def test_a_port_in_use_is_said():
    """With what to do about it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        with pytest.raises(LanesError, match=f"port {port}.*--port"):
            Address.take("127.0.0.1", port)
