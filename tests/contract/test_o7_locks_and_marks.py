"""
O7: a claim's one deadline, and marks that are repeated.

A claim has one deadline, before its lock ends: what is unsent by then is returned. The lock, and a repeat after it, lie
within SQS's five minutes of deduplication. A write of the result that fails is repeated until the lock ends.
"""

import pytest
import sqlalchemy as sa

from lanes.errors import AwsError, OutboxStoreError
from lanes.outbox.dynamodb.store import DynamoDBOutboxStore
from lanes.outbox.entry import EntryState
from lanes.outbox.rules import Mark, lane_shares
from lanes.outbox.sql.database import sql_errors
from tests.support.outbox import Repeats
from tests.support.outbox_faults import Faulty

LOCK = 120


class Flaky:
    """A store with marks that fail by plan."""

    expires_by_itself = True

    def __init__(self, store, plan):
        self._store, self._plan = store, iter(plan)
        self.tries = 0

    def claim(self, *args, **kwargs):
        return self._store.claim(*args, **kwargs)

    def release(self, **claim):
        return self._store.release(**claim)

    def settle(self, marks, *, owner, now):
        self.tries += 1
        fate = next(self._plan, "write")
        if fate == "lose answer":
            self._store.settle(marks, owner=owner, now=now)
        if fate != "write":
            raise OutboxStoreError("connection closed", retryable=True)
        return self._store.settle(marks, owner=owner, now=now)


def flaky(run, *plan):
    """Let the marks of a run fail by plan."""
    run.relay.store = Flaky(run.subject.store, plan)
    return run.relay.store


def test_a_round_ends_before_its_lock_and_returns_what_is_unsent(subject, clock):
    """Each call takes seven seconds, and the group goes out one by one."""
    run = Faulty(subject, clock, batch=25)
    run.sqs.seconds = 7
    run.write(*(f"p{number:02}" for number in range(25)), group="g")
    begun = clock()

    outcome = run.relay.run_once()

    assert clock() - begun <= LOCK / 2 + 7
    assert (outcome.published, outcome.returned, outcome.failed) == (9, 16, 0)
    assert run.states() == {EntryState.PUBLISHED: 9, EntryState.PENDING: 16}
    run.relay.run_until(clock() + 600)
    assert run.sent() == [f"p{number:02}" for number in range(25)]
    assert len(run.sqs.tried) == 25


def test_a_slow_and_a_good_relay_send_everything_once_and_in_order(subject, clock):
    """The good one claims whenever the slow one has made a call."""
    slow, good = Faulty(subject, clock, batch=25), Faulty(subject, clock, batch=25)
    slow.sqs.seconds = 11
    good.sqs.queues = slow.sqs.queues
    slow.write(*(f"p{number:02}" for number in range(40)), group="g")
    call = slow.sqs.send_batch

    def send(url, entries):
        answers = call(url, entries)
        good.relay.run_once()
        return answers

    slow.sqs.send_batch = send
    for _ in range(8):
        slow.relay.run_once()
        good.relay.run_once()
        clock.advance(1)

    tried = [one for _, _, one in sorted(slow.sqs.tried + good.sqs.tried)]
    assert tried == [f"p{number:02}" for number in range(40)]
    assert (slow.told.counts["lost"], good.told.counts["lost"]) == (0, 0)


def test_a_relay_that_is_asked_to_stop_ends_its_round_within_seconds(subject, clock):
    """No call begins after the signal; the rest of the claim is returned."""
    run = Faulty(subject, clock, batch=25)
    run.sqs.seconds = 2
    run.write(*(f"p{number:02}" for number in range(25)), group="g")
    asked_at = clock() + 5

    run.relay.run(
        should_stop=lambda: clock() >= asked_at, pause=lambda length: clock.advance(length.total_seconds())
    )

    assert clock() - asked_at <= 2
    assert len(run.sent()) == 3
    assert run.states() == {EntryState.PUBLISHED: 3, EntryState.PENDING: 22}


def test_a_mark_that_fails_is_written_soon_and_nothing_is_sent_twice(subject, clock):
    """One closed connection: the group does not stand still."""
    run = Faulty(subject, clock)
    store = flaky(run, "fail", "fail", "fail")
    run.write("a", "b", group="g")
    begun = clock()

    outcome = run.relay.run_once()

    assert (outcome.published, outcome.lock_lost, store.tries) == (2, 0, 4)
    assert clock() - begun < 2
    assert run.states() == {EntryState.PUBLISHED: 2}
    assert len(run.sqs.tried) == 2


