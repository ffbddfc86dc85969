"""Charts: axis, numbers, colours, and a file that programs can read."""

import math
import re
from importlib.resources import files
from xml.etree import ElementTree as ET

import pytest

from lanes.charts import LANE_COLOURS, Drawing, LogAxis, duration, tick_words


def test_the_colours_of_lanes_are_those_of_the_page():
    """In light and dark, from the highest lane."""
    style = (files("lanes.ui") / "assets" / "style.css").read_text(encoding="utf-8")
    found = re.findall(r"--lane-\d: (#\w{6})", style)

    assert [*zip(found[:7], found[7:], strict=True)] == list(LANE_COLOURS)


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0.1, 60.0], (0.1, 1.0, 10.0, 60.0)),
        ([0.04, 3.0], (0.01, 0.1, 1.0, 10.0)),
        ([0.5, 90.0, math.inf, 0.0], (0.1, 1.0, 10.0, 60.0, 600.0)),
        ([1.0], (0.1, 1.0)),
        ([1e-9, 1e9], (0.001, 0.01, 0.1, 1.0, 10.0, 60.0, 600.0, 3_600.0, 36_000.0, 360_000.0)),
    ],
)
def test_an_axis_covers_its_values(values, ticks):
    """With the ticks around them; it has two ends always."""
    assert LogAxis(values, start=0, end=100).ticks == ticks


def test_an_axis_is_logarithmic_and_ends_at_its_ends():
    """A tenfold time is the same step everywhere."""
    axis = LogAxis([0.1, 10.0], start=100, end=300)

    assert [round(axis.place(value)) for value in (0.1, 1, 10, 0, math.inf)] == [100, 200, 300, 100, 300]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.043, "43 ms"),
        (0.5, "0.5 s"),
        (9.96, "10 s"),
        (39.2, "39 s"),
        (170, "3 min"),
        (5_400, "1.5 h"),
    ],
)
def test_durations_are_short(seconds, words):
    """Two or three digits."""
    assert duration(seconds) == words


def test_ticks_are_whole():
    """In the unit of their size."""
    assert [tick_words(tick) for tick in (0.001, 0.1, 1.0, 10.0, 60.0, 3_600.0)] == [
        "1 ms",
        "0.1 s",
        "1 s",
        "10 s",
        "1 min",
        "1 h",
    ]


def test_names_are_escaped():
    """A lane may have any name."""
    drawing = Drawing(100, title="<&>", description="'\"")
    drawing.text(0, 0, "<b>&")

    root = ET.fromstring(drawing.svg(50))  # noqa: S314 - our own

    assert [mark.text for mark in root if mark.tag.endswith("text")] == ["<b>&"]
    assert root.attrib["viewBox"] == "0 0 100 50"
