"""Outages, as a relay treats them: which entry may be the reason why its lane fails."""

from __future__ import annotations

from datetime import timedelta

from lanes.fault_codes import Cause

# After so many failures in a row of the same first entry, that entry may be the reason: others are tried before it.
SUSPECTED_AFTER = 3
SUSPECTED_FOR = timedelta(minutes=1)
STORE = "outbox"
"""The name of the database in reports; lanes have upper case."""


def is_suspect(cause: Cause, failures: int) -> bool:
    """Whether the entry that was tried alone may be the reason why its lane fails."""
    # All other causes are about everybody: throttling, credentials, permission, a missing queue.
    return cause in {Cause.SERVER_FAULT, Cause.UNREACHABLE} and failures >= SUSPECTED_AFTER
