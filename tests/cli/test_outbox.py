"""Verbs about an outbox as an operator types them, on a file of SQLite and without AWS."""

import json

import pytest
import sqlalchemy as sa

from lanes.outbox import SqlOutbox


class Verbs:
    """The verbs for one database."""

    def __init__(self, typed, url):
        self._typed = typed
        self.url = url

    def __call__(self, verb, *arguments, before=()):
        """Run a verb: one of `lanes outbox`, or one that can change the outbox alone."""
        database = ("--database", self.url)
        alone = verb in ("prioritize", "cancel")
        words = (verb, *database, "--in", "outbox") if alone else ("outbox", *database, verb)
        return self._typed(*before, *words, *arguments)

    def rows(self, *arguments):
        """Return what a verb prints as JSON."""
        done = self(*arguments, before=("--output", "json"))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def write(self, **entries):
        """Commit entries: kind by id."""
        engine, outbox = sa.create_engine(self.url), SqlOutbox()
        with engine.begin() as connection:
            for entry_id, kind in entries.items():
                outbox.add(connection, kind, {"n": 1}, id=entry_id, priority=-100)
        engine.dispose()


@pytest.fixture
def verbs(typed, tmp_path):
    """A database with an outbox in it."""
    made = Verbs(typed, f"sqlite:///{tmp_path / 'app.db'}")
    assert made("setup").returncode == 0
    return made


@pytest.mark.parametrize(
    "address", ["orders", "postgres://app:secret@orders", "nosuch+driver://app:secret@orders"]
)
def test_an_address_that_is_none_is_named_with_what_one_looks_like(typed, address):
    """But not the password in it."""
    done = Verbs(typed, address)("status")

    assert done.returncode == 1
    assert "orders' is not a URL" in done.stderr
    assert "sqlite:///file.db" in done.stderr
    assert "secret" not in done.stderr


def test_setup_prints_plain_ddl_for_a_migration(verbs):
    """Tables and partial indexes, and nothing is made twice."""
    printed = verbs("setup", "--print").stdout

    assert printed.count("CREATE TABLE IF NOT EXISTS") == 3
    assert "ON lanes_outbox (priority DESC, position) WHERE is_ready = 1 AND is_parked = 0;" in printed
    assert verbs("setup").returncode == 0


def test_a_change_is_previewed_made_and_audited(verbs):
    """Counts and a sample on standard error, the result on standard output, who and what in the audit."""
    verbs.write(a="mail.sent", b="mail.sent", c="order.placed")

    looked = verbs("prioritize", "100", "--kind", "mail.*", "--dry-run")
    assert "2 entries: kind like mail.*" in looked.stderr
    assert "mail.sent 2" in looked.stderr
    assert {one["priority"] for one in verbs.rows("list")} == {-100}

    changed = verbs("prioritize", "100", "--kind", "mail.*", "--yes", before=("--output", "json"))
    done = json.loads(changed.stdout)
    assert (done["entries_found"], done["entries_changed"], done["messages_waiting"]) == (2, 2, None)
    assert "changed 2 of about 2" in changed.stderr
    assert {one["id"]: one["lane"] for one in verbs.rows("list")} == {"a": "HIGH", "b": "HIGH", "c": "MAIN"}
    (audit,) = verbs.rows("audit")
    assert (audit["action"], audit["from"], audit["to"], audit["changed"]) == (
        "prioritize",
        "priority -100 to -100",
        "priority 100",
        2,
    )
    assert "@" in audit["who"]


def test_without_a_yes_and_a_person_nothing_is_changed(verbs):
    """A script has to say that it means it."""
    verbs.write(a="mail.sent")
    done = verbs("cancel", "--kind", "mail.*")

    assert done.returncode == 2
    assert "--dry-run" in done.stderr
    assert [one["state"] for one in verbs.rows("list")] == ["PENDING"]


def test_a_filter_has_stars_as_everywhere(verbs):
    """A dot is a dot, and with --exact a star is a star."""
    verbs.write(a="mail.sent", b="mailxsent", c="order.placed")

    def found(*options):
        return [row["id"] for row in verbs.rows("list", "--kind", *options)]

    assert found("mail.sent") == ["a"]
    assert sorted(found("mail*")) == ["a", "b"]
    assert found("mail*", "--exact") == []


def test_a_cancelled_entry_can_be_brought_back(verbs):
    """By its id alone; the preview tells it from others."""
    verbs.write(a="mail.sent")
    verbs.rows("cancel", "--all", "--yes")

    refused = verbs("retry", "--state", "CANCELLED", "--yes")
    assert (refused.returncode, "only by their ids" in refused.stderr) == (1, True)
    assert verbs.rows("retry", "--all", "--yes")["changed"] == 0
    assert "states: CANCELLED 1;" in verbs("retry", "--id", "a", "--dry-run").stderr
    assert verbs.rows("retry", "--id", "a", "--yes")["changed"] == 1
    assert verbs.rows("status")["PENDING"] == 1
    assert verbs.rows("show", "a")["message"]["type"] == "mail.sent"


@pytest.mark.parametrize("verb", [("prioritize", "50"), ("cancel",), ("retry",)])
def test_nobody_changes_everything_by_leaving_out_a_filter(verbs, verb):
    """Not with --yes either: --all says so."""
    done = verbs(*verb, "--yes")

    assert done.returncode == 2
    assert "--all" in done.stderr
    assert verbs(*verb, "--all", "--dry-run").returncode == 0


def test_what_does_not_exist_is_said_without_a_traceback(verbs):
    """With the nearest known word."""
    done = verbs("list", "--state", "PUBLISHD")

    assert done.returncode == 2
    assert "did you mean 'PUBLISHED'" in done.stderr
    assert "Traceback" not in done.stderr
    assert verbs("show", "nothing").returncode == 3


def test_a_database_without_an_outbox_is_said_without_a_traceback(typed, tmp_path):
    """With what the database said, and what makes the tables."""
    done = Verbs(typed, f"sqlite:///{tmp_path / 'empty.db'}")("status")

    assert done.returncode == 1
    assert "`lanes outbox --database ... setup`" in done.stderr
    assert "Traceback" not in done.stderr
