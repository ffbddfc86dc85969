"""
The infrastructure of the lanes as CDK constructs, for this app and for others.

Owns the constructs ``LaneQueues`` (the queues), ``Ledger`` (the table), ``PriorityConsumer`` (function and
event source mappings), ``Outbox`` (its table and relay), ``LanesParameter`` (where producers find the lanes),
``Observability`` (alarms and dashboard), and ``PriorityLanesStack``, which is all of them in one stack. Another
app takes what it needs and brings its own function code.
"""

from .bulk_enqueue import BulkEnqueue
from .function_code import consumer_code
from .job_network import JobNetwork
from .lane_queues import LaneQueue, LaneQueues
from .lanes_parameter import LanesParameter
from .ledger import Ledger
from .observability import Observability, Severity
from .outbox import Outbox
from .priority_consumer import PriorityConsumer
from .stack import PriorityLanesStack
from .stage_settings import StageSettings

__all__ = [
    "BulkEnqueue",
    "JobNetwork",
    "LaneQueue",
    "LaneQueues",
    "LanesParameter",
    "Ledger",
    "Observability",
    "Outbox",
    "PriorityConsumer",
    "PriorityLanesStack",
    "Severity",
    "StageSettings",
    "consumer_code",
]
