"""An outbox with a relay on it."""

from lanes.config import LanesConfig
from lanes.outbox.relay import ONE_TRY, Relay
from tests.support.outbox import new_outbox, publisher
from tests.support.sending import ACCEPT, queue_url


class Run:
    """An outbox with a relay on it."""

    def __init__(self, subject, clock, plan=lambda _: ACCEPT, depth_of=None, context=None, **outbox):
        self.config = LanesConfig.from_dict({"outbox": {"retry_jitter": 0, **outbox}})
        self.subject, self.clock = subject, clock
        self.outbox = new_outbox(self.config, clock)
        producer, self.sqs = publisher(self.config, plan, retries=ONE_TRY)
        self.relay = Relay(
            store=subject.store,
            producer=producer,
            config=self.config,
            depth_of=depth_of,
            clock=clock,
            pause=clock.advance,
            **(context or {}),
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
