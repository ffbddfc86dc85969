"""The relay between a store and the lanes."""

from dataclasses import replace
from datetime import timedelta

import pytest

from lanes.aws.outbox_item import item_of
from lanes.config import LanesConfig
from lanes.errors import OutboxStoreError
from lanes.outbox.entry import EntryState
from lanes.outbox.relay import Relay
from lanes.outbox.sql_schema import row_of
from tests.support.outbox import START, new_outbox, publisher
from tests.support.sending import ACCEPT, LOSE_CALL, REFUSE, queue_url


class Run:
    """An outbox with a relay on it."""

    def __init__(self, subject, clock, plan=lambda _: ACCEPT, depths=None, **outbox):
        self.config = LanesConfig.from_dict({"outbox": {"retry_jitter": 0, **outbox}})
        self.subject, self.clock = subject, clock
        self.outbox = new_outbox(self.config, clock)
        producer, self.sqs = publisher(self.config, plan)
        self.relay = Relay(
            store=subject.store, producer=producer, config=self.config, depths=depths, clock=clock
        )

    def write(self, *ids, **settings):
        """Write entries."""
        self.subject.write(*(self.outbox.prepare("k", {"n": one}, id=one, **settings) for one in ids))

    def sent(self, lane="MEDIUM"):
        """Give the deduplication ids in a lane's queue."""
        return self.sqs.ids(queue_url(lane))

    def state(self, entry_id):
        """Read an entry's state."""
        return self.subject.operations.entry(entry_id).state


def test_entries_reach_their_lanes_under_their_ids(subject, clock):
    """The deduplication id is the entry's, and the entry says that SQS has it."""
    run = Run(subject, clock)
    run.write("a", "b")
    run.write("h", priority=50)

    outcome = run.relay.run_once()
    assert (outcome.published, outcome.failed, outcome.is_idle) == (3, 0, False)
    assert run.sent("HIGH") == ["h"]
    assert run.sent() == ["a", "b"]
    assert subject.operations.entry("a").state is EntryState.PUBLISHED
    assert subject.operations.entry("h").sequence_number == f"{0:020}"
    assert run.relay.run_once().is_idle


def test_the_most_urgent_leave_first(sqlite_subject, clock):
    """A small batch takes the top of the order."""
    run = Run(sqlite_subject, clock, batch=1)
    run.write("bulk", priority=-100)
    run.write("urgent", priority=100)

    run.relay.run_once()
    assert (run.sent("HIGH"), run.sent("MAIN")) == (["urgent"], [])


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


def test_a_group_waits_for_its_failed_entry_and_no_other_does(subject, clock):
    """Order is kept in the lane, though the later ones were in the same batch."""
    fails = {"a"}
    run = Run(subject, clock, plan=lambda one: REFUSE if one in fails else ACCEPT)
    run.write("a", "b", "c", group="g")
    run.write("x", group="h")

    run.relay.run_until(clock() + 1)
    assert run.sent() == ["x"]
    fails.clear()
    clock.advance(61)
    run.relay.run_until(clock() + 1)
    assert run.sent() == ["x", "a", "b", "c"]
    assert run.state("c") is EntryState.PUBLISHED


def test_a_lost_answer_is_repeated_under_the_same_id(sqlite_subject, clock):
    """SQS drops the repeat."""
    answers = iter([LOSE_CALL])
    run = Run(sqlite_subject, clock, plan=lambda _: next(answers, ACCEPT))
    run.write("a")

    run.relay.run_once()
    assert run.state("a") is EntryState.FAILED
    clock.advance(61)
    run.relay.run_until(clock() + 1)
    assert run.state("a") is EntryState.PUBLISHED
    assert run.sent() == ["a"]


def test_an_unreadable_entry_is_abandoned_at_once(sqlite_subject, clock):
    """No attempt could send it, and it holds nothing up."""
    run = Run(sqlite_subject, clock)
    broken = replace(run.outbox.prepare("k", None, id="broken"), body="no event")
    sqlite_subject.write(broken)
    run.write("a")

    run.relay.run_once()
    assert run.state("broken") is EntryState.ABANDONED
    assert run.state("a") is EntryState.PUBLISHED


def test_the_message_has_the_id_of_its_entry(subject, clock):
    """Also where whoever wrote the entry gave another one to the body: no entry stops a relay."""
    run = Run(subject, clock)
    entry = run.outbox.prepare("k", None, id="mine")
    subject.write(replace(entry, body=entry.body.replace("mine", "other")))
    run.write("a")

    assert run.relay.run_once().published == 2
    assert run.sent() == ["mine", "a"]
    assert run.state("mine") is EntryState.PUBLISHED


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


