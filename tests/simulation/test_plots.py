"""The charts of simulations, and the picture of the README: their names and numbers."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from lanes.config import LanesConfig
from simulator import front_picture
from simulator.plots import PlotError, write

ROOT = Path(__file__).parents[2]
CONFIG = LanesConfig.from_dict({})
SVG = "{http://www.w3.org/2000/svg}"


def texts(picture):
    """Give all texts of a picture, which must be well-formed."""
    return [mark.text for mark in ET.fromstring(picture).iter(f"{SVG}text")]  # noqa: S314 - our own


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
