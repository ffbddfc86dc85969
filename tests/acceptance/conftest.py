"""The `lanes` command as a subprocess against AWS on this machine."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lanes.aws import dead_letter_queues
from lanes.cli.main import main
from local.account import isolated_variables
from local.deployed import make_client
from local.server import AwsServer
from tests.support.operating import make_deployment

ROOT = Path(__file__).parents[2]


class Typed:
    """The command, led to an endpoint, run by its own `main` within this process; empty queues say so at once."""

    def __init__(self, endpoint_url):
        self.variables = {**os.environ, **isolated_variables(endpoint_url, "operator")}

    def __call__(self, *arguments, text=None):
        """Run it to its end."""
        said, talk, status = io.StringIO(), io.StringIO(), 0
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(said),
            contextlib.redirect_stderr(talk),
        ):
            for name, value in self.variables.items():
                patch.setenv(name, value)
            patch.setattr(dead_letter_queues, "WAIT_SECONDS", 0)
            patch.setattr(sys, "argv", ["lanes", *arguments])
            patch.setattr(sys, "stdin", io.StringIO(text or ""))
            try:
                main()
            except SystemExit as exit_:
                status = exit_.code or 0
        return subprocess.CompletedProcess(arguments, status, said.getvalue(), talk.getvalue())

    def json(self, *arguments, text=None):
        """Run it to a good end and return its JSON document."""
        done = self("--output", "json", *arguments, text=text)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


class Command(Typed):
    """The command as a process of its own."""

    def start(self, *arguments):
        """Start it and return the process."""
        return subprocess.Popen(
            [sys.executable, "-m", "lanes", *arguments],
            cwd=ROOT,
            env=self.variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            # A suite in the background of a shell has interrupts ignored, and hands that on.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - no thread runs here
        )

    def __call__(self, *arguments, text=None):
        """Run it to its end."""
        return subprocess.run(
            [sys.executable, "-m", "lanes", *arguments],
            cwd=ROOT,
            env=self.variables,
            input=text or "",
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


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