def test_a_lost_answer_to_a_mark_is_not_taken_for_a_lost_lock(subject, clock):
    """The repeat finds it written; later entries of the group go on at once."""
    run = Faulty(subject, clock, batch=1)
    run.write("a", "b", group="g")
    flaky(run, "lose answer")

    outcome = run.relay.run_once()

    assert (outcome.published, outcome.lock_lost) == (1, 0)
    run.relay.run_once()
    assert run.sent() == ["a", "b"]


def test_a_request_that_the_client_repeats_loses_no_claim_and_no_lock(dynamodb_subject, clock):
    """The repeat finds what its first try has written."""
    run = Faulty(dynamodb_subject, clock)
    run.write("a", "b", group="g")
    clock.advance(0.1234567)
    client = Repeats(dynamodb_subject.client)
    run.relay.store = DynamoDBOutboxStore(table=dynamodb_subject.name, client=client, concurrency=1)

    outcome = run.relay.run_once()

    assert (outcome.published, outcome.lock_lost) == (2, 0)
    assert run.sent() == ["a", "b"]


def test_marks_are_repeated_until_the_lock_ends_and_no_longer(subject, clock):
    """Then another relay takes the entry over, within SQS's five minutes."""
    run, other = Faulty(subject, clock), Faulty(subject, clock)
    flaky(run, *["fail"] * 1000)
    run.write("a")
    begun = clock()

    outcome = run.relay.run_once()

    assert LOCK - 10 <= clock() - begun <= LOCK
    assert (outcome.published, outcome.lock_lost) == (0, 0)
    assert [outage.of for _, outage in run.told.outages][:1] == ["outbox"]
    clock.advance(10)
    other.relay.run_until(clock() + 10)
    assert other.sqs.tried[0][0] - run.sqs.tried[0][0] < 300
    assert run.states() == {EntryState.PUBLISHED: 1}


def test_a_relay_that_is_asked_to_stop_repeats_its_marks_for_a_moment_only(sqlite_subject, clock):
    """The process manager would kill it."""
    run = Faulty(sqlite_subject, clock)
    flaky(run, *["fail"] * 1000)
    run.write("a")
    run.sqs.seconds = 1
    asked_at = clock() + 0.5

    run.relay.run(should_stop=lambda: clock() >= asked_at, pause=lambda _: None)

    assert clock() - asked_at < 6


def test_a_throttled_mark_of_one_entry_does_not_give_up_the_round(dynamodb_subject, clock):
    """DynamoDB throttles every fifth update: each entry is sent once, and later rounds write the rest of the marks."""
    run = Faulty(dynamodb_subject, clock, batch=25)
    run.write(*(f"p{number:02}" for number in range(20)))
    calls, numbers = dynamodb_subject.store.calls, iter(range(1, 10_000))
    update = calls.update

    def sometimes(item, change):
        if change.parameters()["ConditionExpression"].startswith("#") and next(numbers) % 5 == 0:
            raise AwsError(operation="UpdateItem", code="ThrottlingException", retryable=True)
        return update(item, change)

    claim = dynamodb_subject.store.claim

    def claimed(*args, **kwargs):
        calls.update = update
        found = claim(*args, **kwargs)
        calls.update = sometimes
        return found

    run.relay.store.claim = claimed
    outcome = run.relay.run_until(clock() + 10)

    assert (outcome.published, outcome.lock_lost) == (20, 0)
    assert run.states() == {EntryState.PUBLISHED: 20}
    assert len(run.sqs.tried) == 20


