"""
Relays that are killed, slow and of different clocks, on one outbox, in an order that a seed draws.

Each relay lets the others run before every statement of PostgreSQL, every call of DynamoDB and every message it sends;
there it may die. All of it is one thread in virtual time, so that a seed means the same run each time.
"""

from __future__ import annotations

import contextlib
import itertools
import random
from collections import defaultdict
from dataclasses import dataclass, field

import sqlalchemy as sa
from greenlet import getcurrent

from lanes.config import LanesConfig
from lanes.errors import OutboxStoreError
from lanes.outbox.dynamodb.store import DynamoDBOutboxStore
from lanes.outbox.entry import FINISHED, WAITING, chain_of
from lanes.outbox.relay import Relay
from lanes.outbox.sql.store import SqlOutboxStore
from lanes.outbox.sql.writing import write
from lanes.producer.outgoing import INTERRUPTED, PartialSendError, SentMessage, UnsentMessage
from lanes.testing.calls import ProcessKilled
from simulator.scheduler import Scheduler, Task
from tests.support.outbox import new_outbox

LOCK = 20.0
SKEW = 4.0
"""Largest error of a relay's clock in seconds, ahead or behind."""
STALE = 1.0
"""Largest age in seconds of an answer from an index of DynamoDB."""
CONFIG = LanesConfig.from_dict({"outbox": {"batch": 4, "lock": f"{LOCK:.0f}s"}})
STEPS = 20.0
"""Steps of all relays a second."""
ENOUGH_SECONDS = 500


@dataclass
class Claimed:
    """A claim of one entry: when, until when by the clock of its relay, and which one that is."""

    at: float
    locked_until: float
    relay: str


@dataclass
class Found:
    """The record of a run, by entry."""

    claims: dict = field(default_factory=lambda: defaultdict(list))
    sent: dict = field(default_factory=lambda: defaultdict(list))
    order: list = field(default_factory=list)
    kills: int = 0
    slow: int = 0

    @property
    def doubled(self):
        """Entries that were sent more than once."""
        return [one for one, times in self.sent.items() if len(times) > 1]


class World:
    """One run: a database, its relays, and virtual time."""

    def __init__(self, subject, seed, *, relays, kills):
        self.chance = random.Random(seed)
        self.subject = subject
        self.scheduler = Scheduler()
        self.clock = self.scheduler.clock
        self.outbox = new_outbox(CONFIG, self.clock)
        self.kills = kills
        self.entries = {}
        self.found = Found()
        self._relays = relays
        self._is_over = False
        for number in range(relays):
            self._start(number)

    def step(self, *, slowly=False):
        """Let the other relays run; the caller may find that much time has passed."""
        if not isinstance(getcurrent(), Task):
            return
        if slowly and self.kills and self.chance.random() < 0.08:
            # Longer than the lock by any clock.
            self.found.slow += 1
            self.sleep(LOCK + 3 * SKEW)
        self.sleep(self.chance.expovariate(STEPS / self._relays))

    def sleep(self, seconds):
        """Let the others run for so long; the caller may be dead at the end."""
        self.scheduler.sleep(seconds)
        is_killed = bool(self.kills) and self.chance.random() < 0.01
        self.kills -= is_killed
        self.found.kills += is_killed
        if is_killed or self._is_over:
            self.scheduler.die()

    def _start(self, number):
        """Start a relay as soon as the run goes on, and another one in its place when it dies."""
        skew = self.chance.uniform(-SKEW, SKEW)
        store = RecordedStore(self, self.subject.relay_store(self.step))
        relay = Relay(
            store=store,
            producer=SlowProducer(self),
            config=CONFIG,
            name=f"relay-{number}",
            clock=lambda: self.clock() + skew,
            pause=self.sleep,
            chance=self.chance.random,
        )

        def life():
            try:
                while True:
                    is_idle = True
                    # A row that another one holds is an error here, as an outage is.
                    with contextlib.suppress(OutboxStoreError):
                        is_idle = relay.run_once().is_idle
                    self.sleep(1.0 if is_idle else 0.0)
            except ProcessKilled:
                if not self._is_over:
                    self._start(number)

        self.scheduler.after(0.0, lambda: self.scheduler.spawn(life))

    def write(self):
        """Commit some entries of three groups and two lanes, or of no group."""
        entries = [
            self.outbox.prepare(
                "k",
                None,
                group=self.chance.choice([None, "a", "b", "c"]),
                priority=self.chance.choice([0, 0, 50]),
            )
            for _ in range(self.chance.randint(1, 4))
        ]
        try:
            written = self.subject.write(*entries)
        except sa.exc.OperationalError:
            # A relay that was interrupted has the one lock of SQLite.
            return False
        self.entries.update((entry.id, entry) for entry in written)
        return True

    def run(self, writes=12):
        """Run until everything is published; raises `AssertionError` if that never comes."""
        try:
            for _ in range(ENOUGH_SECONDS):
                self.scheduler.run(seconds=self.chance.expovariate(1.0))
                if writes:
                    writes -= self.write()
                elif not self.kills and not self._unfinished():
                    return self.found
        finally:
            # The relays die with their transactions.
            self._is_over = True
            self.scheduler.run(seconds=ENOUGH_SECONDS)
        raise AssertionError(f"{self._unfinished()} entries are stuck")

    def _unfinished(self):
        counts = self.subject.store.status().counts
        return sum(count for state, count in counts.items() if state not in FINISHED)


