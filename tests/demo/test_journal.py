"""The demo's journal takes down the lines of functions."""

import json

import pytest

from local.demo.flood import Journal


@pytest.fixture
def journal():
    """A journal of a run with a backfill of one message."""
    return Journal({"bulk-1"})


def tell(journal, step, one, *, at, attempt=1):
    """Print what the sample's handler prints."""
    line = {"resource": step, "id": one, "kind": "k", "group": "g", "attempt": attempt, "at": at}
    journal.take_line(json.dumps(line))


def test_a_start_and_its_end_make_an_effect(journal):
    """With the handler's own times."""
    tell(journal, "started", "bulk-1", at=5.0)
    tell(journal, "finished", "bulk-1", at=6.0)

    [effect] = journal.effects()

    assert (effect.started_at, effect.ended_at, effect.how) == (5.0, 6.0, "done")


def test_a_start_after_a_start_means_that_the_first_one_crashed(journal):
    """Both are kept."""
    tell(journal, "started", "bulk-1", at=5.0)
    tell(journal, "started", "bulk-1", at=50.0, attempt=2)
    tell(journal, "refused", "bulk-1", at=51.0, attempt=2)

    assert [effect.how for effect in journal.effects()] == ["died", "failed"]


def test_an_effect_that_never_ended_is_told_too(journal):
    """Its process was killed."""
    tell(journal, "started", "bulk-1", at=5.0)

    assert [effect.how for effect in journal.effects()] == ["died"]


@pytest.mark.parametrize(
    "line", ["", "START RequestId", "{half a li", '{"level": "INFO"}', "[1]", '{"resource": {"a": 1}}']
)
def test_other_lines_tell_nothing(journal, line):
    """Functions print whatever they like."""
    journal.take_line(line)

    assert journal.effects() == []


def test_yields_are_counted_in_the_consumers_words(journal):
    """They are shown; no promise rests on them."""
    journal.take_line(json.dumps({"event": "batch_yielded", "lane": "MAIN"}))

    assert journal.yields == {"MAIN": 1}


def test_progress_counts_messages_of_the_backfill_once(journal):
    """Repeats and live messages are no progress."""
    for one in ("bulk-1", "bulk-1", "pay-1"):
        tell(journal, "finished", one, at=1.0)

    assert journal.wait_for_progress(1, timeout=0)
    assert not journal.wait_for_progress(2, timeout=0)
    assert journal.wait_for_all(2, timeout=0)


def test_progress_counts_calls_that_found_the_resource_away(journal):
    """The urgent messages of an outage are sent after the first ones."""
    for at in (1.0, 2.0):
        tell(journal, "started", "pay-1", at=at)
        tell(journal, "away", "pay-1", at=at)

    assert [effect.how for effect in journal.effects()] == ["away", "away"]
    assert journal.wait_for_progress(2, timeout=0)
    assert not journal.wait_for_all(1, timeout=0)
