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
from lanes.testing.calls import Calls
from lanes.testing.memory import MemoryLedger
from lanes.testing.silence import Silence
from tests.support.memory import aws_error
from tests.support.records import record_with

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
        answer = self.answers.pop(0) if self.answers else []
        if isinstance(answer, Exception):
            raise answer
        return answer


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


@given(items)
def test_a_group_is_settled_with_one_delay(given_items):
    """In its visibility and in its entries: an earlier record that returned later would be overtaken."""
    visibility = Visibility()
    unique = list({record.message_id: (record, outcome) for record, outcome in given_items}.values())
    found = settle(visibility, unique)

    groups = {record.message_id: record.group for record, _ in unique}
    longest = {
        group: max(outcome.delay for record, outcome in unique if record.group == group)
        for group in groups.values()
    }
    asked = [one for call in visibility.asked for one in call]
    assert dict(asked) == {message_id: longest[group] for message_id, group in groups.items()}
    assert {
        message_id: entry.parked_until - NOW if entry.park else 0 for message_id, entry in found.items()
    } == dict(asked)


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


def test_a_yield_may_be_woken_and_a_backoff_may_not():
    """Only what may be woken keeps its receipt."""
    found = settle(
        Visibility(), [returned("yielded", group="a"), returned("rests", group="b", wakeable=False)]
    )

    assert (found["yielded"].park, found["yielded"].receipt_handle) == (Park.YIELD, "handle-yielded")
    assert (found["rests"].park, found["rests"].receipt_handle) == (Park.REST, "")
    assert {entry.parked_until for entry in found.values()} == {NOW + 10}


def test_what_returns_at_once_is_not_parked():
    """It waits from now on."""
    found = settle(Visibility(), [returned("m", ending=Ending.RETURNED, delay=0)])

    assert (found["m"].park, found["m"].parked_until) == (None, 0.0)


def test_refused_changes_are_asked_for_once_more():
    """And only those."""
    visibility = Visibility(["b"], [])
    found = settle(visibility, [returned("a", group="a"), returned("b", group="b")])

    assert visibility.asked == [[("a", 10), ("b", 10)], [("b", 10)]]
    assert {entry.park for entry in found.values()} == {Park.YIELD}


def test_what_stays_refused_rests_until_its_visibility_ends():
    """At the latest a whole timeout from now; its receipt is no good any more."""
    found = settle(Visibility(["b"], ["b"]), [returned("a", group="a"), returned("b", group="b")])

    assert (found["b"].park, found["b"].receipt_handle) == (Park.REST, "")
    assert found["b"].parked_until == NOW + 180
    assert found["a"].park is Park.YIELD


def test_a_failed_call_is_made_once_more():
    """For all of them."""
    visibility = Visibility(aws_error(), [])

    assert settle(visibility, [returned("a")])["a"].park is Park.YIELD
    assert len(visibility.asked) == 2


def test_records_without_an_entry_are_not_noted():
    """The ledger could not be read, so it must not be overwritten blindly."""
    ledger = MemoryLedger(Calls())

    assert settle(Visibility(), [returned("a", noted=False)], ledger) == {}
    assert ledger.entries == {}
    assert ledger.calls.log == []


def test_a_note_that_fails_is_written_once_more():
    """And no more often than that: who yields is quick."""
    ledger = MemoryLedger(Calls())
    ledger.calls.break_if = lambda _operation, _position: aws_error()

    settle(Visibility(), [returned("a"), returned("b")], ledger)

    assert ledger.calls.log == ["BatchWriteItem"] * 2


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