class RecordedStore:
    """A relay's store that notes the claims."""

    expires_by_itself = True

    def __init__(self, world, store):
        self._world = world
        self._store = store

    def claim(self, shares, *, owner, now, locked_until, limit):
        """Claim and note it."""
        claim = self._store.claim(shares, owner=owner, now=now, locked_until=locked_until, limit=limit)
        for entry in claim.entries:
            self._world.found.claims[entry.id].append(
                Claimed(self._world.clock(), locked_until, owner.partition("/")[0])
            )
        return claim

    def release(self, **claim):
        """Free a claim without an answer."""
        self._store.release(**claim)

    def settle(self, marks, *, owner, now):
        """Mark; entries that return untried at the deadline of their claim are free before the lock ends."""
        for mark in marks:
            if mark.state in WAITING:
                # Before the call: it may die with some of them written.
                claim = self._world.found.claims[mark.entry.id][-1]
                claim.locked_until = min(claim.locked_until, self._world.clock())
        return self._store.settle(marks, owner=owner, now=now)


class SlowProducer:
    """Sends one message after the other, and others act in between."""

    def __init__(self, world):
        self._world = world

    def send_many(self, messages, *, should_stop, claimed_at):
        """Accept all of them until the time is over, unless the process dies before."""
        found = self._world.found
        sent = []
        for number, message in enumerate(messages):
            self._world.step(slowly=True)
            if should_stop():
                unsent = [
                    UnsentMessage(message=one, lane="", reason="stopped", code=INTERRUPTED)
                    for one in messages[number:]
                ]
                raise PartialSendError(sent=sent, failed=unsent)
            found.sent[message.id].append(self._world.clock())
            found.order.append(message.id)
            sent.append(SentMessage(id=message.id, lane="", message_id=message.id, sequence_number="1"))
        self._world.step(slowly=True)
        return sent


class SqlRelays:
    """Stores in SQL that step before each statement; what another one has locked is an error at once."""

    def __init__(self, subject):
        self.store = subject.store
        self._subject = subject
        self._step = lambda: None
        is_sqlite = subject.engine.dialect.name == "sqlite"
        options = {"connect_args": {"timeout": 0}} if is_sqlite else {}
        self._engine = sa.create_engine(subject.engine.url, pool_size=20, **options)
        if not is_sqlite:
            sa.event.listen(self._engine, "connect", _impatient)
        sa.event.listen(self._engine, "before_cursor_execute", lambda *_: self._step())

    def write(self, *entries):
        """Commit entries in one transaction."""
        with self._engine.begin() as connection:
            return write(connection, self._subject.tables, entries)

    def relay_store(self, step):
        """Return a store of its own."""
        self._step = step
        return SqlOutboxStore(self._engine, self._subject.tables)

    def close(self):
        """Drop the connections."""
        self._engine.dispose()


def _impatient(connection, _record):
    cursor = connection.cursor()
    cursor.execute("SET lock_timeout = '1ms'")
    connection.commit()


class DynamoDBRelays:
    """Stores on DynamoDB that step before each call, and with indexes that are late."""

    def __init__(self, subject):
        self.write = subject.write
        self.store = subject.store
        self._subject = subject

    def relay_store(self, step):
        """Return a store of its own."""
        client = SteppingClient(self._subject.client, step)
        return DynamoDBOutboxStore(table=self._subject.name, client=client, concurrency=1)

    def close(self):
        """Nothing is left to free."""


class SteppingClient:
    """A client that lets others act before each call; some of its eventually consistent reads are old."""

    def __init__(self, client, step):
        self._client = client
        self._step = step
        self._chance = random.Random(0)
        self._answers = {}

    def query(self, **parameters):
        """Answer a consistent read, or at times the same read of a moment ago."""
        self._step()
        if parameters.get("ConsistentRead"):
            return self._client.query(**parameters)
        key = repr([(name, parameters[name]) for name in sorted(parameters)])
        if key in self._answers and self._chance.random() < 0.3:
            # Only once: an index that stays behind for ever is broken.
            return self._answers.pop(key)
        self._answers[key] = self._client.query(**parameters)
        return self._answers[key]

    def update_item(self, **parameters):
        """Change an item."""
        self._step()
        return self._client.update_item(**parameters)


def check(world, found):
    """Hold a run against the promises of the outbox."""
    assert found.sent.keys() == world.entries.keys()
    chains = defaultdict(list)
    for one in dict.fromkeys(found.order):
        entry = world.entries[one]
        if entry.group is not None:
            chains[chain_of(entry.lane, entry.group)].append(entry.position)
    for positions in chains.values():
        assert positions == sorted(positions)
    for one, claims in found.claims.items():
        for earlier, later in itertools.pairwise(claims):
            # Some relay's clock had reached the end of the lock.
            assert later.at + SKEW >= earlier.locked_until, one
    for one in found.doubled:
        assert len(found.claims[one]) > 1, one
