"""
The picture of the README: payments, orders and a backfill without priority, with mappings and with the pull engine.

    python -m simulator.front_picture docs/pictures/front.svg

Each panel is a simulation of the same load on one slot, with the consumer's own code.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lanes.charts import Panel, Row, draw, duration
from lanes.config import LanesConfig
from lanes.metrics import percentile

from .load import play
from .scenario import resolve
from .simulated_lanes import Pattern

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TITLES = {
    Pattern.NONE: "No priority: Lambda has none between its mappings",
    Pattern.LANES: "Priority lanes, mappings: the backfill yields",
    Pattern.PULL: "Priority lanes, pull: the most urgent messages first",
}
NAMES = {"HIGH": "payments", "MEDIUM": "orders", "MAIN": "backfill"}
WAVES = {"rate": 0.6, "burst": 8, "service": "50ms"}
LOAD: Mapping[str, Any] = {
    "duration": "60s",
    "seed": 5,
    "arrivals": {
        "HIGH": WAVES,
        "MEDIUM": WAVES,
        "MAIN": {"backlog": 1_200, "groups": 12, "service": "50ms"},
    },
}
DESCRIPTION = (
    "Simulated, one slot. A tick is a message that arrives, the area beside it the time until its handler starts; the "
    "backfill shows its messages done over time."
)


def panels(load: Mapping[str, Any] = LOAD) -> list[Panel]:
    """Simulate the load for each pattern; times are seconds from the start."""
    return [_panel(pattern, load) for pattern in TITLES]


def picture(shown: Sequence[Panel]) -> str:
    """Draw the panels as an SVG file; its description for screen readers has the numbers."""
    figures = [
        f"{panel.title}: {', '.join(f'{row.name} {row.figure} {row.words}' for row in panel.rows)}."
        for panel in shown
    ]
    title = "Payments and orders above a backfill of 1,200 messages"
    return draw(shown, title=title, description=" ".join([DESCRIPTION, *figures]))


def main(path: str) -> None:
    """Write the picture into a file."""
    Path(path).write_text(picture(panels()), encoding="utf-8")


def _panel(pattern: Pattern, load: Mapping[str, Any]) -> Panel:
    config = LanesConfig.from_dict({})
    lanes = play(resolve(load, config, source="the front picture"), config, pattern=pattern)
    began = min(one.sent_at for one in lanes.handled)
    rows = []
    for lane, name in NAMES.items():
        mine = [one for one in lanes.handled if one.lane == lane]
        if lane == config.last_lane.name:
            ends = [one.finished_at - began for one in mine]
            rows.append(Row(name=name, ends=ends, figure=duration(max(ends)), words="until all was done"))
        else:
            waits = [(one.sent_at - began, one.started_at - began) for one in mine]
            longest = percentile(sorted(start - sent for sent, start in waits), 0.99)
            rows.append(Row(name=name, waits=waits, figure=duration(longest), words="wait, p99"))
    seconds = max(one.finished_at for one in lanes.handled) - began
    return Panel(title=TITLES[pattern], rows=rows, seconds=seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
