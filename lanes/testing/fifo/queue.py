"""
One SQS FIFO queue as AWS documents it, with an injected clock.

Order and exclusivity by message group, deduplication, visibility, receive counts, redrive, retention and
queue delay. Pure: no thread, no I/O, no reading of the time but through the clock. Not safe for use by
several threads at once: the caller holds a lock. Costs are flat in the number of messages.
"""

import uuid
from collections.abc import Callable
from datetime import timedelta

from lanes.testing.fifo.message import (
    MAXIMUM_RECEIVE,
    MAXIMUM_VISIBILITY,
    DeduplicationIdMissingError,
    FifoSettings,
    MessageGoneError,
    MessageGroup,
    MessageNotInFlightError,
    MessageState,
    QueueCounts,
    ReceiptHandleExpiredError,
    ReceivedMessage,
    SentMessage,
    StoredMessage,
    VisibilityTimeoutError,
)
from lanes.testing.fifo.store import (
    Attempts,
    Deadlines,
    DeduplicationKey,
    DeduplicationWindow,
    FifoStore,
    Receipts,
    deduplication_id_of,
)

# AWS: sequence numbers have 20 digits, rise and are not consecutive (SendMessage API page).
_FIRST_SEQUENCE_NUMBER = 18_850_000_000_000_000_000
_SEQUENCE_STEP = 256
_MAXIMUM_VISIBILITY_SECONDS = MAXIMUM_VISIBILITY.total_seconds()
_NO_TIME = timedelta(0)


def random_message_id() -> str:
    """Return an id as SQS makes them."""
    return str(uuid.uuid4())


