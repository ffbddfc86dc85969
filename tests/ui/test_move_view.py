"""Moving what waits in the browser, in the outbox and in queues alike."""

from playwright.sync_api import expect


def open_move(tab, page):
    """Open the view."""
    tab.goto(page.url)
    tab.goto(f"{page.base}#move")


def test_what_waits_is_prioritised_everywhere_and_the_override_withdrawn(scene, writing, tab):
    """Entries at once, messages by an override; each step has its entry in the audit trail."""
    scene.write("parcel.sent", 3, priority=-100)
    open_move(tab, writing)
    dialog = tab.locator("dialog")

    tab.locator("input[name=kind]").fill("parcel.*")
    tab.locator("input[name=why]").fill("customer waits")
    tab.get_by_role("button", name="Prioritise to").click()
    expect(dialog.locator("h2")).to_have_text("Give waiting work priority 50 (lane HIGH)")
    expect(dialog).to_contain_text("kind like parcel.*")
    expect(dialog).to_contain_text("the counts include all messages")
    dialog.locator("#act").click()
    expect(dialog).to_contain_text("Done: Give waiting work priority 50")
    expect(dialog.locator("dd").first).to_have_text("3")
    dialog.get_by_role("button", name="Close").click()

    override = tab.locator("tr", has_text="parcel.*")
    expect(override).to_contain_text("prioritise to 50")
    expect(override).to_contain_text("customer waits")
    # The log names the message that met it.
    override_id = writing.ask("overrides")[1]["overrides"][0]["id"]
    scene.log((1, {"event": "message_moved", "lane": "MAIN", "message_id": "m", "override": override_id}))
    tab.reload()
    expect(override.locator("td.number")).to_have_text("1")
    override.get_by_role("button", name="Withdraw").click()
    dialog.locator("#act").click()
    expect(dialog).to_contain_text("Done: Withdraw override")
    dialog.get_by_role("button", name="Close").click()
    expect(override).to_have_count(0)

    entries = writing.ask("entries", {"kind": "parcel.sent"})[1]["entries"]
    assert {entry["lane"] for entry in entries} == {"HIGH"}
    changes = writing.ask("audit", {"limit": 2})[1]["changes"]
    assert [(one["action"], one["outcome"]) for one in changes] == [
        ("overrides withdraw", "done"),
        ("prioritize", "done"),
    ]


def test_a_move_says_which(writing, tab):
    """Everything at once is no slip of a finger."""
    open_move(tab, writing)

    tab.get_by_role("button", name="Cancel …").click()

    expect(tab.locator("dialog .fault")).to_contain_text("no filter is set")
    assert writing.ask("overrides")[1]["overrides"] == []


def test_a_run_is_prioritised_by_its_name(scene, writing, tab):
    """In the lanes alone, whatever the form says of the outbox; the page knows the name from its runs."""
    scene.follow("advent", total=40, done=1)
    scene.follow("epiphany", total=1, done=1)
    tab.goto(writing.url)
    expect(tab.locator("#runs tbody")).to_contain_text("advent")
    tab.goto(f"{writing.base}#move")
    field, dialog = tab.locator("input[name=run]"), tab.locator("dialog")

    field.focus()
    expect(tab.locator("datalist#known-run option[value=advent]")).to_have_count(1)
    field.fill("epiphany")
    tab.get_by_role("button", name="Prioritise to").click()
    expect(dialog.locator(".fault")).to_contain_text("the run 'epiphany' ended at")
    dialog.get_by_role("button", name="Close").click()

    field.fill("advent")
    tab.locator("select[name=in]").select_option("outbox")
    tab.get_by_role("button", name="Cancel …").click()
    expect(dialog.locator(".fault")).to_contain_text("entries of an outbox belong to no run")
    dialog.get_by_role("button", name="Close").click()

    tab.locator("select[name=in]").select_option("both")
    tab.get_by_role("button", name="Prioritise to").click()
    expect(dialog).to_contain_text("run = advent")
    expect(dialog).not_to_contain_text("Entries in the outbox")
    dialog.locator("#act").click()
    expect(dialog).to_contain_text("Done: Give waiting work priority 50")
    (override,) = writing.ask("overrides")[1]["overrides"]
    assert "run = advent" in override["filter"]
    dialog.get_by_role("button", name="Close").click()
    writing.ask(
        "start", {"plan": writing.ask("plan", {"change": "withdraw", "override": override["id"]})[1]["plan"]}
    )
