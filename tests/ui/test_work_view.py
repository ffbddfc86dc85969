"""Waits, running invocations and failures below the lanes; filters, sorting and keys of the page."""

import re
import time

import pytest
from playwright.sync_api import expect

from tests.support.command import DURATIONS

LINE = {"lane": "MAIN", "kind": "wait.order", "group": "g", "message_id": "sqs"}


@pytest.fixture(scope="module", autouse=True)
def _story(scene):
    """The log of the last minutes."""
    scene.log(
        *(
            (-20, {"event": "message_handled", **LINE, "id": f"w-{wait}", "sent_at": 0.0, "started_at": wait})
            for wait in (1.5, 2.5, 40.0)
        ),
        *(
            (-10, {"event": "message_failed", **LINE, "id": f"f-{one}", "error": f"ValueError: order {one}"})
            for one in range(3)
        ),
        (-9, {"event": "message_dead_lettered", **LINE, "id": "d-1", "error": "OSError: <i>no</i> room"}),
        (-8, {"event": "message_handled", "lane": "HIGH", "kind": "wait.payment", "id": "p-1", "message_id": "sqs-p"}
         | {"sent_at": 0.0, "started_at": 0.04, "correlation_id": "request-1"}),
    )  # fmt: skip


@pytest.fixture
def lanes(reading, tab):
    """The lanes, with the tables below."""
    tab.goto(reading.url)
    expect(tab.locator("#waits tbody tr").first).to_be_visible()
    return tab


def test_durations_are_written_as_in_the_command(lanes):
    """A wait of the page is found in the command's table, and the other way round."""
    written = lanes.evaluate(
        "async (values) => { const { duration } = await import('/format.js'); return values.map(duration); }",
        list(DURATIONS),
    )

    assert dict(zip(DURATIONS, written, strict=True)) == DURATIONS


def test_the_wait_is_shown_by_lane_and_by_kind(lanes):
    """In the table of the lanes all kinds of a lane are one."""
    order = lanes.locator("#waits tr", has_text="wait.order")
    cells = lanes.locator("tr[data-lane='HIGH']")

    expect(order.locator("td")).to_have_text(["MAIN", "3", "2.5 s", "40 s"])
    expect(cells.locator("td[data-label='wait p99']")).to_have_text("40 ms")
    expect(lanes.locator("tr[data-lane='MAIN'] td[data-label='inversion/min']")).to_have_text("2.5 s")
    expect(lanes.locator("tr[data-lane='MEDIUM'] td[data-label='wait p50']")).to_have_class("number nothing")


def test_failures_are_counted_by_error_and_lead_to_their_messages(lanes):
    """The text of an error is text."""
    rows = lanes.locator("#failures tbody tr", has_text="wait.order")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("ValueError: order 0")
    expect(rows.nth(0).locator("td.number").first).to_have_text("3")
    expect(rows.nth(1)).to_contain_text("OSError: <i>no</i> room")

    rows.nth(1).get_by_role("link", name="d-1").click()

    expect(lanes.locator("input[name=id]")).to_have_value("d-1")


@pytest.mark.deep
def test_the_page_says_that_it_cannot_know_what_runs_or_shows_it(scene, lanes):
    """One slot writes no presence; without Lambda's own lines nothing is known, with them it is."""
    payment = {"lane": "HIGH", "kind": "wait.payment", "message_id": "sqs-r", "id": "r-1"}
    scene.log((-1, {"event": "message_handled", **payment, "correlation_id": "request-1"}))
    expect(lanes.locator("#running")).to_contain_text("running invocations unknown", timeout=60_000)

    scene.log((-5, "START RequestId: request-1 Version: 7"), (-4, "START RequestId: request-2 Version: 7"))

    rows = lanes.locator("#running tbody tr")
    expect(rows).to_have_count(2, timeout=60_000)
    expect(rows.nth(0)).to_contain_text("handled r-1")
    expect(rows.nth(0).locator("th")).to_have_text("HIGH")
    expect(rows.nth(1).locator("th")).to_have_text("not known yet")


