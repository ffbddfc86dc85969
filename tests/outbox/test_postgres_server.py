"""The PostgreSQL of the tests."""

import signal
import subprocess
import sys

import pytest
from sqlalchemy.engine import make_url

from tests.support.command import ROOT
from tests.support.waiting import answers, until


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_it_ends_with_its_owner_however_that_ends(number):
    """Ctrl-C of the tests, or a worker that is killed, leaves no server behind."""
    command = [sys.executable, "-m", "tests.support.postgres"]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as owner:
        port = make_url(owner.stdout.readline().strip()).port
        assert answers(port)
        owner.send_signal(number)

    until(lambda: not answers(port), why="PostgreSQL runs on")
