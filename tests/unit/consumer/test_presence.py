"""Peers: what one environment publishes, and how it counts the others."""

import pytest

from lanes.config import LanesConfig
from lanes.consumer.engines.backlog import UNDELETED
from lanes.consumer.engines.presence import Peers, Presence
from lanes.consumer.records import Batch
from lanes.testing.calls import Calls
from lanes.testing.clock import START as NOW
from lanes.testing.clock import FakeClock
from lanes.testing.table import MemorySlots
from tests.support.memory import record_with

LANES = [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "tenant_share": 0.5}]
CONFIG = LanesConfig.from_dict({"lanes": LANES, "consumer": {"reserved_concurrency": 4, "engine": "pull"}})
HIGH, MAIN = CONFIG.lanes


class Environment:
    """One environment named `me` before a slot table."""

    def __init__(self, *, alone=False):
        self.clock = FakeClock()
        self.slots = MemorySlots(Calls())
        self.peers = Peers(
            slots=CONFIG.consumer.reserved_concurrency,
            table=None if alone else self.slots,
            environment="me",
            clock=self.clock,
        )

    def see(self, *records):
        """Let peers publish, and read what they did."""
        for record in records:
            self.slots.publish(record, now=NOW, parked_until={})
        self.peers.refresh()

    def batch(self, lane=MAIN, *groups):
        records = [
            record_with(f"m{n}", group=group) for n, group in enumerate(groups or ["acme:1", "small:2"])
        ]
        return Batch(
            lane=lane, records=records, name="r", milliseconds_left=lambda: 30_000, began_at=self.clock()
        )


@pytest.fixture
def environment():
    return Environment()


def peer(name, lane=HIGH, *, records=10, busy=True, until=NOW + 30, **fields):
    return Presence(environment=name, lane=lane.name, records=records, busy=busy, until=until, **fields)


def test_an_environment_publishes_when_it_acquires_and_releases_its_slot(environment):
    """Until its deadline; then the finished records for as long as they may be undeleted."""
    batch = environment.batch()

    environment.peers.acquire(batch)
    acquired = environment.slots.records["me"]
    environment.clock.advance(2)
    environment.peers.release(batch, finished=1)

    assert acquired == peer("me", MAIN, records=2, tenant="acme")
    assert environment.slots.records["me"] == peer(
        "me", MAIN, records=1, busy=False, until=NOW + 2 + UNDELETED, tenant="acme"
    )


def test_peers_are_counted_while_their_records_mean_something(environment):
    """Busy ones for slots, all of them for records in flight, by lane."""
    gone_at = NOW + UNDELETED
    environment.see(
        peer("a"),
        peer("b", MAIN, records=4, tenant="acme"),
        peer("c", records=2, busy=False, until=gone_at),
        peer("me", records=9),
    )
    peers = environment.peers

    assert (peers.free_slots(), peers.busy(HIGH), peers.busy(MAIN)) == (1, 1, 1)
    assert (peers.in_flight(HIGH), peers.in_flight(MAIN)) == (12, 4)
    assert [peers.busy(lane, tenant=one) for lane, one in ((MAIN, "acme"), (MAIN, "small"), (HIGH, ""))] == [
        1,
        0,
        1,
    ]

    environment.clock.now = gone_at
    assert peers.in_flight(HIGH) == 10
    environment.clock.now = NOW + 30
    assert (peers.free_slots(), peers.in_flight(HIGH)) == (3, 10)


def test_the_leaving_write_publishes_until_when_records_are_parked(environment):
    """Not a later one: the peer that ends next may be the last that can wake them. Only a later time is news."""
    asked = []
    publish = environment.slots.publish
    environment.slots.publish = lambda record, **given: (
        asked.append(given["parked_until"]) or publish(record, **given)
    )

    environment.peers.acquire(environment.batch())
    environment.peers.release(environment.batch(), finished=0, parked_for=9)
    environment.peers.release(environment.batch(), finished=0, parked_for=7)
    environment.peers.release(environment.batch(), finished=0, parked_for=12)
    environment.peers.release(environment.batch(HIGH), finished=2)

    assert asked == [{}, {"MAIN": NOW + 9}, {}, {"MAIN": NOW + 12}, {}]
    assert environment.peers.seen.parked_until == {"MAIN": NOW + 12}