def test_an_id_that_was_written_twice_is_sent_under_that_id(dynamodb_subject, clock):
    """One claim takes one of the two, so that each is marked; SQS drops the second message."""
    run = Run(dynamodb_subject, clock)
    run.write("a")
    run.write("a")

    outcomes = [run.relay.run_once() for _ in range(2)]
    assert [(one.published, one.lock_lost) for one in outcomes] == [(1, 0), (1, 0)]
    assert run.relay.run_once().is_idle


def test_a_relay_that_comes_back_late_marks_nothing(subject, clock):
    """Another one has taken its entries over meanwhile."""
    run = Run(subject, clock)
    other = Run(subject, clock)
    run.write("a")
    send = run.relay._producer.send_many

    def slow(messages):
        clock.advance(301)
        other.relay.run_once()
        return send(messages)

    run.relay._producer.send_many = slow
    outcome = run.relay.run_once()
    assert (outcome.published, outcome.lock_lost) == (0, 1)
    assert run.state("a") is EntryState.PUBLISHED


class Depths:
    """How full lanes are, by name."""

    def __init__(self, **full):
        self.full = full

    def waiting(self, lane):
        return self.full.get(lane, 0)


def test_the_window_of_a_lane_keeps_the_rest_in_the_store(subject, clock):
    """Only as many leave as the lane has room for, the most urgent of them."""
    depths = Depths(MEDIUM=3)
    run = Run(subject, clock, depths=depths, lane_window={"MEDIUM": 5})
    run.write("a", "b", "c")
    run.write("d", priority=10)

    run.relay.run_once()
    assert run.sent() == ["d", "a"]
    depths.full["MEDIUM"] = 5
    assert run.relay.run_once().is_idle
    depths.full["MEDIUM"] = 0
    run.relay.run_once()
    assert run.sent() == ["d", "a", "b", "c"]


def test_an_idle_relay_pauses_ever_longer_and_wakes_at_once(sqlite_subject, clock):
    """Idle costs a claim a tick; work resets the pause."""
    run = Run(sqlite_subject, clock)
    pauses = []

    def pause(length):
        pauses.append(length)
        if len(pauses) == 3:
            run.write("a")

    run.relay.run(should_stop=lambda: len(pauses) == 4, pause=pause)
    assert pauses == [timedelta(milliseconds=20 * factor) for factor in (1, 2, 4, 1)]
    assert run.sent() == ["a"]


def test_two_databases_have_a_relay_each(tmp_path, clock):
    """They share nothing but the lanes."""
    from tests.support.outbox import SqlSubject

    subjects = [SqlSubject(f"sqlite:///{tmp_path / name}") for name in ("one.db", "two.db")]
    runs = [Run(subject, clock) for subject in subjects]
    runs[0].write("a")
    runs[1].write("b")

    for run in runs:
        run.relay.run_once()
    assert [run.sent() for run in runs] == [["a"], ["b"]]
    for subject in subjects:
        subject.close()


def test_nothing_of_a_rolled_back_transaction_is_sent(sqlite_subject, clock):
    """Business data and message commit together or not at all."""
    run = Run(sqlite_subject, clock)
    with sqlite_subject.engine.connect() as connection:
        run.outbox.add(connection, "k", {"n": 1})
        connection.rollback()
    with sqlite_subject.engine.begin() as connection:
        entry = run.outbox.add(connection, "k", {"n": 2})

    assert run.relay.run_once().published == 1
    assert run.sent() == [entry.id]
    assert row_of(entry)["position"] >= START * 1_000_000


def test_an_outage_of_the_store_is_waited_out(sqlite_subject, clock, monkeypatch):
    """A relay that polls does not end for what passes, and ends for what does not."""
    run = Run(sqlite_subject, clock)
    run.write("a")
    claim = sqlite_subject.store.claim
    outages = iter([OutboxStoreError("gone", retryable=True)] * 2)

    def unsteady(*args, **kwargs):
        if outage := next(outages, None):
            raise outage
        return claim(*args, **kwargs)

    monkeypatch.setattr(sqlite_subject.store, "claim", unsteady)
    pauses = []
    run.relay.run(should_stop=lambda: len(pauses) == 3, pause=pauses.append)
    assert run.sent() == ["a"]
    assert len(pauses) == 3

    outages = iter([OutboxStoreError("no such table", retryable=False)])
    with pytest.raises(OutboxStoreError, match="no such table"):
        run.relay.run(should_stop=lambda: False, pause=pauses.append)