class FifoQueue:
    """
    The behaviour of one queue.

    Args:
        clock: returns the time in epoch seconds; a clock that runs backwards counts as stopped.
        name: the source of its messages in a dead-letter queue.
        settings: the queue's attributes; may be replaced at any time.
        dead_letter_queue: receives messages that were received `max_receive_count` times.
        handle_prefix: makes receipt handles of different queues different.
        new_message_id: returns message ids; random UUIDs by default.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        name: str = "",
        settings: FifoSettings | None = None,
        dead_letter_queue: "FifoQueue | None" = None,
        handle_prefix: str = "",
        new_message_id: Callable[[], str] = random_message_id,
    ) -> None:
        self.name = name
        self.dead_letter_queue = dead_letter_queue
        self._clock = clock
        self._now = 0.0
        self._new_message_id = new_message_id
        self._settings = settings or FifoSettings()
        self._delay = self._settings.delay.total_seconds()
        self._retention = self._settings.retention.total_seconds()
        self._store = FifoStore(look_ahead=self._settings.look_ahead, order=self._settings.group_order)
        self._window = DeduplicationWindow()
        self._last_position = 0
        self._attempts = Attempts()
        self._receipts = Receipts(prefix=handle_prefix)
        self._deadlines = Deadlines(self._receipts)

    @property
    def settings(self) -> FifoSettings:
        """The attributes in force."""
        return self._settings

    @settings.setter
    def settings(self, settings: FifoSettings) -> None:
        # AWS: a new delay of a FIFO queue also applies to messages already in it (SetQueueAttributes).
        self._settings = settings
        self._delay = settings.delay.total_seconds()
        self._retention = settings.retention.total_seconds()
        self._store.order = settings.group_order
        self._store.look_ahead_by(settings.look_ahead)

    def send(
        self, body: str, *, group: str, deduplication_id: str | None = None, attributes: object = None
    ) -> SentMessage:
        """
        Accept a message, or answer a duplicate with the message it repeats.

        Raises:
            DeduplicationIdMissingError: there is no id and the queue derives none from the body.
        """
        now = self._advance()
        if deduplication_id is None:
            if not self._settings.content_based_deduplication:
                raise DeduplicationIdMissingError
            deduplication_id = deduplication_id_of(body)
        key: DeduplicationKey = (
            (group, deduplication_id) if self._settings.deduplicate_by_group else deduplication_id
        )
        # AWS: after a switch to the scope of the group, an id of before is still a duplicate in any group.
        original = self._window.find(key, now) or self._window.find(deduplication_id, now)
        if original is not None:
            return SentMessage(*original, is_duplicate=True)
        message = StoredMessage(
            message_id=self._new_message_id(),
            body=body,
            deduplication_id=deduplication_id,
            sequence_number=_FIRST_SEQUENCE_NUMBER + (self._last_position + 1) * _SEQUENCE_STEP,
            attributes=attributes,
        )
        self._enter(message, group, now, delayed=self._delay > 0)
        self._window.remember(
            key, now, message_id=message.message_id, sequence_number=message.sequence_number
        )
        return SentMessage(message.message_id, message.sequence_number, is_duplicate=False)

    def receive(
        self,
        maximum: int = 1,
        *,
        visibility_timeout: timedelta | None = None,
        attempt_id: str | None = None,
    ) -> list[ReceivedMessage]:
        """
        Hand out up to `maximum` (1 to 10) messages and hide them; none that is behind one in flight of its group.

        As many as possible come from the first group in the order of the settings, then from the next ones. A timeout
        of zero leaves the messages visible. A repeated `attempt_id` gets the messages and handles of its first receive
        while they are in flight as that left them, and hides them again.

        Raises:
            AttemptOverError: they are no longer so.
        """
        if not 1 <= maximum <= MAXIMUM_RECEIVE:
            raise ValueError(f"a receive asks for 1 to {MAXIMUM_RECEIVE} messages, not {maximum}")
        if visibility_timeout is None:
            visibility_timeout = self._settings.visibility_timeout
        _check_visibility(visibility_timeout)
        now = self._advance()
        until = now + visibility_timeout.total_seconds()
        repeated = self._attempts.find(attempt_id, now)
        if repeated:
            for message, _ in repeated:
                self._hide_until(message, until)
            self._attempts.remember(attempt_id, now, repeated)
            return [received for _, received in repeated]
        taken: list[StoredMessage] = []
        while len(taken) < maximum and (group := self._store.next_group()) is not None:
            self._take_from(group, maximum, until, taken)
        received = [self._receipts.issue(message, now) for message in taken]
        if visibility_timeout <= _NO_TIME:
            for message in taken:
                self._store.land(message)
        else:
            for message in taken:
                self._note_deadline(message)
        self._attempts.remember(attempt_id, now, list(zip(taken, received, strict=True)))
        return received

    def delete(self, receipt_handle: str) -> None:
        """
        Delete the message in flight that the handle belongs to; once it is gone, repeats do nothing.

        Raises:
            ReceiptHandleUnknownError: the queue never gave out such a handle.
            ReceiptHandleExpiredError: the message is visible again, or was received again since.
        """
        self._advance()
        message, receive_count = self._receipts.resolve(receipt_handle, last_position=self._last_position)
        if message is None:
            return
        # AWS: on FIFO queues a delete with an expired handle fails, as the message may be received again
        # (developer guide, "Exactly-once processing").
        if message.state is not MessageState.IN_FLIGHT or message.receive_count != receive_count:
            raise ReceiptHandleExpiredError
        self._forget(message)

    def change_visibility(self, receipt_handle: str, visibility_timeout: timedelta) -> None:
        """
        Let the visibility timeout of a message in flight end after a time from now; zero ends it at once.

        Raises:
            ReceiptHandleUnknownError: the queue never gave out such a handle.
            ReceiptHandleExpiredError: the message was received again since.
            MessageGoneError: the message was deleted.
            MessageNotInFlightError: the message is visible.
            VisibilityTimeoutError: outside 0 to 12 hours, or beyond 12 hours from the receive.
        """
        _check_visibility(visibility_timeout)
        now = self._advance()
        message, receive_count = self._receipts.resolve(receipt_handle, last_position=self._last_position)
        if message is None:
            raise MessageGoneError
        if message.receive_count != receive_count:
            raise ReceiptHandleExpiredError
        if message.state is not MessageState.IN_FLIGHT:
            raise MessageNotInFlightError
        until = now + visibility_timeout.total_seconds()
        # AWS: the 12 hours count from the receive, an extension does not start them again
        # (developer guide, "Visibility timeout").
        if until - message.received_at > _MAXIMUM_VISIBILITY_SECONDS:
            raise VisibilityTimeoutError
        self._hide_until(message, until)

    def purge(self) -> None:
        """Drop every message and forget their deduplication ids."""
        self._advance()
        self._window.clear()
        self._attempts.clear()
        self._store.clear()
        self._receipts.clear()
        self._deadlines.clear()

    def counts(self) -> QueueCounts:
        """Return the exact numbers of messages now."""
        self._advance()
        return self._store.counts

    def oldest_sent_at(self) -> float | None:
        """Return when the oldest message that is here was sent, in epoch seconds; None of an empty queue."""
        self._advance()
        return None if self._store.oldest is None else self._store.oldest.sent_at

    def blocked(self) -> int:
        """Return how many of the visible messages wait behind one of their group in flight; scans them."""
        self._advance()
        return self._store.blocked()

    def bodies(self) -> list[str]:
        """Return the bodies of all messages in the order of their arrival, in flight or not; scans them."""
        self._advance()
        return [message.body for message in self._store.messages()]

    def most_received(self) -> int:
        """Return the largest receive count of the messages that are here; 0 of an empty queue."""
        self._advance()
        return max((message.receive_count for message in self._store.messages()), default=0)

    def is_receivable(self) -> bool:
        """Whether a receive now would find a message of a group that is not blocked."""
        self._advance()
        return self._store.has_ready_group

    def next_event_at(self) -> float | None:
        """Return the earliest future time at which a message becomes visible by itself, in epoch seconds."""
        self._advance()
        visible_at = self._deadlines.next_at()
        held_back = self._store.first_held_back
        released_at = None if held_back is None else held_back.sent_at + self._delay
        return min((at for at in (visible_at, released_at) if at is not None), default=None)

    def bury(self, message: StoredMessage, *, source: str) -> None:
        """Accept a message that `source` has handed out too often: visible at once, never a duplicate."""
        self._enter(message.dead_lettered(source=source), message.group_name, self._advance(), delayed=False)

    def _advance(self) -> float:
        now = self._now = max(self._now, self._clock())
        while (due := self._deadlines.pop_due(now)) is not None:
            self._store.land(due)
        while (first := self._store.first_held_back) is not None and first.sent_at + self._delay <= now:
            self._store.release(first)
        while (oldest := self._store.oldest) is not None and oldest.sent_at + self._retention <= now:
            self._forget(oldest)
        return now

    def _enter(self, message: StoredMessage, group: str, now: float, *, delayed: bool) -> None:
        self._last_position += 1
        message.position = self._last_position
        message.sent_at = now
        self._store.add(message, group, delayed=delayed)

    def _take_from(self, group: MessageGroup, maximum: int, until: float, taken: list[StoredMessage]) -> None:
        limit = self._settings.max_receive_count
        # Only messages in front of those that were in flight before may come; the receive's own do not block it.
        until_position = min(group.in_flight, default=self._last_position + 1)
        while (
            len(taken) < maximum
            and (message := group.first) is not None
            and message.admitted
            and message.position < until_position
        ):
            target = self.dead_letter_queue
            if target is not None and limit is not None and message.receive_count >= limit:
                # AWS: on a FIFO dead-letter queue the time of sending starts again, so the retention does
                # (developer guide, "Dead-letter queues").
                self._forget(message)
                target.bury(message, source=self.name)
            else:
                self._store.take_off(message, until=until)
                taken.append(message)

    def _hide_until(self, message: StoredMessage, until: float) -> None:
        if until <= self._now:
            self._store.land(message)
        else:
            message.visible_at = until
            self._note_deadline(message)

    def _forget(self, message: StoredMessage) -> None:
        self._receipts.forget(message)
        self._store.drop(message)

    def _note_deadline(self, message: StoredMessage) -> None:
        self._deadlines.add(message, in_flight=self._store.counts.not_visible)


def _check_visibility(visibility_timeout: timedelta) -> None:
    if not _NO_TIME <= visibility_timeout <= MAXIMUM_VISIBILITY:
        raise VisibilityTimeoutError
