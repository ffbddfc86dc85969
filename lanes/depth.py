"""The depth of a lane's queue: its backlog and the messages in flight."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LaneDepth:
    """
    A queue's own counts, which AWS calls approximate.

    Attributes:
        backlog: visible messages.
        in_flight: messages received and neither deleted nor visible again.

    """

    backlog: int
    in_flight: int

    @property
    def messages(self) -> int:
        """All of them."""
        return self.backlog + self.in_flight

    @property
    def is_empty(self) -> bool:
        """Whether the queue has none."""
        return self.messages == 0
