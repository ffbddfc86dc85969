"""Settlement: the delay and the ledger entry of each kept record."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.config import ConsumerSettings, Lane
from lanes.consumer.ledger import CachedLedger, Ending, Entry, Park
from lanes.consumer.outcome import Delays, Outcome, Outcomes
from lanes.consumer.records import Batch
from lanes.consumer.settlement import LANDS_WITHIN, Settlement, same_delay_in_group
from lanes.errors import AwsError
from lanes.testing.assertions import Silence
from lanes.testing.calls import Calls
from lanes.testing.table import MemoryLedger
from tests.support.memory import record_with

LANE = Lane(name="MAIN")
NOW = 1_800_000_000.0


def returned(
    message_id, *, group="g", ending=Ending.YIELDED, delay=10, wakeable=True, attempts=0, noted=True
):
    entry = Entry(lane="MAIN", message_id=message_id, attempts=attempts) if noted else None
    record = record_with(message_id, group=group, receive_count=4)
    return record, Outcome(ending=ending, entry=entry, delay=delay, wakeable=wakeable)


class Visibility:
    """Changes visibilities, but for the ones it is told to refuse."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    def change_visibility(self, lane, changes):
        self.asked.append([(change.message_id, change.seconds) for change in changes])
        return self.answers.pop(0) if self.answers else []


def settle(visibility, items, ledger=None):
    ledger = ledger or MemoryLedger(Calls())
    settlement = Settlement(
        queues=visibility,
        ledger=CachedLedger(ledger, clock=lambda: NOW),
        delays=Delays(ConsumerSettings(), Random(1)),
        telemetry=Silence(),
        clock=lambda: NOW,
    )
    records = [record for record, _ in items]
    outcomes = Outcomes(records, {})
    for record, outcome in items:
        outcomes.set(record, outcome)
    batch = Batch(lane=LANE, records=records, name="request", milliseconds_left=lambda: 30_000, began_at=NOW)
    settlement.settle(batch, outcomes)
    return {message_id: entry for (_, message_id), entry in ledger.entries.items()}


items = st.lists(
    st.builds(
        lambda number, group, delay, wakeable: returned(
            f"m{number}", group=group, delay=delay, wakeable=wakeable
        ),
        st.integers(0, 10_000),
        st.sampled_from("abc"),
        st.integers(0, 900),
        st.booleans(),
    ),
    max_size=10,
)


@given(items)
def test_all_records_of_a_group_return_together(given_items):
    """After the longest delay among them; other groups have their own."""
    found = same_delay_in_group(given_items)

    assert [record for record, _ in found] == [record for record, _ in given_items]
    for record, outcome in found:
        mine = [other for its, other in given_items if its.group == record.group]
        assert outcome.delay == max(other.delay for other in mine)
        assert outcome.wakeable == all(other.wakeable for other in mine)


def test_each_reason_is_noted():
    """A yield and a return are counted, a failure was counted by its attempt."""
    found = settle(
        Visibility(),
        [
            returned("yielded", group="a"),
            returned("failed", group="b", ending=Ending.FAILED, wakeable=False, attempts=2),
            returned("behind", group="b", ending=Ending.RETURNED, delay=0),
        ],
    )

    assert {name: (entry.yields, entry.returns, entry.ending) for name, entry in found.items()} == {
        "yielded": (1, 0, Ending.YIELDED),
        "failed": (0, 0, Ending.FAILED),
        "behind": (0, 1, Ending.RETURNED),
    }
    assert found["failed"].attempts == 2
    assert {entry.noted_receive for entry in found.values()} == {4}


def test_what_stays_refused_rests_until_its_visibility_ends():
    """At the latest a whole timeout from now; its receipt is no good any more."""
    found = settle(Visibility(["b"], ["b"]), [returned("a", group="a"), returned("b", group="b")])

    assert (found["b"].park, found["b"].receipt_handle) == (Park.REST, "")
    assert found["b"].parked_until == NOW + 180
    assert found["a"].park is Park.YIELD


def test_records_without_an_entry_are_not_noted():
    """The ledger could not be read, so it must not be overwritten blindly."""
    ledger = MemoryLedger(Calls())

    assert settle(Visibility(), [returned("a", noted=False)], ledger) == {}
    assert ledger.entries == {}
    assert ledger.calls.log == []


@pytest.mark.parametrize(
    ("names", "delay", "park"), [(["a"], 1, Park.YIELD), (["a", "b"], LANDS_WITHIN, Park.REST)]
)
def test_records_return_once_a_note_without_an_answer_can_land_no_more(names, delay, park):
    """After the next receive it would erase an attempt, so no slot wakes them. A single entry's has a condition."""
    ledger, visibility = MemoryLedger(Calls()), Visibility()
    unanswered = AwsError(operation="any", code="ReadTimeoutError", retryable=True, answered=False)
    ledger.calls.break_if = lambda _operation, position: unanswered if position == 0 else None

    settle(visibility, [returned(name, delay=1) for name in names], ledger)

    assert visibility.asked == [[(name, delay) for name in names]]
    assert {entry.park for entry in ledger.read("MAIN", names).values()} == {park}


def test_a_delay_that_began_before_the_settlement_is_shorter_then():
    """Rounded down, not late for the moment at which it ends, but not to nothing before that."""
    outcome = Outcome(delay=8, since=100.0)

    assert [outcome.at(now).delay for now in (100.0, 101.5, 107.5, 108.0, 200.0)] == [8, 6, 1, 0, 0]
    assert Outcome(delay=8).at(200.0).delay == 8


def test_a_delay_is_no_longer_for_a_clock_that_was_set_back():
    """A record that waits for its resource would be away for as long as the clock was set back."""
    assert Outcome(delay=8, since=3_700.0).at(100.0).delay == 8
