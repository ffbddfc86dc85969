"""Read filters of dead letters, and ages, from requests."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from lanes.config.table import parse_duration
from lanes.errors import ConfigurationError
from lanes.operate.dead_letters.listing import DeadLetterFilter

if TYPE_CHECKING:
    from lanes.ui.api.fields import Fields


def filter_of(fields: Fields) -> DeadLetterFilter:
    """
    Read a filter; times are ages such as 2h.

    Raises:
        ConfigurationError: a time is not an age.
    """
    return DeadLetterFilter(
        kind=fields.text("kind"),
        group=fields.text("group"),
        reason=fields.text("reason"),
        run=fields.text("run"),
        since=ago(fields, "since"),
        until=ago(fields, "until"),
        ids=tuple(fields.texts("ids")),
    )


def ago(fields: Fields, name: str) -> float | None:
    """
    Read an age and return its time; None if the field is missing.

    Raises:
        ConfigurationError: the text is not an age.
    """
    text = fields.text(name)
    if text is None:
        return None
    age = parse_duration(text)
    if age is None:
        raise ConfigurationError([f"{name} is {text!r}; give an age such as 15m, 2h or 3d"], source=name)
    return time.time() - age.total_seconds()
