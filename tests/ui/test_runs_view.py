"""Runs below the lanes, with a bar for each; where none was opened lately there is nothing of them."""

import pytest
from playwright.sync_api import expect

from tests.support.operating import put_dead_letters


@pytest.fixture(scope="module", autouse=True)
def _runs(scene):
    """One that has ended, and one with ends of three kinds."""
    scene.follow("october", total=4, done=4)
    scene.follow("november", total=40, done=20, dead_lettered=4, cancelled=2)


@pytest.fixture
def rows(reading, tab):
    """The lines of both, the latest first."""
    tab.goto(reading.url)
    rows = tab.locator("#runs tbody tr", has_text="ber")
    expect(rows).to_have_count(2)
    return rows


def cells(row):
    """Return a line's total, done, dead letters and left."""
    return row.locator("td.number")


def test_the_latest_run_comes_first_with_its_ends_and_a_bar(rows):
    """The parts of the bar are the shares of the total, and said to those who can't see them."""
    november = rows.nth(0)
    expect(november.locator("th")).to_have_text("november")
    expect(november.locator(".chip")).to_have_text("sealed")
    expect(cells(november).nth(0)).to_have_text("40")
    expect(cells(november).nth(1)).to_have_text("20")
    expect(cells(november).nth(2)).to_have_text("4")
    expect(cells(november).nth(3)).to_have_text("14")
    bar = november.get_by_role("img", name="20 done, 4 dead letters, 2 cancelled, of 40")
    widths = bar.locator("i").evaluate_all("(parts) => parts.map((part) => part.style.width)")
    assert widths == ["50%", "10%", "5%"]

    expect(rows.nth(1).locator(".chip")).to_have_text("ended")
    expect(rows.nth(1).get_by_role("img", name="4 done, of 4")).to_be_visible()


def test_the_bar_moves_while_the_page_is_open(scene, rows):
    """Without a reload."""
    scene.end("november", "done", 26)

    expect(cells(rows.nth(0)).nth(1)).to_have_text("21")


def test_dead_letters_of_a_run_are_a_click_away(scene, rows, tab):
    """Only those with its mark."""
    put_dead_letters(scene.client("sqs"), scene.deployment, "MAIN", 1, groups=1, kind="run.other", error="no")

    cells(rows.nth(0)).nth(2).get_by_role("link").click()

    expect(tab.locator("input[name=run]")).to_have_value("november")
    expect(tab.get_by_text("No dead letters match.")).to_be_visible()


def test_a_run_whose_total_is_not_known_and_a_sample_say_so(rows, tab):
    """Nothing is measured by an unknown total, and an estimate is no count."""
    run = {
        "run": "r",
        "done": 1_000,
        "dead_lettered": 0,
        "cancelled": 0,
        "expired": 0,
        "exact": False,
        "errors": {"done": 90, "dead_lettered": 12, "cancelled": 0, "expired": 0, "left": 95},
        "rate": None,
    }
    run |= {"eta": None, "opened_at": 1.0, "over_at": None, "state": "open"}
    texts = tab.evaluate(
        """async (runs) => {
            const { Runs } = await import("/runs.js");
            const made = new Runs();
            made.show({ runs });
            const rows = [...made.panel.querySelectorAll("tbody tr")];
            return rows.map((row) => [...row.children].map((cell) => cell.textContent));
        }""",
        [run | {"total": None, "left": None}, run | {"total": 4_000, "left": 3_000}],
    )

    assert [text[3:7] for text in texts] == [
        ["not yet", "1,000 ± 90", "0 ± 12", "not yet"],
        ["4,000", "1,000 ± 90", "0 ± 12", "3,000 ± 95"],
    ]
