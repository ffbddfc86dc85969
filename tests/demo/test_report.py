"""The demo's reports: JSON, page, picture and summary."""

import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from local.demo.figures import run_figures
from local.demo.footprint import Footprint
from local.demo.page import write_page
from local.demo.plan import DEFAULT_CUSTOMERS, DemoPlan
from local.demo.promises import judge
from local.demo.report import Outcome, promise_rows, report_document, run_headings, run_rows
from local.demo.runs import RunName
from local.demo.summary import write_summary, write_tables
from local.demo.timeline import draw_timeline
from tests.support.demo_runs import RULES, quiet_run

WANTED = {
    "losses",
    "order_violations",
    "healthy_dead_lettered",
    "duplicates_handled",
    "inversions",
    "high_wait_p99_seconds",
    "high_wait_p99_seconds_without",
    "longest_record_seconds",
    "high_wait_p99_seconds_pull",
    "total_drain_ratio",
    "total_drain_ratio_pull",
    "function_calls_per_message",
    "poison_dead_lettered",
    "poison_sent",
    "customers",
    "seed",
    "slots",
    "lanes",
    "promises",
    "passed",
    "without",
    "pull",
}
VOID = {"meta", "img", "br"}


def make_outcome(*, compares=True, losses=False):
    """Make the outcome of a made-up demo."""
    made = {
        RunName.WITHOUT: quiet_run(high_wait=9.0),
        RunName.MAPPINGS: quiet_run(),
        RunName.PULL: quiet_run(),
    }
    if losses:
        made[RunName.MAPPINGS].send("gone & <forgotten>", delivered=False)
    names = list(RunName) if compares else [RunName.MAPPINGS]
    evidence = {name: made[name].evidence for name in names}
    figures = {name: run_figures(one, RULES) for name, one in evidence.items()}
    footprint = Footprint(asset_megabytes=5.0, cold_import_milliseconds=40.0)
    return Outcome(
        plan=DemoPlan.draw(customers=DEFAULT_CUSTOMERS, seed=1, shards=4),
        rules=RULES,
        evidence=evidence,
        figures=figures,
        promises=judge(figures, rules=RULES, customers=DEFAULT_CUSTOMERS, footprint=footprint),
        footprint=footprint,
        load_average=0.5,
        phase_seconds={"deploy": 8.0},
        total_seconds=100.0,
    )


class Tags(HTMLParser):
    """Checks that tags close in order, and collects addresses."""

    def __init__(self):
        super().__init__()
        self.open, self.addresses = [], []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)
        self.addresses += [value for name, value in attrs if name in {"src", "href"}]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.mark.parametrize("compares", [True, False])
def test_the_document_has_every_key_that_is_asked_for(compares):
    """It is JSON, also where the comparison was left out."""
    document = json.loads(json.dumps(report_document(make_outcome(compares=compares)), allow_nan=False))

    assert document.keys() >= WANTED
    for key in ("high_wait_p99_seconds_without", "total_drain_ratio_pull", "without", "pull", "lanes_pull"):
        assert (document[key] is None) == (not compares)


def test_a_message_that_waits_for_ever_leaves_the_document_readable():
    """JSON has no infinity; the promise is broken all the same."""
    run = quiet_run().send("lost", "HIGH", group="l", at=0.1, position=2)
    figures = {RunName.MAPPINGS: run_figures(run.evidence, RULES)}
    promises = judge(figures, rules=RULES, customers=200)
    outcome = replace(make_outcome(compares=False), figures=figures, promises=promises)

    document = json.loads(json.dumps(report_document(outcome), allow_nan=False))

    assert document["high_wait_p99_seconds"] is None
    assert {"losses", "high_wait_p99_seconds"} <= {promise.name for promise in outcome.broken}


def test_a_broken_promise_fails_the_document():
    """And is named in it."""
    document = report_document(make_outcome(losses=True))

    assert document["passed"] is False
    assert any(words.startswith("losses is 1, off by 1") for words in document["broken"])


