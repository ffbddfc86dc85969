"""The documentation as a site: it builds without a warning, holds every page, and calls no other host."""

import html
import html.parser
import re
import subprocess
import sys
import urllib.parse

import pytest

import lanes
import lanes.outbox
import lanes.testing
from lanes.cli.main import command
from lanes.events import Event
from lanes.metrics import Metric
from tests.docs.pages import ROOT

pytestmark = pytest.mark.deep

DOCS = ROOT / "docs"
# Elements and attributes that make a browser fetch something as it shows the page.
FETCHED = {
    ("script", "src"),
    ("img", "src"),
    ("link", "href"),
    ("iframe", "src"),
    ("source", "src"),
    ("use", "href"),
}
# These only name an address.
NAMING = {"canonical", "next", "prev", "search", "author"}
CSS_URL = re.compile(r"(?:url\(|@import\s+)\s*['\"]?([^'\")\s]+)")


class Page(html.parser.HTMLParser):
    """What an HTML page fetches, links to and offers as places to link to."""

    def __init__(self, text):
        super().__init__()
        self.fetched, self.links, self.places = [], [], {""}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if values.get("id"):
            self.places.add(values["id"])
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        for name, value in attrs:
            if (tag, name) in FETCHED and values.get("rel") not in NAMING and value:
                self.fetched.append(value)


def text_of(path):
    """Give the words of a page."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", path.read_text(encoding="utf-8"))).split())


def as_shown(text):
    """Give a text as a page of the site shows it."""
    return text.replace("`", "").replace("'", "\N{RIGHT SINGLE QUOTATION MARK}")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site as `make docs` does and give its folder."""
    folder = tmp_path_factory.mktemp("site")
    command = "-m sphinx --quiet --fail-on-warning --keep-going -d"
    subprocess.run(
        [sys.executable, *command.split(), str(folder / "trees"), str(DOCS), str(folder / "html")],
        check=True,
        timeout=300,
    )
    return folder / "html"


@pytest.fixture(scope="module")
def parsed(site):
    """Give every page of the site, parsed."""
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def test_every_page_stands_in_the_navigation(parsed, site):
    """Nobody has to know an address."""
    start = parsed[site / "index.html"]
    listed = {urllib.parse.urldefrag(link).url for link in start.links}
    pages = {path.relative_to(DOCS).with_suffix(".html").as_posix() for path in DOCS.rglob("*.md")}

    assert pages - listed - {"index.html"} == set()


def test_no_page_fetches_anything_from_elsewhere(parsed, site):
    """No font, script, style or picture of another host: the site works where there is no network."""
    addresses = [address for page in parsed.values() for address in page.fetched]
    for style in site.rglob("*.css"):
        addresses += CSS_URL.findall(style.read_text(encoding="utf-8"))

    assert len(addresses) > 100
    assert [one for one in addresses if re.match(r"(https?:)?//", one)] == []


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("python", set(lanes.__all__)),
        ("python-outbox", {*lanes.outbox.__all__, "SqlOutboxStore", "OutboxTransaction"}),
        (
            "python-testing",
            {*lanes.testing.__all__, "MotoLanes", "Sent", "Handled", "Failed", "DeadLettered"},
        ),
    ],
)
def test_the_python_reference_describes_every_public_name(page, names, parsed, site):
    """From the docstrings."""
    places = {place.rpartition(".")[2] for place in parsed[site / "reference" / f"{page}.html"].places}

    assert names <= places


def test_the_site_lists_every_metric_and_every_event_of_the_log(site):
    """With its fields and its meaning, as the code has them."""
    text = text_of(site / "reference" / "metrics-and-logs.html")

    for metric in Metric:
        assert metric.description
        assert f"{metric} {as_shown(metric.description)}" in text, metric
    for event in Event:
        assert f"{event} {', '.join(event.fields)}".strip() in text, event
        assert event.description.replace("`", "").replace("'", "\N{RIGHT SINGLE QUOTATION MARK}") in text, (
            event
        )


def test_the_site_lists_every_option_of_the_command(site):
    """Under the verb that has it."""
    names = ("command-line", "moving-verbs")
    text = " ".join(text_of(site / "reference" / f"{name}.html") for name in names)

    for name, verb in command().commands.items():
        for inner, one in {"": verb, **getattr(verb, "commands", {})}.items():
            expected = [", ".join(found.opts) for found in one.params if found.opts[0].startswith("--")]
            listed = text.partition(f"{f'lanes {name} {inner}'.strip()}¶ Option Meaning")[2].partition("¶")[0]
            assert [found for found in expected if found not in listed] == [], (name, inner)


def test_a_broken_link_fails_the_build(tmp_path):
    """To a page, and to a heading."""
    for name in ("conf.py", "_static"):
        (tmp_path / name).symlink_to(DOCS / name)
    (tmp_path / "index.md").write_text("# A\n\n[b](b.md) [c](c.md#no-such-heading)\n")
    (tmp_path / "c.md").write_text("# C\n")
    command = "-m sphinx --quiet --fail-on-warning --keep-going"
    done = subprocess.run(
        [sys.executable, *command.split(), str(tmp_path), str(tmp_path / "out")],
        check=False,
        timeout=100,
        capture_output=True,
        text=True,
    )

    assert done.returncode != 0
    assert "b.md" in done.stderr
    assert "no-such-heading" in done.stderr
