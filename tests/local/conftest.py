"""
One AWS server and one platform for the tests of this folder; a test that deploys has a stack of its own.

Both end with the last of these tests, since a platform polls its queues and follows its stacks as long as it runs.
"""

import pytest

from local.platform import Platform
from local.server import AwsServer
from tests.support.waiting import SLACK, FunctionLines


@pytest.fixture(scope="package")
def server(tmp_path_factory):
    """A corrected AWS server in a process of its own."""
    with AwsServer(log_path=tmp_path_factory.mktemp("server") / "server.log") as running:
        yield running


@pytest.fixture(scope="session")
def lines():
    """The lines that the functions of the platform print."""
    return FunctionLines()


@pytest.fixture(scope="package")
def running_platform(tmp_path_factory, lines):
    """A platform with nothing deployed."""
    with Platform(on_line=lines, build_directory=tmp_path_factory.mktemp("build"), slack=SLACK) as running:
        yield running
