"""The page of the benchmarks says what the results beside it say, and explains what was missed."""

import json
import re

import pytest

from benchmarks.charts import CHARTS
from benchmarks.page import DOCS, REASONS, page_of, table_of
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
    assert "MISSED" not in table
    assert whole
