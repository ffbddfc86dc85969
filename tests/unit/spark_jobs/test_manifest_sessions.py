"""The sessions of a run: one at a time, whoever begins when."""

from datetime import UTC, datetime

import pytest

from spark_jobs.manifest.sessions import Claim, RunInUseError
from spark_jobs.manifest.storage import open_storage

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)


@pytest.fixture
def storage(tmp_path):
    """Give a local folder."""
    return open_storage(str(tmp_path), endpoint_url=None, region=None)


def take(storage, session, *, take_over=False):
    """Begin a session of the run."""
    return Claim.take(storage, run_id="spring", session=session, now=NOON, take_over=take_over)


def test_of_two_sessions_that_begin_at_once_one_is_refused(storage, monkeypatch):
    """Both have found no other: the file of the number decides."""
    create = storage.create

    def after_another(name, content):
        monkeypatch.setattr(storage, "create", create)
        take(storage, "first")
        return create(name, content)

    monkeypatch.setattr(storage, "create", after_another)

    with pytest.raises(RunInUseError, match="2026-01-02T12:00:00Z") as refused:
        take(storage, "second")

    assert refused.value.session == "first"


def test_of_two_that_take_over_at_once_one_is_refused(storage, monkeypatch):
    """Only one session sends the rest of a crashed one."""
    take(storage, "crashed")
    create = storage.create

    def after_another(name, content):
        monkeypatch.setattr(storage, "create", create)
        take(storage, "first", take_over=True)
        return create(name, content)

    monkeypatch.setattr(storage, "create", after_another)

    with pytest.raises(RunInUseError):
        take(storage, "second", take_over=True)


def test_an_answer_that_was_lost_is_no_other_session(storage, monkeypatch):
    """The client repeats the request and finds its own file."""
    create = storage.create

    def twice(name, content):
        create(name, content)
        return create(name, content)

    monkeypatch.setattr(storage, "create", twice)

    assert take(storage, "one").number == 1


def test_a_file_is_created_once(storage, tmp_path):
    """The first content stays, and no other file is left."""
    assert storage.create("a/b.json", b"1")
    assert not storage.create("a/b.json", b"2")

    assert [path.read_bytes() for path in (tmp_path / "a").iterdir()] == [b"1"]
