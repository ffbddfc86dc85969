"""
O2: claims, locks and retries.

States PENDING, PROCESSING, PUBLISHED, FAILED, ABANDONED. Entries are claimed in the order priority descending, then
age; a claim is atomic, and two relays never publish the same entry while its lock lives. A lock that expired is taken
over. A failed publish is retried with exponential backoff and jitter, keeps its priority, and is ABANDONED after
`max_attempts`.
"""

from dataclasses import replace

import pytest

from lanes.outbox.dynamodb.table import item_of
from lanes.outbox.entry import EntryState
from tests.support.outbox import LOCK, Bench, Run, abandoned, failed
from tests.support.sending import ACCEPT, LOSE_CALL, REFUSE


def test_claims_follow_priority_then_age(bench):
    """The most urgent first, among equals the oldest."""
    bench.write("n1", "n2")
    bench.write("low", priority=-100)
    bench.write("high", priority=50)
    bench.write("n3")

    assert bench.ids() == ["high", "n1", "n2", "n3", "low"]


def test_entries_of_one_moment_are_claimed_by_id(dynamodb_subject, clock):
    """The id decides between entries of one age, where no database numbers them."""
    bench = Bench(dynamodb_subject, clock)
    first, second = (bench.outbox.prepare("k", None, id=one) for one in ("b", "a"))

    bench.subject.write(first, replace(second, position=first.position))

    assert bench.ids() == ["a", "b"]


def test_ids_and_groups_of_any_characters_are_claimed_marked_and_woken(bench):
    """A store passes them on as they are."""
    ids = ['quo"te', "back\\slash", "ümlaut 行", "a'b", "%s :x $1 {}", "new\nline"]
    bench.write(*ids)
    bench.write("first", "second", group='g"\\%')
    claim, owner = bench.claim(len(ids) + 1)
    assert [entry.id for entry in claim.entries] == [*ids, "first"]
    assert bench.ids() == []

    assert bench.settle(claim, owner) == {*ids, "first"}
    assert bench.ids() == ["second"]


def test_a_claimed_entry_says_who_holds_it(bench):
    """State, owner and end of the lock are noted."""
    bench.write("a")
    _, owner = bench.claim()

    entry = bench.operations.entry("a")
    assert entry.state is EntryState.PROCESSING
    assert entry.locked_by == owner
    assert entry.locked_until == pytest.approx(bench.clock() + LOCK)


def test_a_published_entry_is_not_claimed_again(bench):
    """It stays to be looked at, with its number."""
    bench.write("a")
    claim, owner = bench.claim()

    assert {"a"} == bench.settle(claim, owner)
    bench.clock.advance(10_000)
    assert bench.ids() == []
    entry = bench.operations.entry("a")
    assert (entry.state, entry.sequence_number, entry.locked_by) == (EntryState.PUBLISHED, "7", None)


def test_a_failed_entry_waits_for_its_next_attempt(bench):
    """It is no candidate before, and one with its old priority after."""
    bench.write("a", priority=50)
    claim, owner = bench.claim()
    due_at = bench.clock() + 60
    bench.settle(claim, owner, a=failed(claim.entries[0], due_at=due_at))
    bench.write("b")

    assert bench.operations.entry("a").next_attempt_at == due_at
    assert bench.ids() == ["b"]
    bench.clock.advance(61)
    bench.write("c", priority=49)
    claim, _ = bench.claim()
    (first, second) = claim.entries
    assert (first.id, first.attempts, first.last_error, second.id) == ("a", 1, "refused", "c")
    assert claim.taken_over == 0


def test_an_expired_lock_is_taken_over(bench):
    """Another relay gets the entry when the lock has ended, not before."""
    bench.write("a")
    bench.claim()

    bench.clock.advance(LOCK - 1)
    assert bench.ids() == []
    bench.clock.advance(2)
    claim, _ = bench.claim()
    assert [entry.id for entry in claim.entries] == ["a"]
    assert claim.taken_over == 1


def test_a_late_relay_can_not_mark_what_another_took(bench):
    """Its marks change nothing and it is told so."""
    bench.write("a")
    late, late_owner = bench.claim()
    bench.clock.advance(LOCK + 1)
    claim, owner = bench.claim()

    assert frozenset() == bench.settle(late, late_owner, a=abandoned(late.entries[0]))
    assert bench.operations.entry("a").locked_by == owner
    assert {"a"} == bench.settle(claim, owner)
    assert frozenset() == bench.settle(late, late_owner, a=abandoned(late.entries[0]))
    assert bench.state("a") is EntryState.PUBLISHED


