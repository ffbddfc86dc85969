"""Charts of waits as files."""

import pytest

from simulator.plots import PlotError, draw_spans, write


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    """As an error of the command."""
    with pytest.raises(PlotError, match="nothing"):
        write("", tmp_path / "nothing" / "here.svg")


def test_a_chart_describes_its_waits_for_screen_readers():
    """Groups and names, each with both ends."""
    picture = draw_spans("Waits", {"HIGH": {"ours": (0.05, 2.0), "none": (0.4, 90.0)}})

    assert "HIGH, ours: p50 50 ms, p99 2.0 s. HIGH, none: p50 0.4 s, p99 90 s." in picture
