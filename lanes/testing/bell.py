"""The bell in memory: its queue, which all processes share, and one process's access to it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from lanes.bell import BODY, RETENTION, VISIBILITY_MARGIN, Ring, Ringer
from lanes.errors import AwsError
from lanes.testing.fifo.errors import FifoQueueError
from lanes.testing.fifo.queue import FifoQueue, random_message_id
from lanes.testing.fifo.settings import FifoSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lanes.config import LanesConfig
    from lanes.testing.calls import Calls

BELL = "bell"
"""The name of its queue."""


def bell_queue(
    config: LanesConfig,
    clock: Callable[[], float],
    *,
    new_message_id: Callable[[], str] = random_message_id,
) -> FifoQueue:
    """Return an empty bell queue with the attributes that the stack gives it."""
    return FifoQueue(
        clock,
        name=BELL,
        handle_prefix=BELL,
        new_message_id=new_message_id,
        settings=FifoSettings(
            visibility_timeout=config.consumer.function_timeout + timedelta(seconds=VISIBILITY_MARGIN),
            retention=timedelta(seconds=RETENTION),
            content_based_deduplication=True,
        ),
    )


class MemoryBell(Ringer):
    """
    The bell as one process uses it.

    Args:
        queue: shared by all processes.
        config: the lanes.
        clock: returns the time in epoch seconds.
        calls: intercepts each call.
        on_visible: called when a ring may have become visible.
    """

    def __init__(
        self,
        queue: FifoQueue,
        config: LanesConfig,
        clock: Callable[[], float],
        calls: Calls,
        *,
        on_visible: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(config, clock)
        self.queue = queue
        self._calls = calls
        self._on_visible = on_visible

    def has_rings(self) -> bool:
        """Whether rings wait, also those behind one of their group."""
        with self._calls.make("GetQueueAttributes"):
            return self.queue.counts().visible > 0

    def _send(self, wanted: Sequence[Ring]) -> None:
        with self._calls.make("SendMessageBatch"):
            for ring in wanted:
                self.queue.send(BODY, group=ring.group, deduplication_id=ring.deduplication_id)
        self._on_visible()

    def return_after(self, receipt_handle: str, seconds: int) -> None:
        """
        Let a received bell become visible again after some seconds.

        Raises:
            AwsError: the bell was received again since, or is gone.
        """
        with self._calls.make("ChangeMessageVisibility"):
            try:
                self.queue.change_visibility(receipt_handle, timedelta(seconds=seconds))
            except FifoQueueError as error:
                raise AwsError(
                    operation="ChangeMessageVisibility",
                    code=type(error).__name__,
                    message=str(error),
                    retryable=False,
                ) from error
        self._on_visible()
