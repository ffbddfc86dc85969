"""The outbox in the browser: what waits, and changing it while it waits."""

import pytest
from playwright.sync_api import expect


def open_outbox(tab, page, query=""):
    """Open the outbox."""
    tab.goto(page.url)
    tab.goto(f"{page.base}#outbox{query}")


def rows(tab):
    """Find the rows of what was found."""
    return tab.locator("#found tbody tr")


def entries(page, kind):
    """Give the entries of a kind as the page's server tells them."""
    return page.ask("entries", {"kind": kind})[1]["entries"]


def test_entries_are_prioritised_after_a_preview(scene, writing, tab):
    """Those that the filter means, and no others; the outbox's audit names the caller."""
    scene.write("mail.sent", 4, priority=-100)
    scene.write("order.placed", 2, priority=-100)
    open_outbox(tab, writing, "?kind=mail.*")
    expect(rows(tab)).to_have_count(4)

    tab.get_by_role("button", name="Prioritise or cancel").click()
    tab.get_by_label("New priority").fill("60")
    tab.get_by_role("button", name="Prioritise to").click()

    dialog = tab.locator("dialog")
    expect(dialog.locator("h2")).to_have_text("Give waiting work priority 60 (lane HIGH)")
    expect(dialog).to_contain_text("kind like mail.*")
    expect(dialog).not_to_contain_text("the counts include all messages")
    assert {entry["priority"] for entry in entries(writing, "mail.sent")} == {-100}

    dialog.locator("#act").click()
    expect(dialog).to_contain_text("Done: ")
    expect(dialog.locator("dd").first).to_have_text("4")

    assert {(one["priority"], one["lane"]) for one in entries(writing, "mail.sent")} == {(60, "HIGH")}
    assert {(one["priority"], one["lane"]) for one in entries(writing, "order.placed")} == {(-100, "MAIN")}
    audit = writing.ask("audit")[1]["outbox"][0]
    assert (audit["action"], audit["changed"]) == ("prioritize", 4)
    assert audit["who"].startswith("arn:aws:")


@pytest.mark.deep
def test_cancelled_entries_are_not_brought_back_by_a_retry(scene, writing, tab):
    """Each change comes after a preview."""
    scene.write("newsletter", 3)
    open_outbox(tab, writing, "?kind=newsletter")
    dialog = tab.locator("dialog")

    tab.get_by_role("button", name="Prioritise or cancel").click()
    tab.get_by_role("button", name="Cancel …").click()
    expect(dialog.locator("#act")).to_have_text("Cancel 3 messages")
    expect(dialog.get_by_role("button", name="Keep them")).to_be_enabled()
    expect(dialog.get_by_role("button", name="Cancel")).to_have_count(1)
    dialog.get_by_role("checkbox").check()
    dialog.locator("#act").click()
    expect(dialog).to_contain_text("Done: Cancel")
    dialog.get_by_role("button", name="Close").click()
    open_outbox(tab, writing, "?kind=newsletter")
    expect(rows(tab).first).to_contain_text("cancelled")

    # Nothing sends a cancelled entry again unless it is named by its id, to the command.
    tab.get_by_role("button", name="Retry …").click()
    expect(dialog).to_contain_text("Retry 0 entries")
    expect(dialog).to_contain_text("Cancelled ones stay so")
    assert {entry["state"] for entry in entries(writing, "newsletter")} == {"CANCELLED"}


def test_what_waits_is_counted_by_kind_group_and_lane(scene, reading, tab):
    """And the page says what SQS can't tell of a queue."""
    scene.write("invoice", 5, group=lambda number: f"customer-{number % 2}", priority=70)
    open_outbox(tab, reading)

    tab.get_by_text("Waiting by kind, group and lane").click()

    spread = tab.locator(".spread")
    expect(spread.locator("li", has_text="invoice")).to_contain_text("5")
    expect(spread.locator("li", has_text="customer-0")).to_contain_text("3")
    expect(spread).to_contain_text("without delivering the messages")


def test_a_filter_that_cannot_be_read_is_explained(reading, tab):
    """As the command explains it."""
    open_outbox(tab, reading, "?lowest=5&highest=1")

    expect(tab.locator("#found .fault")).to_contain_text("no priority is 5 or higher")


def test_without_an_outbox_its_address_says_so(reading, tab):
    """It may be a bookmark of another stack."""

    def without_outbox(route):
        response = route.fetch()
        route.fulfill(response=response, json={**response.json(), "outbox": None})

    tab.route("**/api/target", without_outbox)
    tab.goto(reading.url)
    tab.goto(f"{reading.base}#outbox")

    expect(tab.locator("main")).to_contain_text("This stack has no outbox")
    expect(tab.locator("main .fault")).to_have_count(0)
