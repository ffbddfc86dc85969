"""The cached ledger: which entries need a read of the table, and the parked records that an environment knows of."""

import dataclasses

import pytest

from lanes.consumer import ledger as module
from lanes.consumer.ledger import INDEX_LAG, TRUSTED, CachedLedger, Cause, Ending, Entry, Park
from lanes.errors import AwsError
from lanes.testing.calls import Calls
from lanes.testing.clock import START as NOW
from lanes.testing.clock import FakeClock
from lanes.testing.memory import MemoryLedger
from tests.support.memory import aws_error
from tests.support.records import record_with

FIRST = 1_800_000_000.0  # of `record_with`


def noted(message_id, receive, *, lane="MAIN", ending=Ending.FAILED, **fields):
    """Give an entry as a settlement writes it, without a park."""
    usual = {"first_received_at": FIRST, "noted_receive": receive, "noted_at": NOW, "ending": ending}
    return Entry(lane=lane, message_id=message_id, **{**usual, **fields})


def parked(message_id, until, *, lane="MAIN", noted_at=NOW, batch="b", park=Park.YIELD):
    return Entry(
        lane=lane,
        message_id=message_id,
        park=park,
        parked_until=until,
        noted_at=noted_at,
        noted_receive=1,
        ending=Ending.YIELDED,
        first_received_at=FIRST,
        batch=batch,
        receipt_handle=f"receipt-{message_id}",
    )


class Environment:
    """One environment's cache before a table, and the peers' entries in that table."""

    def __init__(self):
        self.clock = FakeClock()
        self.table = MemoryLedger(Calls())
        self.cache = CachedLedger(self.table, clock=self.clock)

    @property
    def calls(self):
        """The calls since they were last asked for."""
        log, self.table.calls.log = list(self.table.calls.log), []
        return log

    def peers_note(self, *entries):
        """Let another environment write entries."""
        self.table.note(entries)
        assert self.calls

    def receive(self, message_id, count, *, lane="MAIN", **fields):
        record = record_with(message_id, receive_count=count, **fields)
        return self.cache.entries_of(lane, [record])[message_id]

    def parked(self, lane="MAIN"):
        return {entry.message_id for entry in self.cache.parked(lane)}


@pytest.fixture
def environment():
    return Environment()


def test_a_first_receive_costs_no_call(environment):
    """Its entry is new, with SQS's stamp."""
    assert environment.receive("m", 1) == Entry(lane="MAIN", message_id="m", first_received_at=FIRST)
    assert environment.calls == []


def test_an_entry_of_its_own_last_receive_needs_no_read(environment):
    """No other environment had the record in between."""
    environment.cache.write([noted("m", 4, attempts=2)])
    assert environment.calls == ["PutItem"]

    entry = environment.receive("m", 5)

    assert (entry.attempts, entry.suspect) == (2, False)
    assert environment.calls == []


def test_any_other_entry_is_read(environment):
    """A peer had the record at receive 5, and wrote that."""
    environment.cache.write([noted("m", 4, attempts=2)])
    environment.peers_note(noted("m", 5, attempts=3))

    assert environment.receive("m", 6).attempts == 3
    assert environment.calls == ["BatchGetItem"]


def test_a_known_entry_serves_one_receive(environment):
    """If nothing is written for that one, the next is unexplained."""
    environment.cache.write([noted("m", 1)])
    environment.receive("m", 2)
    environment.table.calls.log.clear()

    assert environment.receive("m", 3).suspect
    assert environment.calls == ["BatchGetItem"]


def test_only_the_missing_entries_of_a_batch_are_read(environment):
    """In one call, and only those of records received before."""
    environment.cache.write([noted("own", 1)])
    environment.peers_note(noted("theirs", 1, attempts=1))
    asked = []
    read = environment.table.read
    environment.table.read = lambda lane, ids: asked.append((lane, list(ids))) or read(lane, ids)
    records = [
        record_with("first"),
        *(record_with(name, receive_count=2) for name in ("own", "theirs", "unknown")),
    ]

    entries = environment.cache.entries_of("MAIN", records)

    assert asked == [("MAIN", ["theirs", "unknown"])]
    assert list(entries) == ["first", "own", "theirs", "unknown"]
    assert {name for name, entry in entries.items() if entry.suspect} == {"unknown"}


def test_the_same_id_in_another_lane_is_another_message(environment):
    """The key has both."""
    environment.cache.write([noted("m", 1, attempts=4)])

    assert environment.receive("m", 2, lane="HIGH").attempts == 0


