"""What went wrong, in words for somebody who is woken at night: what it means and what to do."""

from __future__ import annotations

import dataclasses

from lanes.aws.explanation import explained
from lanes.errors import AwsError, ConfigurationError, LanesError, MessageError

GOES_ON = "The page goes on by itself; keys that came from environment variables need `lanes ui` to be started again."
TRIES_AGAIN = "The page tries again by itself."


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """
    An error as the page shows it.

    Attributes:
        status: of HTTP.
        title: what it means.
        advice: what to do, empty where nobody knows.
        details: what AWS or the library said.
        needs_sign_in: whether new credentials would end it.
    """

    status: int
    title: str
    advice: str = ""
    details: str = ""
    needs_sign_in: bool = False


def trouble_of(error: LanesError) -> Trouble:
    """Explain an error."""
    if isinstance(error, AwsError):
        return _aws(error)
    if isinstance(error, ConfigurationError):
        return Trouble(status=400, title="; ".join(error.problems))
    return Trouble(status=400 if isinstance(error, MessageError) else 409, title=str(error))


def _aws(error: AwsError) -> Trouble:
    found = explained(error)
    more = GOES_ON if found.needs_sign_in else TRIES_AGAIN if found.passes else ""
    return Trouble(
        status=502,
        title=found.title,
        advice=" ".join(filter(None, (found.advice, more))),
        details=str(error),
        needs_sign_in=found.needs_sign_in,
    )
