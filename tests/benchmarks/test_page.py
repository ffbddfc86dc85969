"""The page of the benchmarks says what the results beside it say, and explains what was missed."""

import json
import re

import pytest

from benchmarks.charts import CHARTS, Axis, Row, chart
from benchmarks.page import DOCS, page_of, table_of
from benchmarks.reasons import REASONS
from benchmarks.targets import TARGETS


@pytest.fixture(scope="module")
def whole():
    """Return the results of the last run at full size."""
    return json.loads((DOCS / "benchmarks.json").read_text(encoding="utf-8"))


def test_the_page_is_made_from_the_results(whole):
    """`python -m benchmarks.page` writes it anew; nobody edits a figure."""
    assert (DOCS / "benchmarks.md").read_text(encoding="utf-8") == page_of(whole)
    for file, (_, draw) in CHARTS.items():
        assert (DOCS / "pictures" / file).read_text(encoding="utf-8") == draw(whole["results"]), file


def test_charts_come_before_tables(whole):
    """And each is a file beside the page."""
    page = page_of(whole)

    assert all(0 < page.index(f"(pictures/{file})") < page.index("| Benchmark |") for file in CHARTS)


def test_a_value_beyond_the_axis_is_drawn_at_its_end_and_written_in_full():
    """And a logarithm has equal steps for equal factors."""
    axis = Axis(low=0.1, high=1_000.0, ticks={0.1: "0.1 s"})
    drawn = chart(
        "waits", [Row(label="a < b", kind="pull", value=0.01, to=5_000.0, text="0.01 to 5000 s")], axis
    )

    assert axis.place(1.0) - axis.place(0.1) == pytest.approx(axis.place(100.0) - axis.place(10.0))
    assert f"x1='{axis.place(0.1):.1f}'" in drawn
    assert f"x2='{axis.place(1_000.0):.1f}'" in drawn
    assert "0.01 to 5000 s" in drawn
    assert "a &lt; b" in drawn
    assert "prefers-color-scheme: dark" in drawn


def test_the_results_are_those_of_all_benchmarks_at_full_size(whole):
    """Each with a figure for every target; what was not run is not there."""
    assert {"wait", "wait-pull", "finish", "finish-pull", "bounded", "bounded-pull"} <= set(whole["results"])
    assert set(whole["results"]) <= set(TARGETS)
    for name, line in whole["results"].items():
        assert not line.get("conditions", {}).get("quick"), name
        assert all(target.figure in line for target in TARGETS[name]), name


def test_the_tables_show_the_figures_of_the_last_line(whole):
    """What was printed for readers and what tools read came out of one run."""
    for name in whole["results"]:
        for target in TARGETS[name]:
            figure = whole["results"][name][target.figure]
            pattern = rf"{target.figure}\b.*?({re.escape(str(figure).lower())}|{figure:.4g})"
            assert re.search(pattern, whole["printed"][name].lower()), (name, target.figure)


def test_what_is_missed_has_its_reason_and_nothing_else_has(whole):
    """No target is missed in silence, and no reason outlives what it excused."""
    missed = {
        (name, target.figure)
        for name in whole["results"]
        for target in TARGETS[name]
        if not target.is_held_by(whole["results"][name][target.figure])
    }

    assert missed == {reason for reason in REASONS if reason[0] in whole["results"]}


def test_a_benchmark_without_figures_is_told_of(whole):
    """In place of its figures, without a verdict."""
    table = table_of({"finish": {"error": "stopped after 1800 s"}})

    assert "| finish | | stopped after 1800 s | | |" in table
    assert "held" not in table
    assert "MISSED" not in table
    assert whole
