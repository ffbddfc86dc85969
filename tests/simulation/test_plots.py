"""Charts of waits as files, and the pages that show them."""

import re
from pathlib import Path

import pytest

from simulator.comparison import PlotError, draw_spans, write

ROOT = Path(__file__).parents[2]
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]*pictures/(?:simulate|benchmark)[^)]*)\)")


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    """As an error of the command."""
    with pytest.raises(PlotError, match="nothing"):
        write("", tmp_path / "nothing" / "here.svg")


def test_a_chart_describes_its_waits_for_screen_readers():
    """Groups and names, each with both ends."""
    picture = draw_spans("Waits", {"HIGH": {"ours": (0.05, 2.0), "none": (0.4, 90.0)}})

    assert "HIGH, ours: p50 50 ms, p99 2.0 s. HIGH, none: p50 0.4 s, p99 90 s." in picture


@pytest.mark.parametrize("page", ["README.md", "docs/how-to/plan.md"])
def test_a_page_quotes_the_figures_of_its_picture(page):
    """So that text and picture are renewed together, with `lanes simulate` as the page on planning says."""
    shown = IMAGE.findall((ROOT / page).read_text(encoding="utf-8"))

    for text, file in shown:
        picture = ((ROOT / page).parent / file).read_text(encoding="utf-8")
        quoted = re.findall(r"[\d.]+ (?:ms|s|min)\b", text)
        assert quoted
        assert [one for one in quoted if f" {one}" not in picture] == []
    assert shown
