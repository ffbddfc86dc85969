"""The `lanes` command against one AWS server on this machine, and the built release, which these tests share."""

import os
import shutil
import subprocess

import pytest

from local.deployed import make_client
from local.server import AwsServer
from tests.support.command import ROOT, UV, Command, Typed, run
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


@pytest.fixture(scope="session")
def release(tmp_path_factory, environment):
    """Give the folder with sdist and wheel: uv builds the one from the repository's files, the other from the sdist."""
    folder = tmp_path_factory.mktemp("release")
    listed = subprocess.run(
        [shutil.which("git"), "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / "source" / name)
    run([UV, "build", "--quiet", "--out-dir", "dist", "source"], cwd=folder, environment=environment)
    return folder / "dist"


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """Give the variables of somebody who has neither this repository nor its packages, nor a cache of them."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "LANES_", "AWS_", "JSII_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return kept | {"UV_CACHE_DIR": str(tmp_path_factory.mktemp("cache"))}
