"""The page in a browser beside the whole stack, deployed and running on this machine."""

import json

import pytest
from playwright.sync_api import expect

from local.deploy import CdkApp
from local.platform import Platform
from tests.support.command import Typed
from tests.support.page import ROOT, PageProcess
from tests.support.waiting import until


@pytest.fixture(scope="module")
def platform(tmp_path_factory):
    """The stack of the demo's stage, its mappings and its function."""
    app = CdkApp(directory=ROOT, stage="demo")
    with Platform(app=app, build_directory=tmp_path_factory.mktemp("build")) as running:
        yield running


@pytest.fixture
def page(platform):
    """The page, allowed to change things."""
    with PageProcess(platform, "--write", "--interval", "0.2s", stage="demo") as started:
        yield started


def press(tab, lane, verb):
    """Change the state of a lane as a person does: button, preview, yes."""
    dialog = tab.locator("dialog")
    tab.locator(f"tr[data-lane='{lane}']").get_by_role("button", name=verb).click()
    dialog.locator("#act").click()
    expect(dialog).to_contain_text(f"Done: {verb} {lane}")
    dialog.get_by_role("button", name="Close").click()


def wait_until_it_takes_nothing(platform, lane):
    """The mapping takes notice of a change within a moment, as on AWS."""
    mapping = next(mapping for name, mapping in platform.mappings.items() if lane in name)
    until(
        lambda: not mapping.settings.enabled and mapping.running == 0,
        why=f"{lane} takes messages all the same",
    )


@pytest.mark.deep
def test_what_waits_in_a_paused_lane_is_seen_and_handled_once_it_is_resumed(platform, page, tab):
    """Paused and resumed by clicks, while a real function works behind the lanes."""
    rows = [{"kind": "order.placed", "data": {}, "priority": -100} for _ in range(5)]
    waiting = tab.locator("tr[data-lane='MAIN'] td[data-label='waiting']")
    tab.goto(page.url)

    press(tab, "MAIN", "Pause")
    wait_until_it_takes_nothing(platform, "MAIN")
    Typed(platform.endpoint_url).json(
        "--stage", "demo", "send", "-f", "-", text="\n".join(map(json.dumps, rows))
    )
    expect(waiting).to_have_text("5")

    press(tab, "MAIN", "Resume")
    expect(waiting).to_have_text("0")
