"""What happened, in the browser: events of the log as they come, and the trace of one message."""

import pytest
from playwright.sync_api import expect

ME = {"message_id": "sqs-1", "id": "order-7", "kind": "order.placed", "group": "customer-3"}


def yielded(**me):
    """An event of a batch that made way."""
    messages = [{**ME, **me, "receive_count": 1}]
    return {
        "event": "batch_yielded",
        "lane": "MAIN",
        "to_lane": "HIGH",
        "records": 1,
        "delay": 9,
        "messages": messages,
    }


@pytest.fixture(scope="module", autouse=True)
def _story(scene):
    """What the function's log tells of a message."""
    scene.log(
        (-60, yielded()),
        (-50, {"event": "message_failed", "lane": "MAIN", "attempt": 1, "receive_count": 2, "delay": 4, **ME}
         | {"error": "TimeoutError: <b>slow</b>"}),
        (-40, {"event": "message_handled", "lane": "MAIN", "attempt": 2, "receive_count": 3, **ME}),
    )  # fmt: skip


def test_yields_are_shown_and_come_by_themselves(scene, reading, tab):
    """With who made way for whom."""
    tab.goto(reading.url)
    tab.goto(f"{reading.base}#events")
    rows = tab.locator(".events tbody tr", has_text="order-")
    expect(rows).to_have_count(1)
    expect(rows.first).to_contain_text("to HIGH, which has a backlog")

    scene.log((-1, yielded(id="order-8", message_id="sqs-2")))

    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("order-8")
    expect(tab.locator(".sums")).to_contain_text("MAIN → HIGH2")


def test_events_are_chosen_and_lead_to_the_trace(reading, tab):
    """Every receive and its cause, and where the message is now."""
    tab.goto(reading.url)
    tab.goto(f"{reading.base}#events")

    tab.get_by_role("button", name="failures").click()
    expect(tab.locator(".events tbody tr", has_text="order-7")).to_have_count(1)
    tab.get_by_role("link", name="order-7").click()

    expect(tab.locator(".summary")).to_contain_text("done")
    steps = tab.locator("#found tbody tr")
    expect(steps).to_have_count(3)
    expect(steps.nth(0)).to_contain_text("yielded")
    expect(steps.nth(1)).to_contain_text("TimeoutError: <b>slow</b>")
    expect(steps.nth(2)).to_contain_text("handled")
