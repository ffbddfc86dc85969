"""Dead letters in the browser: found, shown, redriven and deleted, each after a preview."""

import json

import pytest
from playwright.sync_api import expect

from tests.support.operating import drain, put_dead_letters


@pytest.fixture
def put(scene, request):
    """Put dead letters of this test's own kind into a lane that is empty otherwise."""
    kind = request.node.name.removeprefix("test_")[:40]
    scene.empty("MAIN")

    def put_some(count, suffix="", **note):
        sqs = scene.client("sqs")
        put_dead_letters(sqs, scene.deployment, "MAIN", count, groups=count, kind=kind + suffix, **note)
        return kind + suffix

    return put_some


def look(tab, page, **filters):
    """Open the dead letters of MAIN."""
    query = "&".join(f"{name}={value}" for name, value in {"lane": "MAIN", **filters}.items())
    tab.goto(page.url)
    tab.goto(f"{page.base}#dead-letters?{query}")


def rows(tab):
    """Find the rows of what was found."""
    return tab.locator("#found tbody tr")


def test_what_is_meant_is_previewed_and_redriven(scene, writing, tab, put):
    """Those of another kind stay; the copies are in the lane, and the audit trail tells of it."""
    kind, other = put(3), put(2, ".other")
    look(tab, writing, kind=kind)
    expect(rows(tab)).to_have_count(3)

    tab.get_by_role("button", name="Redrive all that match").click()

    dialog = tab.locator("dialog")
    expect(dialog.locator("h2")).to_have_text("Redrive 3 dead letters of MAIN")
    expect(dialog).to_contain_text(f"{kind} · attempts exhausted")
    assert scene.count(scene.deployment.queues["MAIN"].url) == 0

    dialog.locator("#act").click()
    expect(dialog).to_contain_text("Done: Redrive 3 dead letters of MAIN")

    expect(dialog.locator("dd").first).to_have_text("3")
    arrived = drain(scene.client("sqs"), scene.deployment.queues["MAIN"].url)
    assert {json.loads(one["Body"])["type"] for one in arrived} == {kind}
    dialog.get_by_role("button", name="Close").click()
    expect(rows(tab)).to_have_count(0)
    tab.locator("input[name=kind]").fill(other)
    tab.get_by_role("button", name="List").click()
    expect(rows(tab)).to_have_count(2)
    audit = writing.ask("audit", {"limit": 1})[1]["changes"][0]
    assert (audit["action"], audit["outcome"], audit["details"]["done"]) == (
        "dead-letters redrive",
        "done",
        3,
    )


def test_chosen_ones_are_deleted_only_after_saying_so_twice(scene, writing, tab, put):
    """What can't be undone takes one more step; the others stay."""
    put(3)
    look(tab, writing)
    expect(rows(tab)).to_have_count(3)

    rows(tab).nth(1).get_by_role("checkbox").check()
    tab.get_by_role("button", name="Delete 1 selected").click()

    dialog = tab.locator("dialog")
    expect(dialog.locator("#act")).to_be_disabled()
    dialog.get_by_role("checkbox").check()
    dialog.locator("#act").click()
    expect(dialog).to_contain_text("Done: Delete 1 dead letter of MAIN")
    assert scene.count(scene.deployment.queues["MAIN"].dead_letter_url) == 2


def test_one_is_shown_with_everything_that_was_noted(writing, tab, put):
    """Its reason, its body and the original's attributes."""
    kind = put(1, error="ValueError: no such customer")
    look(tab, writing)

    rows(tab).get_by_role("button", name=kind).click()

    dialog = tab.locator("dialog")
    expect(dialog).to_contain_text("ValueError: no such customer")
    expect(dialog.locator("pre").last).to_contain_text('"number": 0')
    expect(dialog.locator("pre").first).to_contain_text("acme")
    tab.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_texts_of_messages_are_only_ever_shown(writing, tab, put):
    """Kinds, groups, errors and bodies with scripts in them do nothing."""
    hostile = "<img/src=x/onerror=window.harmed=1><script>window.harmed=1</script>"
    put(1, suffix=hostile, error=hostile, reason=hostile)
    look(tab, writing)

    expect(rows(tab)).to_contain_text(hostile)
    rows(tab).get_by_role("button").first.click()
    dialog = tab.locator("dialog")
    expect(dialog.locator("pre").last).to_contain_text("onerror")
    tab.keyboard.press("Escape")
    tab.get_by_role("button", name="Redrive all that match").click()
    expect(dialog).to_contain_text(hostile)
    expect(dialog.locator("#act")).to_be_visible()

    assert tab.evaluate("window.harmed") is None
    assert tab.locator("main img, dialog img, main script, dialog script").count() == 0


@pytest.mark.deep
def test_a_change_whose_dialog_was_closed_is_found_again(scene, writing, tab, put):
    """It goes on, the frame says so, and it can be stopped from there; what was not done stays."""
    put(300)
    look(tab, writing)
    expect(rows(tab).first).to_be_visible()
    dialog = tab.locator("dialog")

    tab.get_by_role("button", name="Redrive all that match").click()
    expect(dialog.locator("#act")).to_be_visible()
    with scene.frozen():
        dialog.locator("#act").click()
        dialog.get_by_role("button", name="Leave it running").click()
        tab.locator("#jobs button").click()
        with tab.expect_response("**/stop"):
            dialog.get_by_role("button", name="Stop").click()

    expect(dialog).to_contain_text("Stopped: Redrive")
    expect(tab.locator("#jobs button")).to_have_count(0)
    assert scene.count(scene.deployment.queues["MAIN"].dead_letter_url) > 0
    audit = writing.ask("audit", {"limit": 1})[1]["changes"][0]
    assert audit["outcome"] == "interrupted"
