"""Entries of the ledger: why a record was received, and what that means for its next attempt."""

import pytest

from lanes.consumer.ledger import Cause, Ending, Entry, Park
from tests.support.records import record_with


def entry_with(**fields):
    return Entry(lane="HIGH", message_id="m", **fields)


@pytest.mark.parametrize(
    ("ending", "cause"),
    [
        (Ending.NONE, Cause.UNKNOWN),
        (Ending.STARTED, Cause.AFTER_CRASH),
        (Ending.FAILED, Cause.AFTER_FAILURE),
        (Ending.YIELDED, Cause.AFTER_YIELD),
        (Ending.RETURNED, Cause.AFTER_RETURN),
    ],
)
def test_the_last_note_explains_the_receive_after_it(ending, cause):
    """Each ending is the cause of the next receive."""
    assert entry_with(ending=ending, noted_receive=3).cause_of(record_with(receive_count=4)) is cause


@pytest.mark.parametrize("ending", list(Ending))
@pytest.mark.parametrize("noted_receive", [0, 1, 2, 4, 9])
def test_a_receive_without_a_note_before_it_is_unexplained(ending, noted_receive):
    """Lambda threw it out, or an attempt that nothing had announced crashed."""
    found = entry_with(ending=ending, noted_receive=noted_receive).cause_of(record_with(receive_count=4))

    assert found is Cause.UNKNOWN


def test_the_first_receive_needs_no_explanation():
    """Whatever the ledger says of an id."""
    assert entry_with(ending=Ending.FAILED).cause_of(record_with(receive_count=1)) is Cause.FIRST


@pytest.mark.parametrize(
    ("ending", "noted", "suspect"),
    [
        (Ending.YIELDED, 1, False),
        (Ending.FAILED, 1, False),
        (Ending.RETURNED, 1, False),
        (Ending.STARTED, 1, True),
        (Ending.YIELDED, 0, True),
    ],
)
def test_a_record_is_suspect_once_a_receive_was_unexplained(ending, noted, suspect):
    """Its attempts are announced from then on, so that one that kills its process counts."""
    seen = entry_with(ending=ending, noted_receive=noted).seen_again(record_with(receive_count=2))

    assert seen.suspect is suspect


def test_suspicion_stays():
    """A yield in between explains that yield alone."""
    entry = entry_with(ending=Ending.YIELDED, noted_receive=1, suspect=True)

    assert entry.seen_again(record_with(receive_count=2)).suspect


def test_a_record_that_is_seen_is_parked_no_more():
    """Everything else stays."""
    entry = entry_with(
        ending=Ending.YIELDED,
        noted_receive=1,
        yields=4,
        attempts=2,
        park=Park.YIELD,
        parked_until=9.0,
        batch="b",
        receipt_handle="r",
    )

    seen = entry.seen_again(record_with(receive_count=2))

    assert (seen.park, seen.parked_until, seen.batch, seen.receipt_handle) == (None, 0.0, "", "")
    assert (seen.yields, seen.attempts) == (4, 2)


@pytest.mark.parametrize("noted_at", [-600.0, 0.0, 600.0])
def test_an_entry_is_of_this_life_whatever_the_functions_clock_said(noted_at):
    """SQS tells the same first receive at every one; a clock of ours that was wrong when it noted changes nothing."""
    record = record_with(receive_count=2)
    entry = entry_with(
        first_received_at=record.first_received_at, noted_at=record.first_received_at + noted_at
    )

    assert not entry.is_of_earlier_generation(record)


def test_a_later_first_receive_is_another_life():
    """A message that was moved back from a dead-letter queue starts anew."""
    record = record_with(receive_count=2)
    entry = entry_with(
        first_received_at=record.first_received_at - 60, noted_at=record.first_received_at + 600
    )

    assert entry.is_of_earlier_generation(record)