@pytest.mark.deep
def test_a_resource_that_is_away_is_shown_with_its_tries(scene, lanes):
    """Until a slot finds it again; the text of a reason is text."""
    now = time.time()
    away = {"event": "resource_away", "lane": "MAIN", "resource": "bank", "reason": "OSError: <i>no</i>"}
    scene.log((-2, away | {"since": now - 600, "tries": 12, "next_at": now + 600}))
    line = lanes.locator("#logged-symptoms p", has_text="bank")
    expect(line).to_contain_text(re.compile(r"bank away since [0-9 :-]+Z, 12 tries, next [0-9 :-]+Z; last "))
    expect(line).to_contain_text("(OSError: <i>no</i>) [runbook: resource-away]")

    scene.log((-1, {"event": "resource_back", "lane": "MAIN", "resource": "bank", "seconds": 600.0}))

    expect(line).to_have_count(0)


def test_columns_are_sorted_by_their_values_and_back(lanes):
    """Up, down, and as the server sent them; a duration by its length, not its text."""
    heads = lanes.locator("#waits thead th")
    kinds = lanes.locator("#waits tbody th")
    first = kinds.all_text_contents()
    waits = {"wait.payment": 0.04, "wait.order": 40}
    ours = [kind for kind in first if kind in waits]

    def sorted_kinds():
        return [kind for kind in kinds.all_text_contents() if kind in waits]

    lanes.get_by_role("button", name="p99", exact=True).click()
    assert sorted_kinds() == ["wait.payment", "wait.order"]
    expect(heads.nth(4)).to_have_attribute("aria-sort", "ascending")
    lanes.get_by_role("button", name="p99", exact=True).click()
    assert sorted_kinds() == ["wait.order", "wait.payment"]
    expect(heads.nth(4)).to_have_attribute("aria-sort", "descending")
    lanes.get_by_role("button", name="p99", exact=True).click()
    assert sorted_kinds() == ours


def test_a_filter_suggests_the_known_and_stays_in_the_address(reading, lanes):
    """An address can be sent to a colleague."""
    lanes.goto(f"{reading.base}#events?choice=everything")
    expect(lanes.locator(".events tbody tr").first).to_be_visible()
    lanes.locator("input[name=kind]").focus()
    expect(lanes.locator("datalist#known-kind option[value='wait.order']")).to_have_count(1)

    lanes.locator("input[name=kind]").fill("wait.payment")
    lanes.locator("input[name=id]").fill("p-1")
    lanes.get_by_role("button", name="Filter").click()

    expect(lanes.locator(".events tbody tr")).to_have_count(1)
    assert lanes.url.endswith("#events?choice=everything&kind=wait.payment&id=p-1")
    lanes.reload()
    expect(lanes.locator(".events tbody tr")).to_have_count(1)


def test_recent_ids_are_offered_in_trace(reading, lanes):
    """Those of this browser, the last one first."""
    for one in ("w-1.5", "p-1"):
        lanes.goto(f"{reading.base}#trace?id={one}")
        expect(lanes.locator(".summary")).to_be_visible()

    lanes.goto(f"{reading.base}#trace")

    expect(lanes.locator("#recent a")).to_have_text(["p-1", "w-1.5"])


def test_keys_lead_to_views_and_to_the_filter(lanes):
    """And write where someone types."""
    lanes.keyboard.press("g")
    lanes.keyboard.press("e")
    expect(lanes.locator("#events-title")).to_be_visible()
    lanes.keyboard.press("/")
    expect(lanes.locator("select[name=lane]")).to_be_focused()
    lanes.locator("input[name=kind]").focus()
    lanes.keyboard.type("gl?")
    expect(lanes.locator("input[name=kind]")).to_have_value("gl?")
    lanes.locator("#main").focus()
    lanes.keyboard.press("?")
    expect(lanes.locator("dialog")).to_contain_text("dead letters")
    lanes.keyboard.press("Escape")
    lanes.keyboard.press("g")
    lanes.keyboard.press("l")

    expect(lanes.locator("svg.timeline")).to_be_visible()


def test_the_timeline_opens_with_the_shortest_span_that_has_data(reading, lanes):
    """A choice is part of the address."""
    pressed = lanes.locator(".choices button[aria-pressed='true']")
    expect(pressed).to_have_text("5 min")

    lanes.get_by_role("button", name="3 h").click()

    assert lanes.url.endswith("#lanes?span=10800")
    lanes.reload()
    expect(pressed).to_have_text("3 h")
