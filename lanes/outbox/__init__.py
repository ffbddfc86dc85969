"""The transactional outbox: messages committed with business data, sent to the lanes by a relay afterwards."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lanes.outbox.entry import Entry, EntryState
from lanes.outbox.operations import EntryFilter, Operator
from lanes.outbox.relay import Relay

if TYPE_CHECKING:
    from lanes.outbox.dynamodb.outbox import DynamoOutbox
    from lanes.outbox.sql.outbox import SqlOutbox

__all__ = ["DynamoOutbox", "Entry", "EntryFilter", "EntryState", "Operator", "Relay", "SqlOutbox"]

# Each needs an extra that users of the other one need not install.
HOMES = {"DynamoOutbox": "lanes.outbox.dynamodb.outbox", "SqlOutbox": "lanes.outbox.sql.outbox"}


def __getattr__(name: str) -> Any:
    """Import an outbox when it is first used."""
    if name not in HOMES:
        raise AttributeError(name)
    return getattr(import_module(HOMES[name]), name)