def test_a_refused_entry_is_tried_three_times_and_abandoned(subject, clock):
    """After waits of one and two minutes, with its reason."""
    run = Run(subject, clock, plan=lambda _: REFUSE)
    run.write("a")
    attempts = []
    for seconds in (0, 61, 121):
        clock.advance(seconds)
        run.relay.run_until(0)
        entry = subject.operations.entry("a")
        attempts.append((entry.state, entry.attempts))

    assert attempts == [(EntryState.FAILED, 1), (EntryState.FAILED, 2), (EntryState.ABANDONED, 3)]
    assert "not for us" in entry.last_error
    assert entry.expires_at == pytest.approx(clock() + 30 * 24 * 3600, abs=1)


def test_a_lost_answer_is_repeated_under_the_same_id(sqlite_subject, clock):
    """SQS drops the repeat."""
    answers = iter([LOSE_CALL])
    run = Run(sqlite_subject, clock, plan=lambda _: next(answers, ACCEPT))
    run.write("a")

    run.relay.run_once()
    assert (run.state("a"), run.subject.operations.entry("a").attempts) == (EntryState.PENDING, 0)
    run.relay.run_until(clock() + 1)
    assert run.state("a") is EntryState.PUBLISHED
    assert run.sent() == ["a"]


@pytest.mark.parametrize("body", ["no event", b'{"specversion":"1.0"}', b"\xff", 7])
def test_an_unreadable_entry_is_abandoned_at_once(sqlite_subject, clock, body):
    """No attempt could send it, and it holds nothing up; SQLite keeps values of any type."""
    run = Run(sqlite_subject, clock)
    broken = replace(run.outbox.prepare("k", None, id="broken"), body=body)
    sqlite_subject.write(broken)
    run.write("a")

    run.relay.run_once()
    assert run.state("broken") is EntryState.ABANDONED
    assert run.state("a") is EntryState.PUBLISHED


@pytest.mark.parametrize(
    ("lost", "wrong"),
    [
        ("body", {}),
        ("kind", {}),
        ("id", {}),
        ("lane", {}),
        ("kind", {"priority": {"S": "high"}}),
    ],
)
def test_an_item_that_is_no_entry_is_abandoned(dynamodb_subject, clock, lost, wrong):
    """Whoever wrote it, it keeps no other from its lane, and operators see it."""
    run = Run(dynamodb_subject, clock)
    item = item_of(run.outbox.prepare("k", None, id="wrong", priority=50)) | wrong
    del item[lost]
    dynamodb_subject.client.put_item(TableName=dynamodb_subject.name, Item=item)
    run.write("a")

    run.relay.run_until(clock())
    assert (run.sent("HIGH"), run.sent()) == ([], ["a"])
    (found,) = dynamodb_subject.operations.entries({EntryState.ABANDONED})
    assert found.id == "wrong"
    assert "not a CloudEvents" in found.last_error


@pytest.mark.parametrize(
    ("wrong", "sent"), [({"body": {"B": b"{}"}}, []), ({"unique_key": {"N": "7"}}, ["wrong"])], ids=str
)
def test_an_attribute_of_another_type_holds_up_no_other_entry(dynamodb_subject, clock, wrong, sent):
    """A body of bytes is abandoned; a key that is a number is none."""
    run = Run(dynamodb_subject, clock)
    item = item_of(run.outbox.prepare("k", None, id="wrong", priority=50)) | wrong
    dynamodb_subject.client.put_item(TableName=dynamodb_subject.name, Item=item)
    run.write("a")

    run.relay.run_until(clock())
    assert (run.sent("HIGH"), run.sent()) == (sent, ["a"])
    assert run.state("wrong") is (EntryState.PUBLISHED if sent else EntryState.ABANDONED)


def test_a_relay_that_comes_back_late_marks_nothing(subject, clock):
    """Another one has taken its entries over meanwhile."""
    run = Run(subject, clock)
    other = Run(subject, clock)
    run.write("a")
    producer = run.relay._publication._producer
    send = producer.send_many

    def slow(messages, **_options):
        clock.advance(301)
        other.relay.run_once()
        # Two marks of one moment that say the same are one.
        clock.advance(1)
        return send(messages)

    producer.send_many = slow
    outcome = run.relay.run_once()
    assert (outcome.published, outcome.lock_lost) == (0, 1)
    assert run.state("a") is EntryState.PUBLISHED
