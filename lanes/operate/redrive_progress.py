"""How far a run through a dead-letter queue is."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(slots=True, kw_only=True)
class RunProgress:
    """
    How far a run is.

    Attributes:
        expected: dead letters in the queue when it began, about.
        done: copied and deleted, or deleted.
        kept: looked at and not meant; they stay.
        failed: why some stay although they were meant, by the dead letter's id.
        returned: given up again after this run had sent them; they stay, or a run would go round with them for ever.
        left: about how many were in the queue at the end.
        released: held groups that were let go.

    """

    expected: int = 0
    done: int = 0
    kept: int = 0
    failed: dict[str, str] = dataclasses.field(default_factory=dict)
    returned: int = 0
    left: int = 0
    released: int = 0
