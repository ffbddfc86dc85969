"""The `lanes` command against one AWS server on this machine, which the tests of this folder share."""

import pytest

from local.deployed import make_client
from local.server import AwsServer
from tests.support.command import Command, Typed
from tests.support.operating import make_deployment


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    """An AWS server with nothing in it."""
    with AwsServer(log_path=tmp_path_factory.mktemp("server") / "server.log") as running:
        yield running


@pytest.fixture(scope="session")
def client(server):
    """Clients of the server, by service."""
    return lambda service: make_client(service, server.endpoint_url)


@pytest.fixture(scope="session")
def deployment(client):
    """Three lanes, made without a function."""
    return make_deployment(client)


@pytest.fixture(scope="session")
def lanes(server, deployment):
    """The command as a process, where the lanes are."""
    return Command(server.endpoint_url)


@pytest.fixture(scope="session")
def typed(server, deployment):
    """The command within this process, for the many things that need no process of their own."""
    return Typed(server.endpoint_url)