@pytest.mark.parametrize("compares", [True, False])
def test_the_page_stands_for_itself(tmp_path, compares):
    """Its tags close, and it asks for nothing from elsewhere."""
    outcome = make_outcome(compares=compares, losses=True)
    write_page(outcome, draw_timeline(outcome, tmp_path / "timeline.svg"), tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    tags = Tags()

    tags.feed(page)

    assert tags.open == []
    assert [address[:26] for address in tags.addresses] == ["data:image/svg+xml;base64,"]
    assert not re.search(r"https?://|@import|url\(", page)
    assert "Promises were broken." in page


@pytest.mark.parametrize("compares", [True, False])
def test_the_picture_has_a_panel_for_each_run_and_a_row_for_each_lane(tmp_path, compares):
    """With the p99 wait of a lane at its right; the page shows the same file."""
    outcome = make_outcome(compares=compares)
    picture = draw_timeline(outcome, tmp_path / "timeline.svg")
    texts = [mark.text for mark in ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]  # noqa: S314

    assert (tmp_path / "timeline.svg").read_text(encoding="utf-8") == picture
    for lane in ("HIGH", "MEDIUM", "MAIN"):
        assert texts.count(lane) == len(outcome.figures)
    shown = [texts[place + 1] for place, text in enumerate(texts) if text == "HIGH"]
    assert shown == (["9.0 s", "290 ms", "290 ms"] if compares else ["290 ms"])
    assert "prefers-color-scheme: dark" in picture


def test_a_message_without_a_start_waits_to_the_end_of_the_picture(tmp_path):
    """Its lane waits without end there, as in the tables."""
    run = quiet_run().send("lost", "HIGH", group="l", at=0.1, position=2)
    outcome = replace(
        make_outcome(compares=False),
        evidence={RunName.MAPPINGS: run.evidence},
        figures={RunName.MAPPINGS: run_figures(run.evidence, RULES)},
    )

    assert "inf" not in draw_timeline(outcome, tmp_path / "timeline.svg")


def test_the_page_begins_with_the_wait_and_has_words_before_figures(tmp_path):
    """Its headline is the figure of the engine, and each promise is a sentence first."""
    outcome = make_outcome()
    write_page(outcome, "<svg/>", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")

    headline = re.search(r"<p class='headline'><b>(.*?)</b> (.*?)</p>", page)
    assert headline is not None
    assert headline[1] == "290 ms"
    assert headline[2].endswith("without priority it was 9.0 s, 31 times as long")
    rows = re.findall(r"<tr><td>(.*?)</td>.*?<code>(\w+)</code></td></tr>", page)
    names = {row.name: row.words for row in promise_rows(outcome)}
    promised = {name: words for words, name in rows if name in names}
    assert promised.keys() == names.keys()
    assert all(" " in words for words in promised.values())


@pytest.mark.parametrize(("compares", "tiles", "columns"), [(True, 9, 3), (False, 4, 4)])
def test_no_tile_is_left_over(tmp_path, compares, tiles, columns):
    """The rows of tiles are full at every width, since their number is the same."""
    write_page(make_outcome(compares=compares), "<svg/>", tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")

    assert f"class='cards' style='--columns: {columns}'" in page
    assert page.count("<li>") == tiles
    assert tiles % columns == 0


def test_the_runs_are_side_by_side():
    """The same figure of each in a row, and how many promises each kept."""
    outcome = make_outcome(losses=True)
    rows = {row[0]: row[1:] for row in run_rows(outcome)}

    assert run_headings(outcome)[1:] == ("no priority", "mappings", "pull")
    assert rows["HIGH p99 wait"] == ("9.0 s", "290 ms", "290 ms")
    assert rows["MAIN handled"] == ("20", "20", "20")
    assert not [words for words in rows if words.endswith("yields")]
    assert rows["promises kept"] == ("8 of 8", "14 of 15", "12 of 12")


def test_the_summary_has_a_plain_line_for_each_figure_and_promise():
    """Without colours or boxes where the output is no terminal."""
    outcome, stream = make_outcome(losses=True), io.StringIO()

    write_summary(outcome, stream)

    lines = stream.getvalue().splitlines()
    assert "HIGH p99 wait: no priority 9.0 s, mappings 290 ms, pull 290 ms" in lines
    assert "BROKEN     losses (= 0): no priority 0, mappings 1, pull 0" in lines
    assert stream.getvalue().isprintable() is False
    assert "\x1b" not in stream.getvalue()


def test_a_promise_that_one_run_broke_is_shown_as_broken():
    """All runs share its row; a run that has no such promise has no figure there."""
    outcome = make_outcome()
    broken = [replace(one, value=1) if one.key == "losses_pull" else one for one in outcome.promises]

    rows = {row.name: row for row in promise_rows(replace(outcome, promises=broken))}

    assert (rows["losses"].values, rows["losses"].verdict) == (("0", "0", "1"), "BROKEN")
    assert rows["high_wait_ratio"].values == ("", "31", "31")


def test_the_summary_on_a_terminal_has_the_same_promises():
    """As a table."""

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    write_summary(make_outcome(), stream)

    assert "order_violations" in stream.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_nothing_of_the_summary_is_cut_to_fit_the_terminal(width):
    """Every lane, promise and figure can be read at any width."""
    outcome, stream = make_outcome(losses=True), io.StringIO()

    write_tables(outcome, Console(file=stream, width=width))

    shown = stream.getvalue()
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width
    for words in ("HIGH", "MAIN", "receives", "290 ms", "9.0 s", "pull", "BROKEN"):
        assert words in shown
    for row in promise_rows(outcome):
        assert row.name in shown
