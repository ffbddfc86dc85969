"""
O3: the order of a group, searched with random faults.

A relay never publishes an entry of a group before an earlier entry of the same group and lane. Earlier is what the
database numbered first, whatever the clocks of the writers, here with the group's lock; an entry that an operator moves
or retries, or that was scheduled, is behind what a relay has claimed by then.
"""

import itertools
import random
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import timedelta

import pytest

from lanes.config import LanesConfig
from lanes.message import Message
from lanes.outbox.entry import FINISHED, EntryState
from lanes.outbox.operations import EntryFilter, Operator
from lanes.outbox.relay import Relay
from lanes.testing.clock import FakeClock
from tests.support.outbox import SqlSubject, new_outbox, publisher
from tests.support.sending import ACCEPT, LEAVE_OUT, LOSE_CALL, REFUSE

SEEDS = {"sqlite": 40, "postgresql": 4, "dynamodb": 4}
CONFIG = LanesConfig.from_dict({"outbox": {"batch": 3, "max_attempts": 3}})
# So long a second transaction of a group has to commit, if its lock does not keep it waiting.
WAITS_SECONDS = 0.05


class RelayDied(BaseException):
    """The process of a relay ended here."""


class HeldTransaction:
    """A transaction of a SQL database that stays open."""

    def __init__(self, subject):
        self._connection = subject.engine.connect()

    def write_locked(self, outbox, messages):
        """Write entries in it."""
        outbox.lock_group(self._connection, *{one.group for one in messages})
        return outbox.add_many(self._connection, messages)

    def commit(self):
        """End it."""
        self._connection.commit()
        self._connection.close()


class Search:
    """One run: two relays on one store, and everything that may happen to them."""

    def __init__(self, subject, clock, seed):
        self.chance = random.Random(seed)
        self.subject, self.clock = subject, clock
        self.outbox = new_outbox(CONFIG, clock)
        self.producer, self.sqs = publisher(CONFIG, self._answer)
        self.faults = True
        self.entries = {}
        # The moments, as numbers, of the last claim of an entry, of the claim with which it was first sent, and of an
        # operator's change that lets it join a chain.
        self.moments = itertools.count(1)
        self.claimed, self.sent_by, self.joined = {}, {}, {}
        # The times of scheduled entries, and those of them that are not due yet.
        self.scheduled, self.waiting = {}, set()
        self.depth = 0
        self.relays = [self._relay(name) for name in ("one", "two")]
        self.operator = Operator(store=subject.operations, config=CONFIG, who="ops", clock=clock)

    def _relay(self, name):
        return Relay(
            store=self,
            producer=self,
            config=CONFIG,
            name=name,
            clock=self.clock,
            pause=self.clock.advance,
            chance=self.chance.random,
        )

    def _answer(self, _id):
        weights = (12, 1, 1, 1) if self.faults else (1, 0, 0, 0)
        return self.chance.choices((ACCEPT, REFUSE, LEAVE_OUT, LOSE_CALL), weights)[0]

    def _may_happen(self):
        """Between two steps of a relay: it dies, or is so slow that its locks end while another one works."""
        if not self.faults:
            return
        fate = self.chance.random()
        if fate < 0.08:
            raise RelayDied
        if fate < 0.2 and self.depth < 2:
            self.clock.advance(301)
            self.step_relay()

    def claim(self, *args, **kwargs):
        joins = next(self.moments)
        claim = self.subject.store.claim(*args, **kwargs)
        due = {one for one in self.waiting if not self.subject.operations.entry(one).is_scheduled}
        self.waiting -= due
        self.joined.update(dict.fromkeys(due, joins))
        self.claimed.update(dict.fromkeys((entry.id for entry in claim.entries), next(self.moments)))
        self._may_happen()
        return claim

    def send_many(self, messages, **options):
        try:
            return self.producer.send_many(messages, **options)
        finally:
            arrived = {one for ids in self.arrivals().values() for one in ids}
            for message in messages:
                if message.id in arrived:
                    self.sent_by.setdefault(message.id, self.claimed[message.id])
                    assert self.clock() >= self.scheduled.get(message.id, 0)
            self._may_happen()

    def settle(self, *args, **kwargs):
        settled = self.subject.store.settle(*args, **kwargs)
        self._may_happen()
        return settled

    def step_relay(self):
        self.depth += 1
        try:
            self.chance.choice(self.relays).run_once()
        except RelayDied:
            pass
        finally:
            self.depth -= 1

    def step_write(self):
        self._write(self.chance.choice([None, "g", "h"]), self.subject)

    def _write(self, group, subject):
        """Write as one of several servers, with clocks that differ."""
        written = subject.write_locked(*self._messages(group))
        self.entries.update((entry.id, entry) for entry in written)

    def _messages(self, group):
        """Give the outbox of a server, and messages for it."""
        clock = FakeClock(self.clock() + self.chance.uniform(-5, 5))
        outbox = new_outbox(CONFIG, clock, tables=getattr(self.subject, "tables", None))
        messages = [
            Message(kind="k", data=None, group=group, priority=self.chance.choice([-100, 0, 1, 100]))
            for _ in range(self.chance.randint(1, 3))
        ]
        return outbox, messages

    def step_schedule(self):
        """Write an entry of a group for later."""
        delay = self.chance.choice([30, 200, 2000])
        entry = self.outbox.prepare("k", None, group="g", not_before=timedelta(seconds=delay))
        (entry,) = self.subject.write(entry)
        self.entries[entry.id] = entry
        self.scheduled[entry.id] = entry.not_before
        self.waiting.add(entry.id)

    def step_overlap(self):
        """Begin a transaction of one group, and commit it after one of another group."""
        if not isinstance(self.subject, SqlSubject) or self.subject.engine.dialect.name == "sqlite":
            return
        held = HeldTransaction(self.subject)
        self._write("g", held)
        self._write("h", self.subject)
        self.step_relay()
        held.commit()

    def step_same_group(self):
        """Begin a transaction of a group, and a second one of the same group that has to wait for it."""
        if not isinstance(self.subject, SqlSubject) or self.subject.engine.dialect.name == "sqlite":
            return
        held = HeldTransaction(self.subject)
        self._write("g", held)
        outbox, messages = self._messages("g")
        with ThreadPoolExecutor(1) as threads:
            second = threads.submit(self.subject.write_locked, outbox, messages)
            wait([second], timeout=WAITS_SECONDS)
            self.step_relay()
            held.commit()
        self.entries.update((entry.id, entry) for entry in second.result())

    def step_time(self):
        self.clock.advance(self.chance.choice([1, 61, 301]))

    def step_operator(self):
        wanted = EntryFilter(lowest=self.chance.choice([0, 1]))
        found = [entry.id for entry in self.operator.find(wanted)]
        self.operator.prioritize(wanted, self.chance.choice([-100, 0, 100]))
        self.joined.update(dict.fromkeys(found, next(self.moments)))

    def step_cancel(self):
        if self.entries:
            self.operator.cancel(EntryFilter(ids=frozenset({self.chance.choice(list(self.entries))})))

    def step_retry(self):
        wanted = EntryFilter(states=frozenset({EntryState.ABANDONED, EntryState.FAILED}))
        found = [entry.id for entry in self.operator.find(wanted)]
        self.operator.retry(wanted)
        self.joined.update(dict.fromkeys(found, next(self.moments)))

    def run(self, steps=40):
        actions = [self.step_relay] * 6 + [self.step_write] * 3
        actions += [self.step_time, self.step_operator, self.step_cancel, self.step_retry]
        actions += [self.step_overlap, self.step_same_group, self.step_schedule]
        for _ in range(steps):
            self.chance.choice(actions)()
        self.faults = False
        for _ in range(6):
            self.clock.advance(4000)
            while not self.relays[0].run_once().is_idle:
                pass

    def arrivals(self):
        """Give the ids in the order in which they reached each lane's queue."""
        return {url: self.sqs.ids(url) for url in self.sqs.queues}


