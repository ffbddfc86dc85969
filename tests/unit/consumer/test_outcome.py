"""Outcomes: every record is returned until something better is known of it."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from lanes.consumer.ledger import Ending, Entry
from lanes.consumer.outcome import KEPT, Outcome, Outcomes, Reason
from tests.support.records import record_with

STORED = [Ending.DONE, Ending.DEAD_LETTERED, *KEPT]
GIVEN = st.builds(Outcome, ending=st.sampled_from(STORED), delay=st.one_of(st.none(), st.integers(0, 900)))


@st.composite
def batches(draw):
    """Give records of a few groups, some of them lost, and whether the ledger could be read."""
    groups = draw(st.lists(st.sampled_from("abc"), max_size=10))
    records = [record_with(f"m{number}", group=group) for number, group in enumerate(groups)]
    lost = draw(st.sets(st.sampled_from([record.message_id for record in records]))) if records else set()
    known = draw(st.booleans())
    entries = {record.message_id: entry_of(record) for record in records} if known else {}
    return records, entries, lost


def entry_of(record, **fields):
    return Entry(lane="MAIN", message_id=record.message_id, **fields)


@st.composite
def decided(draw):
    """Give outcomes of which some were set, in any order, some of them twice; and the first decisions."""
    records, entries, lost = draw(batches())
    outcomes, first = Outcomes(records, entries), {}
    outcomes.lose(lost)
    order = draw(st.lists(st.sampled_from(records), max_size=15)) if records else []
    for record in order:
        given_outcome = draw(GIVEN)
        outcomes.set(record, given_outcome)
        first.setdefault(record.message_id, given_outcome)
    return records, entries, lost, outcomes, first


@given(batches())
def test_the_first_answer_is_the_fail_safe_one(batch):
    """Every record is kept, with the entry that it has, and none is settled: its visibility ends by itself."""
    records, entries, lost = batch

    outcomes = Outcomes(records, entries)
    outcomes.lose(lost)

    assert outcomes.kept == records
    assert outcomes.to_settle(0.0) == []
    assert (outcomes.finished, outcomes.has_yielded) == (0, False)
    assert outcomes.undecided == records
    assert list(outcomes) == [
        (record, Outcome(ending=Ending.RETURNED, entry=entries.get(record.message_id), delay=None))
        for record in records
    ]


@given(decided())
def test_the_first_decision_counts(case):
    """A record that is decided once is decided."""
    records, entries, _, outcomes, first = case

    for record in records:
        expected = first.get(record.message_id, Outcome(entry=entries.get(record.message_id)))
        assert outcomes[record] == expected


@given(decided())
def test_a_record_is_kept_unless_it_is_known_to_be_finished(case):
    """An empty answer would delete the batch."""
    records, _, _, outcomes, first = case
    finished = {message_id for message_id, outcome in first.items() if outcome.ending not in KEPT}

    assert {record.message_id for record in outcomes.kept} == {r.message_id for r in records} - finished
    assert outcomes.finished == len(finished)
    assert [record for record, _ in outcomes] == records


@given(decided())
def test_records_that_are_kept_for_a_known_time_and_still_ours_are_settled(case):
    """In the batch's order; another invocation may have the lost ones by now."""
    records, _, lost, outcomes, first = case
    expected = [
        (record, first[record.message_id])
        for record in records
        if record.message_id in first
        and record.message_id not in lost
        and first[record.message_id].is_kept
        and first[record.message_id].delay is not None
    ]

    assert outcomes.to_settle(0.0) == expected


@given(decided())
def test_a_kept_or_lost_record_keeps_its_group(case):
    """The later records of the group would overtake it."""
    records, _, lost, outcomes, first = case
    staying = {
        record.group
        for record in records
        if record.message_id in lost or (record.message_id in first and first[record.message_id].is_kept)
    }

    for record in records:
        assert (outcomes.behind(record) is not None) == (record.group in staying)


@given(st.lists(st.sampled_from(sorted(KEPT)), min_size=1), st.booleans())
def test_a_record_yields_behind_one_that_yielded_and_is_returned_behind_any_other(endings, loses):
    """The first of its group to stay counts."""
    records = [record_with(f"m{number}") for number in range(len(endings) + 1)]
    outcomes = Outcomes(records, {})
    if loses:
        outcomes.lose([records[0].message_id])
    for record, ending in zip(records, endings, strict=False):
        outcomes.set(record, Outcome(ending=ending, delay=9, wakeable=ending is Ending.YIELDED))

    behind = outcomes.behind(records[-1])

    if endings[0] is Ending.YIELDED and not loses:
        assert behind == outcomes[records[0]]
    else:
        assert behind == Outcome(delay=0, reason=Reason.BEHIND)


@given(decided())
def test_the_rest_is_what_is_not_decided(case):
    """In the order of the batch."""
    records, _, _, outcomes, first = case

    assert outcomes.undecided == [record for record in records if record.message_id not in first]


@given(decided(), st.integers(0, 900))
def test_records_kept_together_keep_their_own_entries(case, delay):
    """And those that were decided before are not decided again."""
    records, entries, _, outcomes, first = case

    outcomes.keep(records, Outcome(ending=Ending.YIELDED, delay=delay))

    for record in records:
        if record.message_id in first:
            assert outcomes[record] == first[record.message_id]
        else:
            entry = entries.get(record.message_id)
            assert outcomes[record] == Outcome(ending=Ending.YIELDED, delay=delay, entry=entry)
    yielded = [record for record in records if outcomes[record].ending is Ending.YIELDED]
    assert outcomes.has_yielded == bool(yielded)


def test_an_entry_that_changes_meanwhile_is_the_one_that_is_kept():
    """A handler that leaves at a checkpoint takes its attempt back."""
    record = record_with("m")
    outcomes = Outcomes([record], {"m": entry_of(record, attempts=1)})

    outcomes.entries["m"] = dataclasses.replace(outcomes.entries["m"], attempts=0)
    outcomes.keep([record], Outcome(delay=3, reason=Reason.TIME))

    assert outcomes.to_settle(0.0) == [
        (record, Outcome(entry=entry_of(record, attempts=0), delay=3, reason=Reason.TIME))
    ]


def test_a_delay_that_began_before_the_settlement_is_shorter_then():
    """Rounded down, not late for the moment at which it ends, but not to nothing before that."""
    outcome = Outcome(delay=8, since=100.0)

    assert [outcome.at(now).delay for now in (100.0, 101.5, 107.5, 108.0, 200.0)] == [8, 6, 1, 0, 0]
    assert Outcome(delay=8).at(200.0).delay == 8
