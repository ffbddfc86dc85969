"""The progress of a run through a dead-letter queue."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(slots=True, kw_only=True)
class RunProgress:
    """
    The progress of a run.

    Attributes:
        expected: approximate number of dead letters at the start.
        done: dead letters copied and deleted, or deleted.
        kept: dead letters that did not match.
        failed: reasons why matching ones stay, by the dead letter's id.
        returned: dead-lettered again during the run; they stay, or the run would never end.
        left: approximate number of dead letters at the end.
        released: group holds that ended.

    """

    expected: int = 0
    done: int = 0
    kept: int = 0
    failed: dict[str, str] = dataclasses.field(default_factory=dict)
    returned: int = 0
    left: int = 0
    released: int = 0
