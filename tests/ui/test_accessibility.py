"""Barriers that axe-core finds: none that is serious or critical, in every view and dialog, by day and by night."""

import pytest
from playwright.sync_api import expect

from tests.support.operating import put_dead_letters
from tests.support.page import AXE

SERIOUS = {"serious", "critical"}
ME = {"message_id": "axe-1", "id": "axe-order", "kind": "order.placed", "group": "axe"}
FAILED = {"event": "message_failed", "lane": "MAIN", "attempt": 1, "receive_count": 2, "delay": 4, **ME}
HANDLED = {"event": "message_handled", "lane": "MAIN", "attempt": 2, "receive_count": 3, **ME}
YIELDED = {"event": "batch_yielded", "lane": "MAIN", "to_lane": "MEDIUM", "records": 1, "delay": 9}


@pytest.fixture(scope="module", autouse=True)
def _content(scene):
    """Something for every table."""
    put_dead_letters(
        scene.client("sqs"), scene.deployment, "MEDIUM", 2, groups=2, kind="axe.dead", error="ValueError: no"
    )
    scene.write("axe.waiting", 2, prefix="axe")
    scene.follow("axe", total=4, done=2, dead_lettered=1)
    scene.log(
        (-60, {**YIELDED, "messages": [{**ME, "receive_count": 1}]}),
        (-50, {**FAILED, "error": "TimeoutError: slow"}),
        (-40, {**HANDLED, "sent_at": 1_000.0, "started_at": 1_002.5}),
    )


def lanes(tab):
    """The lanes with their waits."""
    expect(tab.locator("#waits tbody tr").first).to_be_visible()
    expect(tab.locator("#runs tbody tr").first).to_be_visible()
    expect(tab.locator("svg.timeline")).to_contain_text("Inversion")


def dead_letters(tab):
    """The list, and one of them selected."""
    tab.get_by_role("checkbox").first.check()


def outbox(tab):
    """With its counts unfolded."""
    tab.get_by_text("Waiting by kind, group and lane").click()
    expect(tab.locator(".spread li").first).to_be_visible()
    expect(tab.locator("#found tbody tr").first).to_be_visible()


def move(tab):
    """The form, and the lists below."""
    expect(tab.get_by_text("No override is active.")).to_be_visible()


def events(tab):
    """All of them."""
    tab.get_by_role("button", name="everything").click()
    expect(tab.locator(".events tbody tr").first).to_be_visible()


def trace(tab):
    """Of one message."""
    tab.locator("input[name=id]").fill(ME["id"])
    tab.get_by_role("button", name="Trace").click()
    expect(tab.locator(".summary")).to_be_visible()


def audit(tab):
    """Read to its end."""
    expect(tab.locator("main")).not_to_contain_text("Loading")


def check(tab):
    """Read to its end."""
    expect(tab.locator("main tbody tr").first).to_be_visible()


def nothing_found(tab):
    """The reasons why a trace finds nothing."""
    tab.locator("input[name=id]").fill("unknown-id")
    tab.get_by_role("button", name="Trace").click()
    expect(tab.locator("#found")).to_contain_text("Nothing was found")


def keys(tab):
    """The list of keys."""
    tab.keyboard.press("?")


def pause(tab):
    """A preview with numbers."""
    tab.get_by_role("button", name="Pause MEDIUM").click()
    expect(tab.locator("#act")).to_be_visible()


def redrive(tab):
    """A preview with a sample."""
    dead_letters(tab)
    tab.get_by_role("button", name="Redrive 1 selected").click()
    expect(tab.locator("#act")).to_be_visible()


def delete(tab):
    """A preview that asks once more."""
    dead_letters(tab)
    tab.get_by_role("button", name="Delete 1 selected").click()
    expect(tab.locator("#act")).to_be_visible()


def letter(tab):
    """One dead letter."""
    tab.get_by_role("button", name="axe.dead").first.click()
    expect(tab.locator("dialog pre").last).to_be_visible()


def entry(tab):
    """One entry of the outbox."""
    tab.get_by_role("button", name="axe.waiting").first.click()
    expect(tab.locator("dialog pre")).to_be_visible()


def refused(tab):
    """A change that is not possible."""
    move(tab)
    tab.get_by_role("button", name="Cancel …").click()
    expect(tab.locator("dialog .fault")).to_be_visible()


def prioritize(tab, kind):
    """Ask for a change of the outbox."""
    move(tab)
    tab.locator("input[name=kind]").fill(kind)
    tab.locator("select[name=in]").select_option("outbox")
    tab.get_by_role("button", name="Prioritise to").click()


def without_effect(tab):
    """A preview of nothing."""
    prioritize(tab, "axe.none")
    expect(tab.locator("dialog")).to_contain_text("no effect")


def done(tab):
    """A change that is done."""
    prioritize(tab, "axe.waiting")
    tab.locator("#act").click()
    expect(tab.locator("dialog h2")).to_contain_text("Done")


SIGHTS = {
    "lanes": (lanes, keys, pause),
    "dead-letters?lane=MEDIUM": (dead_letters, redrive, delete, letter),
    "outbox": (outbox, entry),
    "move": (move, refused, without_effect, done),
    "events": (events,),
    "trace": (trace, nothing_found),
    "audit": (audit,),
    "check": (check,),
}
QUICK = (lanes, dead_letters, outbox)


@pytest.fixture
def sheet(browser):
    """A tab with axe-core in it."""
    assert AXE.exists(), "no axe-core: .ci/set-up brings it"
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.add_init_script(path=AXE)
    yield context.new_page()
    context.close()


def barriers(tab):
    """Return axe-core's findings by day and, for the colours, by night: rule and element of each barrier."""
    return found_in(tab, "light", {}) + found_in(tab, "dark", {"runOnly": ["color-contrast"]})


def found_in(tab, scheme, rules):
    """Return the findings in a colour scheme, which the style sheet alone knows."""
    tab.emulate_media(color_scheme=scheme)
    found = tab.evaluate("rules => axe.run(document, { resultTypes: ['violations'], ...rules })", rules)
    assert found["passes"], "axe-core has looked at nothing"
    return [
        f"{scheme}: {one['id']}: {node['html'][:120]} ({node['failureSummary']})"
        for one in found["violations"]
        if one["impact"] in SERIOUS
        for node in one["nodes"]
    ]


@pytest.mark.parametrize(
    ("view", "prepare"),
    [
        pytest.param(view, one, id=f"{view}-{one.__name__}", marks=() if one in QUICK else pytest.mark.deep)
        for view, sights in SIGHTS.items()
        for one in sights
    ],
)
def test_no_view_and_no_dialog_has_a_serious_barrier(writing, sheet, view, prepare):
    """With something in every table; the views of every day at once, others and dialogs in the deep tests."""
    sheet.goto(writing.url)
    sheet.goto(f"{writing.base}#{view}")
    prepare(sheet)

    assert barriers(sheet) == []


def test_the_page_without_its_token_has_no_serious_barrier(writing, sheet):
    """Its one message."""
    sheet.goto(writing.base)
    expect(sheet.locator(".fault")).to_be_visible()

    assert barriers(sheet) == []
