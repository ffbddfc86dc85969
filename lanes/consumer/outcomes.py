"""What became of a record that was tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lanes.values import value_type

if TYPE_CHECKING:
    from lanes.consumer.ledger import Entry
    from lanes.consumer.settlement import Reason
    from lanes.consumer.work import Work


@value_type
class Handled:
    """The handler succeeded, or had succeeded before (`duplicate`)."""

    entry: Entry
    work: Work
    attempt: int
    started_at: float
    finished_at: float
    duplicate: bool = False


@value_type
class Failed:
    """An attempt failed and another one follows after `delay` seconds."""

    entry: Entry
    work: Work
    delay: int
    error: str


@value_type
class GivenUp:
    """The record is to be dead-lettered; without `work` where its body could not be resolved."""

    entry: Entry
    reason: str
    work: Work | None = None
    error: str = ""


@value_type
class MadeWay:
    """The handler yielded in mid-work; the attempt doesn't count."""

    entry: Entry


@value_type
class Postponed:
    """Nothing was tried: it can't be said now whether the record may run."""

    entry: Entry
    delay: int
    reason: Reason


Outcome = Handled | Failed | GivenUp | MadeWay | Postponed
