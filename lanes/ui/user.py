"""The user of a request: who asked, and whether changes are allowed."""

from __future__ import annotations

import dataclasses
from contextvars import ContextVar


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """
    The user of one request.

    Attributes:
        name: as the login in front of the page gave it; empty for the operator who started the page.
        may_write: whether changes are allowed.
    """

    name: str = ""
    may_write: bool = False


NO_ONE = User()
# Read by the audit trail, deep in a call or in the thread of a job, which takes its request's context along.
CURRENT: ContextVar[User] = ContextVar("user", default=NO_ONE)


def current_name() -> str:
    """Return the name of the user behind the request; empty for the operator who started the page."""
    return CURRENT.get().name