def test_a_redriven_message_starts_again(environment):
    """Its cached entry is of an earlier stay in the queue."""
    environment.cache.write([noted("m", 1, attempts=4, given_up="not wanted")])

    entry = environment.receive("m", 2, first_received_at=FIRST + 60)

    assert (entry.attempts, entry.given_up, entry.first_received_at) == (0, "", FIRST + 60)


def test_a_failed_read_is_repeated_once(environment):
    """A second failure is the caller's."""
    environment.peers_note(noted("m", 1, attempts=1))
    environment.table.calls.break_if = lambda _operation, position: None if position else aws_error()

    assert environment.receive("m", 2).attempts == 1

    environment.table.calls.break_if = lambda _operation, _position: aws_error()
    with pytest.raises(AwsError):
        environment.receive("m", 2)


def test_an_entry_that_could_not_be_written_is_known_all_the_same(environment):
    """The record is parked, whether the table has it or not."""
    environment.table.calls.break_if = lambda _operation, _position: aws_error()
    with pytest.raises(AwsError):
        environment.cache.write([dataclasses.replace(parked("m", NOW + 9), attempts=2)])

    assert environment.parked() == {"m"}
    assert environment.receive("m", 2).attempts == 2


def test_the_oldest_entries_are_forgotten_first(environment, monkeypatch):
    """An environment lives for hours; written again is young again."""
    monkeypatch.setattr(module, "MOST_CACHED", 3)
    environment.cache.write([noted(name, 1) for name in "abc"])
    environment.cache.write([noted("a", 1)])
    environment.cache.write([noted("d", 1)])
    environment.table.calls.log.clear()

    for name in "acd":
        environment.receive(name, 2)
    assert environment.calls == []
    environment.receive("b", 2)
    assert environment.calls == ["BatchGetItem"]


def test_a_forgotten_entry_is_asked_of_the_table(environment, monkeypatch):
    """It was never written, so the table has no such record; those still cached need no call."""
    monkeypatch.setattr(module, "MOST_CACHED", 2)
    entries = [parked(name, NOW + 9) for name in "abc"]
    for entry in entries:
        environment.cache.remember(entry)

    assert environment.cache.unpark(entries[1:])
    assert environment.calls == []
    assert not environment.cache.unpark(entries[:1])
    assert environment.calls


def test_a_parked_record_is_known_until_its_parking_ends(environment):
    """By lane; no message says when it does."""
    environment.cache.write([parked("a", NOW + 5), parked("b", NOW + 9), parked("c", NOW + 9, lane="MEDIUM")])

    assert (environment.parked(), environment.parked("MEDIUM")) == ({"a", "b"}, {"c"})
    environment.clock.advance(5)
    assert environment.parked() == {"b"}
    environment.clock.advance(4)
    assert environment.parked() == set()


def test_a_record_that_was_received_or_written_again_is_parked_no_more(environment):
    """Its entry at that receive says so, too."""
    environment.cache.write([parked(name, NOW + 5) for name in "abc"])

    entry = environment.receive("a", 2)
    environment.cache.write([noted("b", 2)])

    assert environment.parked() == {"c"}
    assert (entry.park, entry.parked_until, entry.batch, entry.receipt_handle) == (None, 0.0, "", "")
    assert entry.cause_of(record_with("a", receive_count=2)) is Cause.AFTER_YIELD


def test_a_reading_replaces_older_knowledge_but_not_its_own_last_writes(environment):
    """AWS: the index may lag behind the table."""
    environment.cache.write([parked("old", NOW + 50)])
    environment.table.entries.clear()
    environment.clock.advance(10)
    environment.cache.write([parked("new", NOW + 50, noted_at=NOW + 10)])
    environment.table.entries.pop(("MAIN", "new"))
    environment.table._parks["MAIN"].clear()
    environment.peers_note(parked("theirs", NOW + 50))
    environment.clock.advance(INDEX_LAG)

    environment.cache.read_parked("MAIN")

    assert environment.parked() == {"new", "theirs"}


@pytest.mark.parametrize(("alone", "age"), [(False, TRUSTED), (True, 15 * TRUSTED)])
def test_a_reading_serves_for_a_while(environment, alone, age):
    """By lane; longer without peers, and until it is known to be old."""

    def calls_for(lane):
        environment.cache.read_parked(lane, alone=alone)
        return environment.calls

    assert calls_for("MAIN") == ["Query"]
    assert calls_for("MEDIUM") == ["Query"]
    environment.clock.advance(age)
    assert calls_for("MAIN") == []
    environment.clock.advance(0.1)
    assert calls_for("MAIN") == ["Query"]
    environment.cache.expire_parked("MAIN")
    assert calls_for("MAIN") == ["Query"]


