"""A store of the outbox on a bench: write, claim and settle as one relay."""

from lanes.config import LanesConfig
from lanes.outbox.entry import EntryState
from lanes.outbox.rules import Mark, lane_shares
from tests.support.outbox import new_outbox

CONFIG = LanesConfig()
SHARES = lane_shares(CONFIG)
LOCK = 300.0


class Bench:
    """An outbox, its store and a clock."""

    def __init__(self, stores, time):
        self.subject = stores
        self.store = stores.store
        self.operations = stores.operations
        self.clock = time
        self.outbox = new_outbox(CONFIG, time)
        self.owners = 0

    def write(self, *ids, group=None, priority=0):
        """Write entries one after the other."""
        entries = [
            self.outbox.prepare("order.placed", {"id": one}, id=one, group=group, priority=priority)
            for one in ids
        ]
        return self.subject.write(*entries)

    def claim(self, limit=10, *, shares=SHARES):
        """Claim as one relay; give the claim and its owner."""
        self.owners += 1
        owner = f"relay/{self.owners}"
        now = self.clock()
        claim = self.store.claim(shares, owner=owner, now=now, locked_until=now + LOCK, limit=limit)
        return claim, owner

    def ids(self, limit=10, *, shares=SHARES):
        """Claim and give the ids."""
        return [entry.id for entry in self.claim(limit, shares=shares)[0].entries]

    def sent(self, limit=10):
        """Claim and publish until nothing is left; give the ids in order."""
        ids = []
        while True:
            claim, owner = self.claim(limit)
            if claim.is_idle:
                return ids
            ids += [entry.id for entry in claim.entries]
            self.settle(claim, owner)

    def settle(self, claim, owner, **marks):
        """Mark what was claimed, as published unless told otherwise."""
        return self.store.settle(
            [marks.get(entry.id, published(entry)) for entry in claim.entries], owner=owner, now=self.clock()
        )

    def state(self, entry_id):
        """Read an entry's state."""
        return self.operations.entry(entry_id).state


def published(entry):
    return Mark(entry=entry, state=EntryState.PUBLISHED, attempts=entry.attempts, sequence_number="7")


def failed(entry, *, due_at):
    return Mark(
        entry=entry,
        state=EntryState.FAILED,
        attempts=entry.attempts + 1,
        last_error="refused",
        due_at=due_at,
    )


def abandoned(entry):
    return Mark(entry=entry, state=EntryState.ABANDONED, attempts=3, last_error="gone", expires_at=1.0)
