"""The relays of the outboxes that a test publishes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.outbox.entry import EntryState
from lanes.outbox.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.config import LanesConfig
    from lanes.depth import LaneDepth
    from lanes.outbox.store import RelayStore
    from lanes.producer import Producer
    from lanes.testing.clock import FakeClock

UNFINISHED = (EntryState.PENDING, EntryState.PROCESSING, EntryState.FAILED)


class Relays:
    """Publishes the due entries of every store whenever the lanes run."""

    def __init__(
        self,
        *,
        producer: Producer,
        config: LanesConfig,
        clock: FakeClock,
        depth_of: Callable[[str], LaneDepth],
    ) -> None:
        self._producer = producer
        self._config = config
        self._clock = clock
        self._depth_of = depth_of
        self._relays: list[Relay] = []

    def add(self, store: RelayStore) -> None:
        """Publish from this store too."""
        self._relays.append(
            Relay(
                store=store,
                producer=self._producer,
                config=self._config,
                depth_of=self._depth_of,
                # A chance in the middle leaves the delays of retries as they are configured.
                clock=self._clock,
                pause=lambda _: None,
                chance=lambda: 0.5,
            )
        )

    def run(self) -> bool:
        """Publish all due entries; return whether there were any."""
        rounds = [relay.run_until(self._clock.now) for relay in self._relays]
        return any(one.published or one.failed for one in rounds)

    def unfinished(self) -> list[str]:
        """Describe the entries that are not published yet, a line for each state of each store."""
        return [
            f"entries of an outbox that are {state}: {count}"
            for relay in self._relays
            for state, count in relay.store.status().counts.items()
            if state in UNFINISHED and count
        ]