def test_one_mark_that_can_never_be_written_does_not_hold_up_the_others(dynamodb_subject, clock):
    """It is reported, and its lock ends."""
    run = Faulty(dynamodb_subject, clock)
    run.write("bad", "good")
    update = dynamodb_subject.store.calls.update

    def refuse(item, change):
        is_mark = ":v" in change.parameters()["ConditionExpression"] and "PUBLISHED" in str(
            change.parameters()
        )
        if is_mark and item["sk"]["S"].endswith("#bad"):
            raise AwsError(operation="UpdateItem", code="ValidationException", retryable=False)
        return update(item, change)

    dynamodb_subject.store.calls.update = refuse
    outcome = run.relay.run_once()

    assert outcome.published == 1
    assert (run.state("good"), run.state("bad")) == (EntryState.PUBLISHED, EntryState.PROCESSING)
    assert "ValidationException" in run.told.outages[0][1].reason


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
def test_a_busy_relay_removes_expired_entries_too(store, request, clock):
    """In every round, a bounded number; an outage in it does not end the relay."""
    subject = request.getfixturevalue(f"{store}_subject")
    run = Faulty(subject, clock)
    expire(run, 1000)
    remove = subject.store.remove_expired
    failures = iter([OutboxStoreError("gone", retryable=True)] * 2)
    written = iter(range(100_000))

    def unsteady(**options):
        if error := next(failures, None):
            raise error
        return remove(**options)

    subject.store.remove_expired = unsteady
    send = run.sqs.send_batch

    def busy(url, entries):
        run.write(f"more-{next(written)}")
        return send(url, entries)

    run.sqs.send_batch = busy
    run.write("first")
    ends = clock() + 2
    pauses = []
    run.relay.run(should_stop=lambda: clock() >= ends, pause=pauses.append)

    with subject.engine.connect() as connection:
        table = subject.tables.entries
        old = sa.select(sa.func.count()).where(table.c.expires_at <= clock())
        assert connection.execute(old).scalar() == 0
    assert run.sent()[0] == "first"
    assert len(run.sent()) > 20


def expire(run, count):
    """Publish entries and let their retention end."""
    run.write(*(f"old-{number}" for number in range(count)))
    store, now = run.subject.store, run.clock()
    for _ in range(0, count, 100):
        claim = store.claim(shares_of(run), owner="x", now=now, locked_until=now + 60, limit=100)
        marks = [
            Mark(entry=one, state=EntryState.PUBLISHED, attempts=0, expires_at=now) for one in claim.entries
        ]
        store.settle(marks, owner="x", now=now)


def shares_of(run):
    """Return the shares of all lanes."""
    return lane_shares(run.config)


class Skewed:
    """A clock that is wrong by some seconds."""

    def __init__(self, clock, seconds):
        self._clock, self._seconds = clock, seconds

    def __call__(self):
        return self._clock() + self._seconds

    def advance(self, seconds):
        """Let the time of all clocks pass."""
        self._clock.advance(seconds)


@pytest.mark.parametrize("skew", [3600, -3600])
def test_a_relay_with_a_wrong_clock_breaks_no_order_and_sqs_drops_its_repeats(sqlite_subject, clock, skew):
    """It takes entries over that another one is sending: both send them, in order, within seconds."""
    right, wrong = Faulty(sqlite_subject, clock), Faulty(sqlite_subject, Skewed(clock, skew))
    wrong.sqs.queues = right.sqs.queues
    right.write(*(f"p{number:02}" for number in range(30)), group="g")
    call = right.sqs.send_batch

    def send(url, entries):
        answers = call(url, entries)
        wrong.relay.run_once()
        return answers

    right.sqs.send_batch = send
    for _ in range(10):
        right.relay.run_once()
        wrong.relay.run_once()
        clock.advance(1)

    assert right.sent() == [f"p{number:02}" for number in range(30)]
    assert right.states() == {EntryState.PUBLISHED: 30}
    assert right.attempts() == 0


def test_the_entries_of_a_dead_relay_with_a_clock_ahead_wait_for_the_end_of_its_lock(subject, clock):
    """No other relay can tell such a lock from a good one."""
    run = Faulty(subject, clock)
    run.write("p0")
    ahead = clock() + 3600
    subject.store.claim(shares_of(run), owner="dead", now=ahead, locked_until=ahead + 120, limit=1)
    clock.advance(3600)
    run.relay.run_once()
    assert run.sent() == []
    clock.advance(121)
    run.relay.run_until(clock() + 1)

    assert run.sent() == ["p0"]


@pytest.mark.parametrize("at", ["claim", "settle"])
def test_a_full_disk_of_the_database_is_waited_out(sqlite_subject, clock, at, monkeypatch):
    """It is an outage like another: nothing is lost, and nothing is sent twice but what could not be marked."""
    run = Faulty(sqlite_subject, clock, tick="1s")
    run.write("a", "b", group="g")
    real, store = getattr(sqlite_subject.store, at), sqlite_subject.store
    full_until = clock() + 60

    def full(*args, **kwargs):
        if clock() < full_until:
            with sql_errors():
                raise sa.exc.OperationalError("UPDATE", {}, Exception("database or disk is full"))
        return real(*args, **kwargs)

    monkeypatch.setattr(store, at, full)
    run.run(120)

    assert run.sent() == ["a", "b"]
    assert run.states() == {EntryState.PUBLISHED: 2}
    assert [outage.of for _, outage in run.told.outages] == ["outbox"] * len(run.told.outages)
    assert len(run.told.outages) <= 2
