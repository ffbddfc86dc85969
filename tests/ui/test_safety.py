"""Who can use the page: its own scripts with its token, on this machine, and only to look unless told otherwise."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from playwright.sync_api import expect

CHANGE = {"change": "pause", "lane": "HIGH"}


class OtherSite(BaseHTTPRequestHandler):
    """A page of somebody else."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<!doctype html><p>other")

    def log_message(self, *_details):
        pass


@pytest.fixture
def other_site():
    """Another site, on this machine too, so that the browser lets it send here."""
    with ThreadingHTTPServer(("127.0.0.1", 0), OtherSite) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://localhost:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_read_only_offers_no_change(reading, tab):
    """No button in any view."""
    tab.goto(reading.url)
    expect(tab.locator("#mode")).to_have_text("read-only")
    expect(tab.locator("tr[data-lane]")).to_have_count(3)

    assert tab.locator("tr[data-lane] button").count() == 0
    tab.goto(f"{reading.base}#dead-letters?lane=HIGH")
    expect(tab.locator("#found")).not_to_contain_text("Loading")
    assert tab.locator(".actions button, td.box").count() == 0
    tab.goto(f"{reading.base}#outbox")
    expect(tab.locator("#entries-title")).to_be_visible()
    assert tab.locator(".actions button").count() == 0
    tab.goto(f"{reading.base}#move")
    expect(tab.locator("#overrides-title")).to_be_visible()
    expect(tab.get_by_text("No override is active.")).to_be_visible()
    assert tab.locator("main form, main button").count() == 0


@pytest.mark.parametrize("route", ["plan", "start", "job", "jobs", "stop"])
def test_read_only_accepts_no_change(reading, scene, route):
    """Whoever sends one, with the token and all."""
    status, said = reading.ask(route, CHANGE)

    assert (status, said["title"]) == (403, "This page is read-only")
    assert set(scene.mapping_states().values()) == {"Enabled"}


def test_requests_that_are_not_the_pages_own_are_refused(writing):
    """One thing wrong is enough; the guard's own tests have each of them."""
    own = {"Origin": writing.base.rstrip("/"), "Sec-Fetch-Site": "same-origin"}

    for wrong, status in (
        ({"X-Lanes-Token": "guessed"}, 401),
        ({"Origin": "http://evil.example"}, 403),
        ({}, 200),
    ):
        assert writing.ask("plan", CHANGE, **own | wrong)[0] == status


def test_every_answer_forbids_foreign_scripts_and_frames(writing):
    """Refusals too."""
    for path in ("/", "/main.js", "/api/lanes", "/nothing"):
        answer, _ = writing.request("GET", path)

        policy = answer.getheader("Content-Security-Policy")
        assert "default-src 'none'" in policy, path
        assert "frame-ancestors 'none'" in policy
        assert "unsafe-inline" not in policy
        assert answer.getheader("X-Content-Type-Options") == "nosniff"
        assert answer.getheader("Access-Control-Allow-Origin") is None


def test_a_body_beyond_all_need_is_refused(writing):
    """Before it is read as JSON."""
    body = json.dumps({"change": "x" * 100_000})

    assert writing.request("POST", "/api/plan", body, **{"X-Lanes-Token": writing.token})[0].status == 413


def test_another_site_in_the_same_browser_reaches_nothing(scene, writing, browser, other_site):
    """It may send; it is refused, and can't read why: neither a script's call, nor a form, nor a frame."""
    context = browser.new_context()
    opened, other = context.new_page(), context.new_page()
    opened.goto(writing.url)
    expect(opened.locator("tr[data-lane]")).to_have_count(3)
    other.goto(other_site)
    seen = []
    other.on("response", lambda response: seen.append((response.request.method, response.status)))

    told = other.evaluate(
        """async (base) => {
          const body = JSON.stringify({ change: "pause", lane: "HIGH" });
          const tries = [
            { method: "POST", body, headers: { "Content-Type": "application/json" } },
            { method: "POST", body, mode: "no-cors", headers: { "Content-Type": "text/plain" } },
            { method: "POST", body, credentials: "include" },
          ];
          const answers = await Promise.all(tries.map((one) =>
            fetch(`${base}api/plan`, one).then((answer) => answer.type, () => "failed")));
          const frame = document.createElement("iframe");
          frame.src = base;
          document.body.append(frame);
          await new Promise((resolve) => frame.addEventListener("load", resolve));
          return [...answers, frame.contentDocument === null ? "hidden" : "seen"];
        }""",
        writing.base,
    )

    with other.expect_navigation():
        other.evaluate(
            """(base) => {
              const form = document.createElement("form");
              Object.assign(form, { method: "POST", enctype: "text/plain", action: `${base}api/plan` });
              document.body.append(form);
              form.submit();
            }""",
            writing.base,
        )

    context.close()
    assert told == ["failed", "failed", "failed", "hidden"]
    assert {status for method, status in seen if method == "POST"} == {403}
    assert set(scene.mapping_states().values()) == {"Enabled"}


def test_without_the_token_nothing_is_shown(writing, browser):
    """A colleague on the same machine who knows the port."""
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(writing.base)

    expect(tab.locator(".fault")).to_contain_text("the token is missing")

    assert tab.locator("tr[data-lane]").count() == 0
    context.close()
