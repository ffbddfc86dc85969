"""The lanes in the browser: their numbers, live, and pausing one."""

import re

from playwright.sync_api import expect

from tests.support.operating import put_dead_letters


def row(tab, lane):
    """Find the row of a lane."""
    return tab.locator(f"tr[data-lane='{lane}']")


def cell(tab, lane, title):
    """Find a figure of a lane."""
    return row(tab, lane).locator(f"td[data-label='{title}']")


def test_lanes_are_shown_with_their_numbers_and_renewed_by_themselves(scene, reading, tab):
    """What is sent while the page is open appears without a click."""
    scene.empty()
    scene.send("MEDIUM", 12, prefix="first")
    tab.goto(reading.url)

    expect(cell(tab, "MEDIUM", "waiting")).to_have_text("12")
    expect(cell(tab, "HIGH", "waiting")).to_have_text("0")
    expect(row(tab, "MEDIUM").locator("td").first).to_have_text("taking")
    assert tab.locator("tr[data-lane]").evaluate_all("rows => rows.map(row => row.dataset.lane)") == [
        "HIGH",
        "MEDIUM",
        "MAIN",
    ]

    scene.send("MEDIUM", 5, prefix="second")

    expect(cell(tab, "MEDIUM", "waiting")).to_have_text("17")
    expect(tab.locator("#connection")).to_have_text("live")


def test_on_a_phone_nothing_is_cut_off(writing, tab):
    """The page is as wide as the window."""
    tab.set_viewport_size({"width": 390, "height": 844})
    tab.goto(writing.url)

    expect(tab.locator("svg.timeline")).to_contain_text("Inversion")
    expect(row(tab, "MAIN")).to_be_visible()
    assert tab.evaluate("document.documentElement.scrollWidth") == 390


def test_the_token_does_not_stay_in_the_address(reading, tab):
    """Nobody reads it over a shoulder or copies it; a reload goes on without it."""
    tab.goto(reading.url)
    expect(row(tab, "HIGH")).to_be_visible()

    assert reading.token not in tab.url

    tab.reload()

    expect(row(tab, "HIGH")).to_be_visible()


def test_the_timeline_shows_what_cloudwatch_kept(writing, tab):
    """Minutes before the page was opened, and bars of yields and inversions, also for the keyboard."""
    tab.goto(writing.url)
    picture = tab.locator("svg.timeline")

    expect(picture).to_contain_text("Yields per minute")
    expect(picture.locator("rect.bar.lane-2").first).to_be_visible()
    tab.get_by_role("button", name="1 h").click()
    picture.focus()
    for _ in range(9):
        tab.keyboard.press("ArrowLeft")
    expect(tab.locator(".tip")).to_contain_text(re.compile("MAIN 40 waiting, 10 in work"))
    expect(tab.locator(".tip")).to_contain_text("Yields per minute: MAIN 30")
    expect(tab.locator("#said")).to_contain_text("MAIN 2.5 s")
    expect(cell(tab, "MAIN", "yields/min")).to_have_text("30")


def test_times_without_a_page_are_not_drawn_as_empty(writing, tab):
    """CloudWatch fills them as far as it can; unknown values have no line."""

    def with_an_old_sample(route):
        response = route.fetch()
        look = response.json()
        first = look["samples"][0]
        look["samples"].insert(0, {**first, "number": first["number"] - 1, "at": look["at"] - 1500})
        route.fulfill(response=response, json=look)

    tab.route("**/api/lanes", with_an_old_sample, times=1)
    tab.goto(writing.url)
    picture = tab.locator("svg.timeline")

    expect(picture.locator("rect.bar.lane-2").first).to_be_visible()
    tab.get_by_role("button", name="1 h").click()
    picture.focus()
    for _ in range(10):
        tab.keyboard.press("ArrowLeft")
    expect(tab.locator(".tip")).to_contain_text("MAIN 40 waiting, 10 in work")
    expect(tab.locator(".tip")).to_contain_text("HIGH not known")


def test_a_lane_is_paused_after_a_preview_and_resumed(scene, writing, tab):
    """Cancelling changes nothing; the table shows the new state by itself."""
    tab.goto(writing.url)
    button = row(tab, "HIGH").get_by_role("button")
    expect(button).to_have_text("Pause")
    dialog = tab.locator("dialog")

    button.click()
    expect(dialog).to_contain_text("Lower lanes continue after about a second")
    expect(dialog.locator("#act")).to_be_focused()
    dialog.get_by_role("button", name="Cancel").click()
    assert scene.mapping_states()["HIGH"] == "Enabled"

    button.click()
    dialog.locator("#act").click()
    expect(dialog).to_contain_text("Done: Pause HIGH")
    dialog.get_by_role("button", name="Close").click()
    expect(row(tab, "HIGH").locator("td").first).to_have_text("paused")
    assert scene.mapping_states() == {"HIGH": "Disabled", "MEDIUM": "Enabled", "MAIN": "Enabled"}

    expect(button).to_have_text("Resume")
    button.click()
    dialog.locator("#act").click()
    expect(dialog).to_contain_text("Done: Resume HIGH")
    assert scene.mapping_states()["HIGH"] == "Enabled"
    audit = writing.ask("audit", {"limit": 2})[1]["changes"]
    assert [(one["action"], one["target"], one["outcome"]) for one in audit] == [
        ("resume", "HIGH", "done"),
        ("pause", "HIGH", "done"),
    ]


def test_dead_letters_of_a_lane_are_a_link_to_them(scene, writing, tab):
    """With the lane chosen already."""
    put_dead_letters(scene.client("sqs"), scene.deployment, "MEDIUM", 2, groups=2, kind="linked")
    tab.goto(writing.url)

    cell(tab, "MEDIUM", "dead letters").get_by_role("link").click()

    expect(tab.locator("#found tbody tr")).to_have_count(2)
    expect(tab.locator("select[name=lane]")).to_have_value("MEDIUM")
