"""Explain errors to an operator who was just woken up: the meaning and the next step."""

from __future__ import annotations

import dataclasses

from lanes.aws.explanation import explained
from lanes.errors import AwsError, ConfigurationError, LanesError, MessageError

GOES_ON = "Then the page continues by itself. If your keys are in environment variables, restart `lanes ui`."
TRIES_AGAIN = "The page tries again by itself."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """
    An error as the page shows it.

    Attributes:
        status: HTTP status.
        title: meaning of the error.
        advice: the next step; may be empty.
        details: text of AWS or the library.
        needs_sign_in: whether new credentials solve it.
    """

    status: int
    title: str
    advice: str = ""
    details: str = ""
    needs_sign_in: bool = False


def fault_of(error: LanesError) -> Fault:
    """Explain an error."""
    if isinstance(error, AwsError):
        return _aws(error)
    if isinstance(error, ConfigurationError):
        return Fault(status=400, title="; ".join(error.problems))
    return Fault(status=400 if isinstance(error, MessageError) else 409, title=str(error))


def _aws(error: AwsError) -> Fault:
    found = explained(error)
    more = GOES_ON if found.needs_sign_in else TRIES_AGAIN if found.passes else ""
    return Fault(
        status=502,
        title=found.title,
        advice=" ".join(filter(None, (found.advice, more))),
        details=str(error),
        needs_sign_in=found.needs_sign_in,
    )
