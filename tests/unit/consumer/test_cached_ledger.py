"""The cached ledger: which entries need a read of the table, and the parked records that an environment knows of."""

import pytest

from lanes.consumer import ledger as module
from lanes.consumer.ledger import INDEX_LAG, TRUSTED, CachedLedger, Cause, Ending, Entry, Park
from lanes.errors import AwsError
from lanes.testing.calls import Calls
from lanes.testing.clock import START as NOW
from lanes.testing.clock import FakeClock
from lanes.testing.table import MemoryLedger
from tests.support.memory import record_with

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


def test_a_reading_of_the_future_is_made_again(environment):
    """The clock was set back, so its age is unknown."""
    environment.cache.read_parked("MAIN")
    environment.clock.now -= 3600
    assert environment.calls == ["Query"]

    environment.cache.read_parked("MAIN")

    assert environment.calls == ["Query"]


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


def refuse(environment, *, is_away):
    """Let the table be away, or there again."""
    error = AwsError(operation="any", code="ServiceUnavailable", retryable=True)
    environment.table.calls.break_if = lambda _operation, _position: error if is_away else None


def fail_to_write(environment, *entries):
    """Write entries while the table is away."""
    refuse(environment, is_away=True)
    for entry in entries:
        with pytest.raises(AwsError):
            environment.cache.write([entry])
    refuse(environment, is_away=False)


@pytest.mark.parametrize("by", ["a write", "a reading"])
def test_an_entry_that_could_not_be_written_is_written_with_the_next_call(environment, by):
    """Another environment, which receives the record next, has to know of its attempt, or that it was a yield."""
    fail_to_write(environment, noted("a", 1, attempts=1, ending=Ending.FAILED))

    if by == "a write":
        environment.cache.write([noted("b", 1)])
    else:
        environment.receive("b", 2)

    peer = CachedLedger(environment.table, clock=environment.clock)
    entry = peer.entries_of("MAIN", [record_with("a", receive_count=2)])["a"]
    assert (entry.attempts, entry.ending) == (1, Ending.FAILED)


def test_an_entry_that_could_not_be_written_replaces_none_of_a_later_receive(environment):
    """Another environment has written it meanwhile."""
    fail_to_write(environment, noted("a", 1, attempts=1, ending=Ending.FAILED))
    environment.peers_note(noted("a", 2, attempts=2, ending=Ending.FAILED))

    environment.cache.write([noted("b", 1)])

    assert environment.table.read("MAIN", ["a"])["a"].attempts == 2


def test_an_attempt_that_could_not_be_counted_ahead_is_not_counted_later(environment):
    """It did not begin."""
    fail_to_write(environment, noted("a", 1, attempts=1, ending=Ending.STARTED))

    environment.cache.write([noted("b", 1)])

    assert environment.table.read("MAIN", ["a"]) == {}


def test_entries_that_could_not_be_written_are_kept_within_bounds(environment, monkeypatch):
    """As many as are cached; they are written ten at a time, and again after another failure."""
    monkeypatch.setattr(module, "MOST_CACHED", 12)
    fail_to_write(environment, *(noted(f"a{number}", 1) for number in range(14)))
    refuse(environment, is_away=True)
    with pytest.raises(AwsError):
        environment.receive("b", 2)
    refuse(environment, is_away=False)

    environment.cache.write([noted("b", 1)])
    first = len(environment.table.entries) - 1
    environment.cache.write([noted("c", 1)])

    assert (first, len(environment.table.entries) - 2) == (10, 12)
