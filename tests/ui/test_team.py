"""`lanes ui --serve`: a page for a team behind a login, its roles and stacks, and all that it refuses."""

import json
import socket

import pytest
from playwright.sync_api import expect

from tests.support.command import Typed
from tests.support.operating import STACK
from tests.support.page import PageProcess

SECRET = "0123456789abcdef0123456789abcdef"
OTHER = "PriorityLanes-other"


@pytest.fixture(scope="module")
def team(scene):
    """The page of a team: olga makes changes, all others read; two stacks."""
    scene.client("ssm").put_parameter(
        Name=f"/lanes/{OTHER}", Value=scene.deployment.to_json(), Type="String", Overwrite=True
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    arguments = ("--serve", url, "--port", str(port), "--operator", "olga", "--also", OTHER)
    page = PageProcess(scene, *arguments, "--interval", "0.2s")
    page.variables["LANES_UI_SECRET"] = SECRET
    with page:
        assert page.announced == {"url": url, "port": port, "write": False}
        yield page


def through_proxy(user, **changed):
    """Give the headers of a request that the proxy passes on."""
    return {"X-Lanes-Proxy-Secret": SECRET, "X-Forwarded-User": user, **changed}


def ask(page, name, fields=None, *, user, **changed):
    """Ask as a script of the page does, through the proxy."""
    headers = {"Origin": page.base, **through_proxy(user, **changed)}
    answer, body = page.request("POST", f"/api/{name}", json.dumps(fields or {}), **headers)
    return answer.status, json.loads(body)


def test_every_request_needs_the_secret_and_a_user(team):
    """Also the files of the page; the printed address opens nothing by itself."""
    for path in ("/", "/main.js"):
        assert team.request("GET", path)[0].status == 403
        assert team.request("GET", path, **through_proxy(""))[0].status == 401
        assert team.request("GET", path, **through_proxy("rita"))[0].status == 200
    assert ask(team, "target", user="rita", **{"X-Lanes-Proxy-Secret": "wrong"})[0] == 403
    assert ask(team, "target", user="")[0] == 401
    assert ask(team, "target", user="rita")[0] == 200


def test_another_site_cannot_use_the_login_of_a_user(team):
    """The proxy's cookie goes along with requests from everywhere."""
    assert ask(team, "plan", user="olga", Origin="https://evil.example")[0] == 403
    assert ask(team, "plan", user="olga", Origin="")[0] == 403
    assert ask(team, "plan", user="olga", **{"Sec-Fetch-Site": "cross-site"})[0] == 403
    assert ask(team, "plan", user="olga", **{"Content-Type": "text/plain"})[0] == 415


def test_a_user_who_is_no_operator_only_reads(scene, team):
    """Each route of a change refuses."""
    fields = {"change": "pause", "lane": "HIGH"}

    assert ask(team, "target", user="rita")[1]["writes"] is False
    assert ask(team, "lanes", user="rita")[0] == 200
    for name in ("plan", "start", "stop", "job", "jobs"):
        assert ask(team, name, fields, user="rita")[0] == 403, name
    assert set(scene.mapping_states().values()) == {"Enabled"}


def test_the_audit_trail_names_the_user_who_made_a_change(scene, team):
    """Behind the name of the role with which the page calls AWS, also from the thread of a job."""
    scene.write("team.parcel", 1, priority=-100)
    wanted = {"change": "prioritize", "kind": "team.parcel", "priority": "50", "in": "both"}
    status, planned = ask(team, "plan", wanted, user="olga")
    assert status == 200, planned

    job = ask(team, "start", {"plan": planned["plan"]}, user="olga")[1]
    while job["state"] == "running":
        job = ask(team, "job", {"id": job["id"]}, user="olga")[1]

    assert job["state"] == "done", job
    audit = ask(team, "audit", {"limit": 5}, user="rita")[1]
    assert audit["changes"][0]["who"].endswith(" for olga")
    assert audit["outbox"][0]["who"].endswith(" for olga")
    override = ask(team, "overrides", user="rita")[1]["overrides"][0]
    assert override["who"].endswith(" for olga")
    scene.client("dynamodb").delete_item(TableName=scene.deployment.table, Key={"pk": {"S": "overrides"}})


def test_stacks_are_switched_on_one_page(team, tab):
    """The address keeps the choice; a stack that the page was not started for has no answers."""
    tab.set_extra_http_headers(through_proxy("rita"))
    tab.goto(f"{team.base}/#audit")
    switch = tab.get_by_label("Stack")
    expect(switch).to_have_value(STACK)

    switch.select_option(OTHER)

    expect(tab).to_have_title(f"{OTHER} · Priority Lanes")
    expect(tab.locator("#audit-title")).to_be_visible()
    expect(tab.locator("#mode")).to_have_text("read-only")
    assert tab.url == f"{team.base}/?stack={OTHER}#audit"
    assert ask(team, "target?stack=Unknown", user="rita")[0] == 404


@pytest.mark.parametrize(
    ("arguments", "secret", "said"),
    [
        (("--host", "10.0.0.7"), SECRET, "not a loopback address"),
        (("--serve", "https://lanes.example.com"), "", "LANES_UI_SECRET has 0 characters"),
        (("--serve", "https://lanes.example.com"), SECRET[:-1], "LANES_UI_SECRET has 31 characters"),
        (("--serve", "http://lanes.example.com"), SECRET, "no encryption"),
        (("--serve", "lanes.example.com"), SECRET, "not the address of a site"),
        (("--serve", "https://lanes.example.com/page"), SECRET, "not the address of a site"),
        (("--serve", "https://lanes.example.com", "--write"), SECRET, "--operator"),
        (("--serve", "https://lanes.example.com", "--host", "lanes"), SECRET, "not an IP address"),
        (("--operator", "olga"), SECRET, "--serve"),
    ],
    ids=str,
)
def test_it_does_not_start_without_protection(writing, arguments, secret, said):
    """Wrong usage: nothing was served."""
    typed = Typed()
    typed.variables = {**writing.variables, "LANES_UI_SECRET": secret}

    done = typed("ui", *arguments)

    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
    assert done.stdout == ""
