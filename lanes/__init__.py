"""
Priority lanes on SQS FIFO queues and one Lambda function that yields to more urgent work.

The public names; each is imported when it is first used, so `import lanes` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lanes.config import Lane as Lane
    from lanes.config import LanesConfig as LanesConfig
    from lanes.config.deployment import Deployment as Deployment
    from lanes.consumer import Consumer as Consumer
    from lanes.consumer import Decoded as Decoded
    from lanes.consumer import HandlerContext as HandlerContext
    from lanes.consumer import RawRecord as RawRecord
    from lanes.errors import ConfigurationError as ConfigurationError
    from lanes.errors import DeadLetter as DeadLetter
    from lanes.errors import LanesError as LanesError
    from lanes.errors import Retry as Retry
    from lanes.errors import Unavailable as Unavailable
    from lanes.message import JsonText as JsonText
    from lanes.message import Message as Message
    from lanes.priority import Priority as Priority
    from lanes.priority import PriorityRules as PriorityRules
    from lanes.priority import current_priority as current_priority
    from lanes.priority import processing_priority as processing_priority
    from lanes.producer import PartialSendError as PartialSendError
    from lanes.producer import Producer as Producer
    from lanes.producer import SentMessage as SentMessage
    from lanes.producer import UnsentMessage as UnsentMessage
    from lanes.trace_context import continuing_trace as continuing_trace
    from lanes.trace_context import current_traceparent as current_traceparent

__version__ = "0.1.0"

HOMES = {
    "ConfigurationError": "lanes.errors",
    "Consumer": "lanes.consumer",
    "DeadLetter": "lanes.errors",
    "Decoded": "lanes.consumer",
    "Deployment": "lanes.config.deployment",
    "HandlerContext": "lanes.consumer",
    "JsonText": "lanes.message",
    "Lane": "lanes.config",
    "LanesConfig": "lanes.config",
    "LanesError": "lanes.errors",
    "Message": "lanes.message",
    "PartialSendError": "lanes.producer",
    "Priority": "lanes.priority",
    "PriorityRules": "lanes.priority",
    "Producer": "lanes.producer",
    "RawRecord": "lanes.consumer",
    "Retry": "lanes.errors",
    "Unavailable": "lanes.errors",
    "SentMessage": "lanes.producer",
    "UnsentMessage": "lanes.producer",
    "continuing_trace": "lanes.trace_context",
    "current_priority": "lanes.priority",
    "current_traceparent": "lanes.trace_context",
    "processing_priority": "lanes.priority",
}

__all__ = [  # noqa: PLE0604 - the names are the keys of the table above
    *HOMES,
]


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'lanes' has no attribute {name!r}")
    value = getattr(import_module(HOMES[name]), name)
    # The next use finds it without this function.
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *HOMES])
