"""`lanes outbox` as a user types it, on a file of SQLite."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from lanes.outbox import Outbox
from local.server import AwsServer
from tests.support.lanes_server import STACK, LanesOnServer

ROOT = Path(__file__).parents[2]


@pytest.fixture
def url(tmp_path):
    """A database with an outbox in it."""
    address = f"sqlite:///{tmp_path / 'app.db'}"
    assert run(address, "setup").returncode == 0
    return address


def run(url, *arguments, before=(), env=None):
    """Run the command for one database."""
    return subprocess.run(
        [sys.executable, "-m", "lanes", *before, "outbox", "--database", url, *arguments],
        cwd=ROOT,
        env={**os.environ, **(env or {})},
        capture_output=True,
        text=True,
        check=False,
    )


def rows(url, *arguments):
    """Give what a verb prints as JSON."""
    done = run(url, *arguments, before=("--output", "json"))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def write(url, **entries):
    """Commit entries: kind by id."""
    engine, outbox = sa.create_engine(url), Outbox()
    with engine.begin() as connection:
        for entry_id, kind in entries.items():
            outbox.add(connection, kind, {"n": 1}, id=entry_id, priority=-100)
    engine.dispose()


@pytest.mark.parametrize(
    "address", ["orders", "postgres://app:secret@orders", "nosuch+driver://app:secret@orders"]
)
def test_an_address_that_is_none_is_named_with_what_one_looks_like(address):
    """But not the password in it."""
    done = run(address, "status")

    assert done.returncode == 1
    assert "orders' is no address" in done.stderr
    assert "sqlite:///file.db" in done.stderr
    assert "secret" not in done.stderr


def test_setup_prints_plain_ddl_for_a_migration(url):
    """Tables and partial indexes, and nothing is made twice."""
    printed = run(url, "setup", "--print").stdout

    assert printed.count("CREATE TABLE IF NOT EXISTS") == 2
    assert "ON lanes_outbox (priority DESC, position, id) WHERE is_ready;" in printed
    assert run(url, "setup").returncode == 0


def test_a_change_is_previewed_made_and_audited(url):
    """Counts and a sample on standard error, the result on standard output, who and what in the audit."""
    write(url, a="mail.sent", b="mail.sent", c="order.placed")

    looked = run(url, "prioritize", "100", "--kind", "mail.*", "--dry-run")
    assert "2 entries: kind ~ mail.*" in looked.stderr
    assert "mail.sent 2" in looked.stderr
    assert {one["priority"] for one in rows(url, "list")} == {-100}

    changed = run(url, "prioritize", "100", "--kind", "mail.*", "--yes", before=("--output", "json"))
    assert json.loads(changed.stdout) == {"found": 2, "changed": 2}
    assert "2 of about 2 changed" in changed.stderr
    assert {one["id"]: one["lane"] for one in rows(url, "list")} == {"a": "HIGH", "b": "HIGH", "c": "MAIN"}
    (audit,) = rows(url, "audit")
    assert (audit["action"], audit["from"], audit["to"], audit["changed"]) == (
        "prioritize",
        "priority -100 to -100",
        "priority 100",
        2,
    )
    assert "@" in audit["who"]


def test_without_a_yes_and_a_person_nothing_is_changed(url):
    """A script has to say that it means it."""
    write(url, a="mail.sent")
    done = run(url, "cancel", "--kind", "mail.*")

    assert done.returncode == 2
    assert "--dry-run" in done.stderr
    assert [one["state"] for one in rows(url, "list")] == ["PENDING"]


def test_a_filter_is_a_regular_expression_unless_exact(url):
    """A dot is a dot only with --exact."""
    write(url, a="mail.sent", b="mailxsent")

    assert rows(url, "cancel", "--kind", "mail.sent", "--exact", "--yes")["changed"] == 1
    assert {one["id"]: one["state"] for one in rows(url, "list")} == {"a": "ABANDONED", "b": "PENDING"}
    assert "no regular expression" in run(url, "list", "--kind", "(").stderr


def test_a_cancelled_entry_can_be_brought_back(url):
    """Lowering, cancelling and retrying are all undone by another verb."""
    write(url, a="mail.sent")
    rows(url, "cancel", "--all", "--yes")

    assert rows(url, "retry", "--state", "ABANDONED", "--yes")["changed"] == 1
    assert rows(url, "status")["PENDING"] == 1
    assert rows(url, "show", "a")["message"]["type"] == "mail.sent"


@pytest.mark.parametrize(
    "verb", [("prioritize", "50"), ("cancel",), ("retry",), ("cancel", "--state", "PENDING")]
)
def test_nobody_changes_everything_by_leaving_out_a_filter(url, verb):
    """Not with --yes either: --all says so."""
    done = run(url, *verb, "--yes")

    assert done.returncode == 2
    assert "--all" in done.stderr
    assert run(url, *verb, "--all", "--dry-run").returncode == 0


def test_what_does_not_exist_is_said_without_a_traceback(url):
    """With the nearest known word."""
    done = run(url, "list", "--state", "PUBLISHD")

    assert done.returncode == 2
    assert "did you mean 'PUBLISHED'" in done.stderr
    assert "Traceback" not in done.stderr
    assert run(url, "show", "nothing").returncode == 1


def test_a_database_without_an_outbox_is_said_without_a_traceback(tmp_path):
    """With what the database said, and what makes the tables."""
    done = run(f"sqlite:///{tmp_path / 'empty.db'}", "status")

    assert done.returncode == 1
    assert "no such table: lanes_outbox; `lanes outbox --database ... setup` makes the tables" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_relay_runs_as_a_command(url, tmp_path):
    """Once, until nothing is due; then everything adds up, and what is kept long enough goes."""
    write(url, a="mail.sent", b="mail.sent")
    with AwsServer(log_path=tmp_path / "server.log") as server:
        lanes = LanesOnServer(server.endpoint_url, outbox={"published_retention": 1})
        place = ("--stack", STACK, "--endpoint", server.endpoint_url, "--output", "json")
        done = run(url, "relay", "--once", before=place, env=lanes.variables())

        assert json.loads(done.stdout)["published"] == 2, done.stderr
        assert [one for one, _ in lanes.received("MAIN")] == ["a", "b"]
    assert rows(url, "status")["PUBLISHED"] == 2
    assert rows(url, "reconcile", "--after", "0s") == []
    assert "would_remove" in rows(url, "cleanup", "--dry-run")
