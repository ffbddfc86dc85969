"""The filters of dead letters that the page sends, and the ages that it writes times as."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lanes.config_table import parse_duration
from lanes.errors import ConfigurationError
from lanes.operate.dead_letters import DeadLetterFilter

if TYPE_CHECKING:
    from lanes.ui.fields import Fields


def filter_of(fields: Fields) -> DeadLetterFilter:
    """
    Read a filter; times are ages such as 2h.

    Raises:
        ConfigurationError: an age is none.
    """
    return DeadLetterFilter(
        kind=fields.text("kind"),
        group=fields.text("group"),
        reason=fields.text("reason"),
        since=ago(fields, "since"),
        until=ago(fields, "until"),
        ids=tuple(fields.texts("ids")),
    )


def ago(fields: Fields, name: str) -> float | None:
    """
    Read an age, and return the time that it means; None where there is none.

    Raises:
        ConfigurationError: it is no age.
    """
    text = fields.text(name)
    if text is None:
        return None
    age = parse_duration(text)
    if age is None:
        raise ConfigurationError([f"{name} is {text!r}; an age such as 15m, 2h or 3d is needed"], source=name)
    return time.time() - age.total_seconds()
