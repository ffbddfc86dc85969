"""
Refusals of a FIFO queue, as SQS documents them.

FifoQueueError
├── AttemptOverError
├── DeduplicationIdMissingError
├── ReceiptHandleUnknownError
├── ReceiptHandleExpiredError
├── MessageGoneError
├── MessageNotInFlightError
└── VisibilityTimeoutError
"""


class FifoQueueError(Exception):
    """The queue refused the request."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())


class AttemptOverError(FifoQueueError):
    """The receive can't be repeated: one of its messages was deleted, changed or became visible."""


class DeduplicationIdMissingError(FifoQueueError):
    """A message needs a deduplication id, as the queue does not derive one from the body."""


class ReceiptHandleUnknownError(FifoQueueError):
    """The receipt handle was never given out by this queue."""


class ReceiptHandleExpiredError(FifoQueueError):
    """The receipt handle has expired: the message became visible again or was received again."""


class MessageGoneError(FifoQueueError):
    """The message was deleted, so its visibility timeout cannot be changed."""


class MessageNotInFlightError(FifoQueueError):
    """The message is not in flight, so its visibility timeout cannot be changed."""


class VisibilityTimeoutError(FifoQueueError):
    """The visibility timeout is outside 0 to 43,200 seconds, counted from the receive."""
