"""The charts of simulations, and the picture of the README: their names and numbers."""

import re
from datetime import timedelta
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from lanes.charts.svg import duration
from lanes.config import LanesConfig
from simulator import front_picture
from simulator.comparison import compare, lane_rows
from simulator.plots import PlotError, draw_waits, write
from simulator.prices import read_prices
from simulator.scenario import resolve
from simulator.settings import combinations
from simulator.simulated_lanes import Pattern

ROOT = Path(__file__).parents[2]
CONFIG = LanesConfig.from_dict({})
SVG = "{http://www.w3.org/2000/svg}"
LOAD = {
    "duration": "20s",
    "arrivals": {
        "HIGH": {"rate": 1, "service": "100ms"},
        "MAIN": {"backlog": 40, "groups": 8, "service": "200ms"},
    },
}


def texts(picture):
    """Give all texts of a picture, which must be well-formed."""
    return [mark.text for mark in ET.fromstring(picture).iter(f"{SVG}text")]  # noqa: S314 - our own


def test_a_lane_has_the_figures_of_each_pattern():
    """On one logarithmic axis."""
    runs = compare(
        resolve(LOAD, CONFIG), CONFIG, patterns=[Pattern.LANES, Pattern.NONE], prices=read_prices()
    )

    picture = draw_waits(runs)

    shown = texts(picture)
    for row in lane_rows(runs):
        assert f"{duration(row['p50'])} to {duration(row['p99'])}" in shown
    assert [text for text in shown if text in ("HIGH", "MEDIUM", "MAIN")] == ["HIGH", "MEDIUM", "MAIN"]
    assert {"0.1 s", "1 s", "10 s", "1 min"} <= set(shown)


def test_a_range_of_unknowns_is_the_widest_bar():
    """From the smallest p50 to the largest p99."""
    runs = compare(
        resolve(LOAD, CONFIG), CONFIG, patterns=[Pattern.LANES], prices=read_prices(), all_unknowns=True
    )

    outcomes = [run.outcome.lane("HIGH") for run in runs]
    words = f"{duration(min(one.p50 for one in outcomes))} to {duration(max(one.p99 for one in outcomes))}"
    assert words in texts(draw_waits(runs))


def test_settings_have_a_row_each_that_names_them():
    """In each lane."""
    choices = combinations(slots=[1, 2], batch_sizes=[10], rechecks=[timedelta(milliseconds=100)])
    runs = compare(
        resolve(LOAD, CONFIG), CONFIG, patterns=[Pattern.LANES], prices=read_prices(), settings=choices
    )

    picture = draw_waits(runs)

    names = [one.description for one in choices]
    assert [text for text in texts(picture) if text in names] == names * 3


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    """As an error of the command."""
    with pytest.raises(PlotError, match="nothing"):
        write("", tmp_path / "nothing" / "here.svg")


def test_the_picture_of_the_readme_is_drawn_from_the_simulation():
    """Renew it with `python -m simulator.front_picture docs/pictures/front.svg`."""
    committed = (ROOT / "docs/pictures/front.svg").read_text(encoding="utf-8")
    drawn = front_picture.picture(front_picture.panels())

    assert without_figures(committed) == without_figures(drawn)
    shown = texts(committed)
    assert [text for text in shown if text in ("payments", "orders", "backfill")] == [
        "payments",
        "orders",
        "backfill",
    ] * 3
    waits = [seconds_of(shown[place - 1]) for place, text in enumerate(shown) if text == "wait, p99"]
    without, mapped, pulled = waits[::2]
    assert without > 5 * mapped
    assert mapped > pulled
    assert len(waits) == 6


def test_the_readme_quotes_the_figures_of_its_picture():
    """So that text and picture are renewed together."""
    shown = texts((ROOT / "docs/pictures/front.svg").read_text(encoding="utf-8"))
    payments = [shown[place + 1] for place, text in enumerate(shown) if text == "payments"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    assert [figure for figure in payments if figure not in readme] == []
    assert len(payments) == 3


def without_figures(picture):
    """Give titles, rows and meanings of a picture; its numbers change with the consumer's timing."""
    return [text for text in texts(picture) if not re.match(r"[\d.]+( |$)", text)]


def seconds_of(text):
    """Read a duration of a picture."""
    number, unit = text.split()
    return float(number) * {"ms": 0.001, "s": 1, "min": 60}[unit]