@pytest.mark.parametrize("store", SEEDS)
@pytest.mark.parametrize("block", [0, *(pytest.param(one, marks=pytest.mark.deep) for one in (1, 2, 3))])
def test_whatever_happens_nothing_is_lost_stuck_or_out_of_order(store, block, request, clock):
    """Every entry ends published or abandoned, what is published arrived, and groups arrived in order."""
    subject = request.getfixturevalue(f"{store}_subject")
    for seed in range(block, SEEDS[store], 4):
        check_run(subject, clock, seed)


def check_run(subject, clock, seed):
    """Run once and hold the end against what was written."""
    search = Search(subject, clock, seed)
    search.run()

    arrived = search.arrivals()
    everywhere = {one for ids in arrived.values() for one in ids}
    written = {
        entry.id: entry
        for entry in subject.operations.entries(frozenset(EntryState))
        if entry.id in search.entries
    }
    states = {one: entry.state for one, entry in written.items()}
    assert states.keys() == search.entries.keys(), seed
    assert set(states.values()) <= FINISHED, seed
    assert {one for one, state in states.items() if state is EntryState.PUBLISHED} <= everywhere, seed
    for ids in arrived.values():
        check_order(search, written, ids, seed)


def check_order(search, written, ids, seed):
    """Hold what reached a lane against the numbers of the database, for each two entries of a group."""
    for first, second in itertools.combinations([written[one] for one in ids], 2):
        if first.group is None or first.group != second.group or first.position < second.position:
            continue
        # The earlier one has arrived later: only if it joined the chain after the other one was claimed.
        assert search.joined.get(second.id, 0) > search.sent_by[first.id], (seed, first.id, second.id)
