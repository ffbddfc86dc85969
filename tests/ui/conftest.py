"""The page as an operator has it: lanes on a server of this machine, `lanes ui` as a process, a real browser."""

import pytest
from playwright.sync_api import expect, sync_playwright

from local.server import AwsServer
from tests.support.page import FLAGS, PageProcess, Scene, find_browser

LONGEST_WAIT_MS = 60_000

MINUTE = {
    "ApproximateNumberOfMessagesVisible": 40,
    "ApproximateNumberOfMessagesNotVisible": 10,
    "YieldedMessages": 30,
    "InversionTime": 2500,
    "HandledMessages": 100,
    "NumberOfMessagesSent": 50,
}


def pytest_addoption(parser):
    """Let the pictures of the docs be renewed."""
    parser.addoption("--renew-screenshots", action="store_true", help="put the page's pictures into the docs")


@pytest.fixture(scope="package")
def scene(tmp_path_factory):
    """Lanes, their mappings and an outbox, on an AWS server of the tests' own."""
    with AwsServer(log_path=tmp_path_factory.mktemp("server") / "server.log") as server:
        made = Scene(server)
        # The page averages the last minutes, however many have passed when a slow machine comes to look at it.
        made.figures("MAIN", [MINUTE] * 90, ahead=60)
        yield made


@pytest.fixture(scope="package")
def writing(scene):
    """The page started with --write."""
    with PageProcess(scene, "--write", "--interval", "0.2s") as page:
        yield page


@pytest.fixture(scope="package")
def reading(scene):
    """The page as it is without --write."""
    with PageProcess(scene, "--interval", "0.2s") as page:
        yield page


@pytest.fixture(scope="package")
def browser():
    """
    Start a headless Chromium.

    While Playwright runs, an event loop runs in this thread, which must be over before another folder's tests begin.
    """
    program = find_browser()
    if program is None:
        pytest.fail("no browser: .ci/set-up brings one on Linux on x86, elsewhere install Chromium or Chrome")
    expect.set_options(timeout=LONGEST_WAIT_MS)
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield running
        running.close()


class Sheet:
    """A tab of the browser that fails its test for every error of a script and every refused resource."""

    def __init__(self, page):
        self.page = page
        self.errors = []
        page.set_default_timeout(LONGEST_WAIT_MS)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._note)

    def _note(self, message):
        # An answer that says no is told by the page; what a script does wrong, or what the policy forbids, is not.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.errors.append(message.text)


@pytest.fixture
def tab(browser):
    """A tab of its own for each test."""
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    sheet = Sheet(context.new_page())
    yield sheet.page
    context.close()
    assert sheet.errors == []