def test_a_failed_reading_changes_nothing(environment):
    """And the next one is made."""
    environment.cache.write([parked("own", NOW + 50)])
    environment.table.calls.break_if = lambda _operation, _position: aws_error()
    with pytest.raises(AwsError):
        environment.cache.read_parked("MAIN")
    environment.table.calls.break_if = lambda _operation, _position: None
    environment.peers_note(parked("theirs", NOW + 50))

    environment.cache.read_parked("MAIN")

    assert environment.parked() == {"own", "theirs"}


def test_a_batch_that_the_limit_may_have_cut_is_left_out(environment):
    """Half a batch would leave its groups blocked; a single batch is taken as far as it was read."""
    environment.peers_note(*(parked(f"a{n}", NOW + 50, batch="a") for n in range(3)))
    environment.peers_note(*(parked(f"b{n}", NOW + 60, batch="b") for n in range(3)))
    environment.clock.advance(2 * INDEX_LAG)

    environment.cache.read_parked("MAIN", limit=5)
    assert environment.parked() == {"a0", "a1", "a2"}

    environment.cache.expire_parked("MAIN")
    environment.cache.read_parked("MAIN", limit=7)
    assert environment.parked() == {"a0", "a1", "a2", "b0", "b1", "b2"}

    environment.cache.expire_parked("MAIN")
    environment.cache.read_parked("MAIN", limit=2)
    assert environment.parked() == {"a0", "a1"}


def test_records_are_unparked_once(environment):
    """Whoever comes second changes none, and knows no longer of any of them."""
    entries = [parked("a", NOW + 5), parked("b", NOW + 5)]
    peer = CachedLedger(environment.table, clock=environment.clock)
    environment.cache.write(entries)
    peer.read_parked("MAIN")

    assert peer.unpark(entries[:1])
    assert not environment.cache.unpark(entries)

    assert environment.parked() == set()
    assert {entry.message_id for entry in peer.parked("MAIN")} == {"b"}
    assert environment.table.entries["MAIN", "b"].park is Park.YIELD


def test_a_reading_is_made_again_after_another_environment_was_faster(environment):
    """None of the cached entries is trusted then, also those that this environment wrote a moment ago."""
    entries = [parked(name, NOW + 5) for name in "abcd"]
    environment.cache.write(entries)
    environment.cache.read_parked("MAIN")
    peer = CachedLedger(environment.table, clock=environment.clock)
    peer.read_parked("MAIN")
    assert peer.unpark([entries[0], entries[3]])

    assert not environment.cache.unpark(entries[:2])
    environment.cache.read_parked("MAIN")

    assert environment.parked() == {"b", "c"}


def test_a_limited_reading_is_made_again_once_its_entries_are_woken(environment):
    """The table has more of them; a reading of all of them serves for a while."""
    environment.peers_note(*(parked(f"a{n}", NOW + 50, batch=f"a{n}") for n in range(3)))

    environment.cache.read_parked("MAIN", limit=2)
    (first,) = environment.cache.parked("MAIN")
    environment.cache.unpark([first])
    environment.cache.read_parked("MAIN", limit=4)
    assert environment.parked() == {"a1", "a2"}

    environment.cache.unpark(environment.cache.parked("MAIN"))
    environment.table.calls.log.clear()
    environment.cache.read_parked("MAIN", limit=4)
    assert environment.calls == []


def test_a_reading_is_made_again_if_a_peer_may_have_parked_records_after_it(environment):
    """A later one serves."""
    environment.cache.read_parked("MAIN")
    environment.cache.read_parked("MAIN")
    assert environment.calls == ["Query"]

    environment.cache.expire_parked("MAIN")
    environment.cache.read_parked("MAIN")
    assert environment.calls == ["Query"]


def test_records_stay_known_as_parked_if_they_can_not_be_unparked(environment):
    """The table says so still."""
    entries = [parked("a", NOW + 5)]
    environment.cache.write(entries)
    environment.table.calls.break_if = lambda _operation, _position: aws_error()

    with pytest.raises(AwsError):
        environment.cache.unpark(entries)

    assert environment.parked() == {"a"}
