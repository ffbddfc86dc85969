"""One AWS server for the tests of this folder that need nothing but a server."""

import pytest

from local.server import AwsServer


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """A corrected AWS server in a process of its own."""
    with AwsServer(log_path=tmp_path_factory.mktemp("server") / "server.log") as running:
        yield running
