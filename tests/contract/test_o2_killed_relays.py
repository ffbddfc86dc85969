"""
O2: killed relays.

Two relays never publish the same entry while its lock lives. A lock that expired is taken over.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lanes.outbox.entry import EntryState
from local.deployed import make_client
from local.server import AwsServer
from tests.support.lanes_server import LanesOnServer
from tests.support.outbox import DynamoDBSubject, SqlSubject, new_outbox
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
GROUPS = 5
ENTRIES = 80
KILLS = 2
SKEW = 1.5
"""Largest error of a relay's clock in seconds; below the lock."""
SHIFTED = """
import runpy, sys, time
real, ahead = time.time, float(sys.argv.pop(1))
time.time = lambda: real() + ahead
runpy.run_module("lanes", run_name="__main__", alter_sys=True)
"""

pytestmark = pytest.mark.deep


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """AWS on this machine."""
    with AwsServer(log_path=tmp_path_factory.mktemp("server") / "server.log") as running:
        yield running


class Relays:
    """Starts `lanes outbox relay` and kills it."""

    def __init__(self, lanes, *where):
        self._lanes = lanes
        self._command = [
            *("--stack", lanes.stack, "--endpoint", lanes.endpoint_url),
            *("outbox", *where, "relay"),
        ]

    def start(self, ahead=0.0):
        """Start one more, with a clock that is so many seconds ahead."""
        return subprocess.Popen(
            [sys.executable, "-c", SHIFTED, str(ahead), *self._command],
            cwd=ROOT,
            env={**os.environ, **self._lanes.variables()},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )


def wait_until(reached, *relays):
    """Look again and again; a relay that ends by itself says why."""

    def look():
        ended = [relay for relay in relays if relay.poll() is not None]
        assert not ended, ended[0].stderr.read()
        return reached()

    until(look, why="the relays got no further")


def end(process, number=signal.SIGKILL):
    """Kill a relay, however deep in its work it is."""
    process.send_signal(number)
    status = process.wait(60)
    process.stderr.close()
    return status


def check(subject, lanes, relays, entries, *, count):
    """Kill relay after relay, then let one finish, and look at the queue."""
    chance = random.Random(count)
    for _ in range(KILLS):
        before = lanes.waiting("MEDIUM")
        started = [relays.start(chance.uniform(-SKEW, SKEW)) for _ in range(count)]
        wait_until(lambda before=before: before < lanes.waiting("MEDIUM") or before == len(entries), *started)
        for relay in started:
            end(relay)
    # The killed ones may have published everything: entries that only the last relay can publish tell that it is up.
    entries = [*entries, *write(subject, GROUPS)]
    last = relays.start()
    wait_until(lambda: states_of(subject) == {EntryState.PUBLISHED}, last)
    assert end(last, signal.SIGTERM) == 0

    arrived = [(event["id"], group) for group, event in lanes.take("MEDIUM")]
    assert sorted(one for one, _ in arrived) == sorted(entry.id for entry in entries)
    for group in {entry.group for entry in entries}:
        assert [one for one, of in arrived if of == group] == [
            entry.id for entry in entries if entry.group == group
        ]


def states_of(subject):
    """Return the states that entries are in."""
    return {entry.state for entry in subject.operations.entries(frozenset(EntryState))}


def write(subject, count=ENTRIES):
    """Commit entries of several groups."""
    outbox = new_outbox(clock=time.time)
    entries = [
        outbox.prepare("order.placed", {"n": number}, group=f"g{number % GROUPS}") for number in range(count)
    ]
    for start in range(0, count, 10):
        subject.write(*entries[start : start + 10])
    return entries


OUTBOX = {"lock": "2s", "batch": 5, "tick": "200ms"}


@pytest.mark.parametrize("count", [pytest.param(2, marks=pytest.mark.nightly), 4])
def test_killed_relays_on_postgresql_lose_and_double_nothing(server, postgres, count):
    """Locks of the dead end after two seconds, and SQS drops what was published and not marked."""
    subject = SqlSubject(postgres.url, f"killed_{count}")
    lanes = LanesOnServer(server.endpoint_url, stack=f"Killed-sql-{count}", outbox=OUTBOX)
    entries = write(subject)
    relays = Relays(lanes, "--database", postgres.url, "--table", f"killed_{count}")

    check(subject, lanes, relays, entries, count=count)
    subject.close()


@pytest.mark.parametrize("count", [pytest.param(2, marks=pytest.mark.nightly), 4])
def test_killed_relays_on_dynamodb_lose_and_double_nothing(server, count):
    """The same with conditional updates in place of row locks."""
    subject = DynamoDBSubject(make_client("dynamodb", server.endpoint_url), f"killed-{count}")
    lanes = LanesOnServer(
        server.endpoint_url,
        stack=f"Killed-dynamodb-{count}",
        outbox=OUTBOX,
        outbox_table=f"killed-{count}",
    )
    entries = write(subject)

    check(subject, lanes, Relays(lanes), entries, count=count)
