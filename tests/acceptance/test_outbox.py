"""`lanes outbox relay` from a SQL database to lanes on AWS."""

import pytest
import sqlalchemy as sa

from lanes.outbox import SqlOutbox
from tests.support.lanes_server import LanesOnServer

STACK = "RelayTarget"


@pytest.fixture
def target(server):
    """Lanes of a stack of its own, whose outbox keeps published entries for a second."""
    return LanesOnServer(server.endpoint_url, stack=STACK, outbox={"published_retention": 1})


def test_the_relay_runs_as_a_command(typed, target, tmp_path):
    """Once, until no entry is due; then all entries are consistent, and expired ones can be removed."""
    url = f"sqlite:///{tmp_path / 'app.db'}"
    verbs = ("--stack", STACK, "outbox", "--database", url)
    assert typed(*verbs, "setup").returncode == 0
    engine, outbox = sa.create_engine(url), SqlOutbox()
    with engine.begin() as connection:
        for entry_id in ("a", "b"):
            outbox.add(connection, "mail.sent", {"n": 1}, id=entry_id, priority=-100)
    engine.dispose()

    assert typed.json(*verbs, "relay", "--once")["published"] == 2

    assert [event["id"] for _, event in target.take("MAIN")] == ["a", "b"]
    assert typed.json(*verbs, "status")["PUBLISHED"] == 2
    assert typed.json(*verbs, "reconcile", "--after", "0s") == []
    assert "would_remove" in typed.json(*verbs, "cleanup", "--dry-run")
