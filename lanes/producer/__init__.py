"""Sending: the producer, the order within groups, the calls and the report of sent messages."""

from lanes.producer.outgoing import PartialSendError, RefusedMessagesError, SentMessage, UnsentMessage
from lanes.producer.producer import Producer
from lanes.producer.sending import Pacing
from lanes.retries import RetryPolicy

__all__ = [
    "Pacing",
    "PartialSendError",
    "Producer",
    "RefusedMessagesError",
    "RetryPolicy",
    "SentMessage",
    "UnsentMessage",
]
