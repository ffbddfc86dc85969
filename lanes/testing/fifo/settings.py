"""The attributes of one SQS FIFO queue that change how it behaves, and its documented bounds."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

# AWS: the interval in which a repeated deduplication id is not delivered again (SendMessage API page).
DEDUPLICATION_INTERVAL = timedelta(minutes=5)
# AWS: a message stays invisible for at most 12 hours after its receive (ChangeMessageVisibility API page).
MAXIMUM_VISIBILITY = timedelta(hours=12)
# AWS: ReceiveMessage returns at most ten messages (ReceiveMessage API page).
MAXIMUM_RECEIVE = 10
# AWS: SQS looks at the first 120,000 messages for available groups, and at most as many are in flight
# (developer guide, "Avoid a large backlog with the same message group ID" and FIFO queue quotas).
LOOK_AHEAD = 120_000


class GroupOrder(StrEnum):
    """
    The order in which available groups are received.

    # AWS documents none. LocalStack's tests, which it validates against AWS, observe BACK on queues in default mode
    # (test_fifo_receive_message_visibility_timeout_shared_in_group, test_fifo_message_group_visibility_after_delete).
    # No observation of a queue in high-throughput mode is known.
    """

    OLDEST = "oldest"  # by the oldest message of each group
    BACK = "back"  # a message that returns puts its group behind all that waited at its receive
    TURN = "turn"  # each receive of a group puts it behind all others that wait


@dataclass(frozen=True, slots=True, kw_only=True)
class FifoSettings:
    """
    How one FIFO queue behaves.

    Attributes:
        visibility_timeout: how long a received message stays hidden unless the receive says otherwise.
        delay: how long a sent message is held back; applies at once to messages still held back.
        retention: age at which a message is dropped, in flight or not.
        content_based_deduplication: derive a missing deduplication id from the body.
        deduplicate_by_group: one deduplication scope per message group instead of one per queue.
        max_receive_count: receives after which the next one moves the message to the dead-letter queue;
            without a dead-letter queue it has no effect.
        look_ahead: number of oldest messages that are searched for available groups.
        group_order: which of the available groups is received first.
    """

    visibility_timeout: timedelta = timedelta(seconds=30)
    delay: timedelta = timedelta(0)
    retention: timedelta = timedelta(days=4)
    content_based_deduplication: bool = False
    deduplicate_by_group: bool = False
    max_receive_count: int | None = None
    look_ahead: int = LOOK_AHEAD
    group_order: GroupOrder = GroupOrder.OLDEST
