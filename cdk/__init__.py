"""
CDK constructs for priority lanes: use them one by one in your app, or all at once as a stack.

``LaneQueues`` makes the queues, ``Ledger`` the table, ``PriorityConsumer`` the function and its event source mappings,
``Outbox`` a table of entries with its relay, ``RelayAlarms`` the alarms of a relay elsewhere, ``Schedules`` periodic
messages and messages for later, ``LanesParameter`` the parameter where producers find the lanes, ``Observability``
alarms and a dashboard, and ``BulkEnqueue`` an application for Spark jobs. ``PriorityLanesStack`` combines them.
"""

from .bulk.enqueue import BulkEnqueue
from .bulk.network import JobNetwork
from .consumer import PriorityConsumer
from .function.code import consumer_code
from .function.lambda_function import FunctionProps
from .observability import Observability, Severity
from .outbox import Outbox, RelayAlarms
from .parameter import LanesParameter
from .queues.lane_queue import LaneQueue
from .queues.lane_queues import LaneQueues
from .schedules import Schedules
from .stack import PriorityLanesStack
from .stage import StageSettings
from .tables.ledger import Ledger

__all__ = [
    "BulkEnqueue",
    "FunctionProps",
    "JobNetwork",
    "LaneQueue",
    "LaneQueues",
    "LanesParameter",
    "Ledger",
    "Observability",
    "Outbox",
    "PriorityConsumer",
    "PriorityLanesStack",
    "RelayAlarms",
    "Schedules",
    "Severity",
    "StageSettings",
    "consumer_code",
]
