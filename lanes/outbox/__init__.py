"""The transactional outbox: messages committed with business data, sent to the lanes by a relay afterwards."""

from lanes.outbox.entry import Entry, EntryState
from lanes.outbox.filter import EntryFilter
from lanes.outbox.operations import Operator
from lanes.outbox.outbox import Outbox
from lanes.outbox.relay import Relay

__all__ = ["Entry", "EntryFilter", "EntryState", "Operator", "Outbox", "Relay"]
