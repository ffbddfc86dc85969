"""The documentation as a site: it builds without a warning, holds every page, and calls no other host."""

import html.parser
import re
import subprocess
import sys
import urllib.parse

import pytest

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
    """What an HTML page fetches and links to."""

    def __init__(self, text):
        super().__init__()
        self.fetched, self.links = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        if tag == "a" and values.get("href"):
            self.links.append(values["href"])
        for name, value in attrs:
            if (tag, name) in FETCHED and values.get("rel") not in NAMING and value:
                self.fetched.append(value)


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
