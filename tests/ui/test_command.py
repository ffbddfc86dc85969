"""`lanes ui` as a process: its address, its end, and what it refuses to start with."""

import subprocess
import sys

import pytest

from lanes.outbox import SqlOutbox
from tests.support.operating import put_dead_letters
from tests.support.outbox import SqlSubject
from tests.support.page import ROOT, PageProcess
from tests.support.waiting import until


@pytest.fixture
def refused(writing):
    """Run the command to its end and give what it said; it must end by itself."""

    def run(*arguments, before=()):
        return subprocess.run(
            [sys.executable, "-m", "lanes", *before, "ui", *arguments],
            cwd=ROOT,
            env=writing.variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    return run


@pytest.mark.deep
def test_ctrl_c_ends_it_and_stops_what_it_was_doing(scene):
    """Status 130 as for other verbs; a redrive gives back what it held and its entry says interrupted."""
    sqs = scene.client("sqs")
    put_dead_letters(sqs, scene.deployment, "HIGH", 600, groups=300, kind="interrupted.redrive")
    dead = scene.deployment.queues["HIGH"].dead_letter_url
    with PageProcess(scene, "--write") as page:
        fields = {"change": "redrive", "lane": "HIGH", "kind": "interrupted.redrive"}
        job = page.ask("start", {"plan": page.ask("plan", fields)[1]["plan"]})[1]
        until(lambda: page.ask("job", {"id": job["id"]})[1]["done"])
        assert page.announced == {"url": page.url, "port": page.announced["port"], "write": True}

        status, talk = page.end()

    assert status == 130, talk
    assert "Traceback" not in talk
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    left = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=names)["Attributes"]
    assert (left[names[0]] != "0", left[names[1]]) == (True, "0")
    with PageProcess(scene) as later:
        entry = later.ask("audit", {"limit": 1})[1]["changes"][0]
    assert (entry["action"], entry["outcome"]) == ("dead-letters redrive", "interrupted")
    assert entry["details"]["done"] > 0
    scene.empty("HIGH")


def test_the_page_is_opened_in_the_browser_that_the_user_has_chosen(scene, tmp_path, monkeypatch):
    """At the address with the token."""
    opened, program = tmp_path / "opened", tmp_path / "browser"
    program.write_text(f'#!/bin/sh\nprintf %s "$1" >{opened}.part && mv {opened}.part {opened}\n')
    program.chmod(0o755)
    monkeypatch.setenv("BROWSER", f"{program} %s")

    with PageProcess(scene, "--open") as page:
        assert page.ask("lanes")[0] == 200
        assert opened.read_text() == page.url


def test_the_page_works_with_an_outbox_in_a_sql_database(scene, tmp_path):
    """Read and changed by the same threads that serve DynamoDB's."""
    url = f"sqlite:///{tmp_path / 'app.db'}"
    subject = SqlSubject(url)
    outbox = SqlOutbox(config=scene.deployment.config, source="shop")
    subject.write(*(outbox.prepare("mail.sent", n, id=f"mail-{n}", priority=-100) for n in range(3)))
    subject.engine.dispose()

    with PageProcess(scene, "--write", "--database", url) as page:
        place = page.ask("target")[1]
        change = {"change": "prioritize", "priority": 60, "kind": "mail.*", "in": "outbox"}
        job = page.ask("start", {"plan": page.ask("plan", change)[1]["plan"]})[1]
        until(lambda: page.ask("job", {"id": job["id"]})[1]["state"] != "running")
        entries = page.ask("entries")[1]["entries"]
        counts = page.ask("outbox")[1]["counts"]

    assert "app.db" in place["outbox"]
    assert {(one["id"], one["lane"]) for one in entries} == {(f"mail-{n}", "HIGH") for n in range(3)}
    assert counts == {"PENDING": 3}


def test_without_its_packages_the_command_says_what_to_install(writing):
    """Other verbs do without them."""
    code = "import sys; sys.modules['starlette'] = None; sys.argv[1:] = ['ui']; from lanes.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=writing.variables,
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.returncode, done.stdout) == (1, "")
    assert "priority-lanes[ui]" in done.stderr


def test_a_stack_that_is_not_there_is_said_before_anything_is_served(refused):
    """As other verbs say it."""
    done = refused(before=("--stack", "Another"))

    assert (done.returncode, done.stdout) == (1, "")
    assert "/lanes/Another" in done.stderr


def test_what_goes_wrong_has_words_and_no_traceback(writing):
    """For each kind of wrong request."""
    asked = [
        writing.ask("dead_letters", {"lane": "NOWHERE"}),
        writing.ask("plan", {"change": "explode"}),
        writing.ask("plan", {"change": "delete", "lane": "HIGH"}),
        writing.ask("start", {"plan": "made up"}),
        writing.ask("job", {"id": "made up"}),
        writing.ask("entry", {"id": "nobody"}),
        writing.ask("entries", {"states": ["LOST"]}),
        writing.ask("dead_letters", {"lane": "HIGH", "since": "yesterday"}),
    ]
    answer, body = writing.request("POST", "/api/nothing", "{}", **{"X-Lanes-Token": writing.token})

    assert [status for status, _ in asked] == [400] * len(asked)
    assert all(said["title"] for _, said in asked)
    assert "no dead letters are selected" in asked[2][1]["title"]
    assert answer.status == 404
    assert b"Traceback" not in body
