"""Pages are executed: their commands in order and their blocks in the named files, in an app that `lanes new` made."""

import os
import pty
import re
import shlex
import subprocess
import sys
from collections import Counter

import pytest

from tests.docs.pages import FOLLOWED, steps, target
from tests.support.command import ROOT, UV, line_with, run
from tests.support.waiting import until

pytestmark = [pytest.mark.deep, pytest.mark.timeout(400)]

CHANGE = re.compile(r"Change\s+`([^`]+)`\s+in\s+`([^`]+)`\s+to\s+`([^`]+)`")
BEGUN = re.compile(
    r"python3 -m venv|\S*pip install '/path/to/priority-lanes\[local\]'|\S*lanes (new shop|local up)|\. "
)
"""Commands that the fixture has run."""
ELSEWHERE = re.compile(r"make |lanes cdk|lanes bulk|\S*pip install|aws |lanes local up --output")
"""Commands that need a checkout, an account or another folder."""


class App:
    """An app from the wheel that runs on this machine, and a reader who follows pages in it."""

    def __init__(self, folder, environment):
        self.folder = folder
        self.bin = folder.parent / ".venv" / "bin"
        self.environment = environment | {"PATH": f"{self.bin}:{os.environ['PATH']}"}
        self.printed = []
        self.done, self.left_out = Counter(), Counter()
        self.up = subprocess.Popen(
            [self.bin / "lanes", "local", "up"],
            cwd=folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        line_with("Stop with Ctrl-C.", self.up)
        shown = run([self.bin / "lanes", "local", "run", "env"], cwd=folder, environment=self.environment)
        pairs = (line.partition("=") for line in shown.splitlines())
        self.addresses = {name: value for name, _, value in pairs if name.startswith(("AWS_", "LANES_"))}

    def follow(self, page):
        """Do what a page says, in the order of its sections in `FOLLOWED`; return all that its commands printed."""
        # The README has not been inside the app's folder yet.
        place = self.folder.parent if page == "README.md" else self.folder
        self.printed = []
        for heading in FOLLOWED[page]:
            for said, language, block in steps(ROOT / page, heading):
                self._change(page, said)
                if language == "sh":
                    for line in block.splitlines():
                        self._type(page, line, place)
                elif block and (found := target(said)):
                    name, added = found
                    self._paste(page, place / name, block, added=added)
        return "".join(text for _, text in self.printed)

    def _change(self, page, said):
        for old, name, new in CHANGE.findall(said):
            file = self.folder / name
            assert old in file.read_text()
            file.write_text(file.read_text().replace(old, new))
            line_with("live in ", self.up)
            self.done[page] += 1

    def _paste(self, page, file, block, *, added):
        file.write_text(f"{file.read_text()}\n\n{block}" if added and file.exists() else block)
        if file.name == "lanes.toml":
            line_with("deployed in ", self.up)
        elif file.parent.name == "function":
            line_with("live in ", self.up)
        self.done[page] += 1

    def _type(self, page, line, place):
        """Run a command in a terminal, and answer its question with yes; ID is the one that a list has shown."""
        begun = BEGUN.match(line)
        if not begun and ELSEWHERE.match(line):
            self.left_out[page] += 1
            return
        self.done[page] += 1
        if begun:
            return
        shown = re.findall(
            r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b", "".join(said for typed, said in self.printed if "list" in typed)
        )
        words = [shown[-1] if word == "ID" else word for word in shlex.split(line)]
        if "tail" in words:
            words += ["--times", "1"]  # else it runs until Ctrl-C
        # The other pages are for AWS.
        here = {} if "local run" in line else self.addresses
        master, terminal = pty.openpty()
        with os.fdopen(master, "wb", buffering=0) as keyboard:
            keyboard.write(b"y\n")
            done = subprocess.run(
                words,
                cwd=place,
                env=self.environment | here,
                stdin=terminal,
                capture_output=True,
                text=True,
                check=False,
            )
            os.close(terminal)
        said = done.stdout + done.stderr
        self.printed.append((line, said))
        assert done.returncode == 0, (page, line, said)

    def shows(self, *texts):
        """Wait until the function has printed lines."""
        logs = self.folder / "build" / "local" / "logs"
        until(
            lambda: all(any(text in log.read_text() for log in logs.glob("*Consumer*.log")) for text in texts)
        )


@pytest.fixture(scope="module")
def app(release, environment, tmp_path_factory):
    """Make an app with the wheel and run it, in a folder with a space in its name."""
    (wheel,) = release.glob("*.whl")
    folder = tmp_path_factory.mktemp("my tutorial")
    run([UV, "venv", "--quiet", "--python", sys.executable, ".venv"], cwd=folder, environment=environment)
    install = [UV, "pip", "install", "--quiet", "--python", folder / ".venv" / "bin" / "python"]
    run([*install, f"priority-lanes[local] @ {wheel.as_uri()}"], cwd=folder, environment=environment)
    run([folder / ".venv" / "bin" / "lanes", "new", "shop"], cwd=folder, environment=environment)
    made = App(folder / "shop", environment | {"PYTHONDONTWRITEBYTECODE": "1"})
    yield made
    made.up.terminate()
    made.up.communicate()
    assert made.up.returncode == 0


def test_readme_and_quickstart_do_what_they_say(app):
    """From an empty folder to a dead letter that goes back, and its trace; then the app's own test."""
    app.follow("README.md")
    app.shows("shipping order 7", "shipping order 8")
    app.follow("docs/quickstart.md")

    app.shows("shipping order seven")
    said = dict(app.printed)
    assert "data.order" in said["lanes local run lanes dead-letters list"]
    question = "redrive these 1 in MEDIUM of shop? [y/N]:"
    assert question in said["lanes local run lanes dead-letters redrive MEDIUM"]
    assert question in (ROOT / "docs" / "quickstart.md").read_text()
    assert "now  done" in said["lanes local run lanes trace ID"]
    assert "1 passed" in said["python -m pytest"]


def test_the_first_steps_of_the_outbox_do_what_they_say(app):
    """The relay comes with the library; the message that the program wrote is handled."""
    app.follow("docs/how-to/outbox.md")

    app.shows("shipping order 9")


def test_schedules_do_what_their_page_says(app):
    """A periodic message is sent by hand, and one for tomorrow too."""
    app.follow("docs/how-to/schedules.md")

    app.shows("syncing the stock of", "shipping order 10")


def test_handlers_and_their_tests_do_what_their_pages_say(app):
    """What is sent on is handled, by code with an import that it had not before; the tests pass."""
    app.follow("docs/how-to/handlers.md")
    said = app.follow("docs/how-to/test-your-code.md")

    app.shows("the receipt of order 7", "booked 5", "refunding 2.5", "rebuilding page 2")
    assert "6 passed" in said


def test_messages_are_sent_as_their_pages_say(app):
    """One, many, and from the terminal."""
    app.follow("docs/how-to/send.md")
    app.follow("docs/how-to/run-locally.md")

    app.shows("shipping order 124")


def test_a_run_ends_as_its_page_says(app):
    """With a report."""
    app.follow("docs/how-to/follow-a-run.md")

    app.shows("statements-2026-11: 3 of 3 sent, 0 failed")


def test_a_plan_has_the_figures_of_its_page(app):
    """In a table that the page quotes."""
    said = app.follow("docs/how-to/plan.md")

    (quoted,) = (
        line for line in (ROOT / "docs" / "how-to" / "plan.md").read_text().splitlines() if "| ours" in line
    )
    (shown,) = (line for line in said.splitlines() if line.startswith("│ ours"))
    assert [cell.strip() for cell in quoted.split("|")] == [cell.strip() for cell in shown.split("│")]


def test_a_resource_that_is_away_is_shown_as_its_page_says(app):
    """In the status too. All steps of all pages are counted here, since this page replaces the handlers."""
    app.follow("docs/how-to/resource-away.md")

    lanes = [app.bin / "lanes", "local", "run", "lanes"]
    until(lambda: "bank away since" in run([*lanes, "status"], cwd=app.folder, environment=app.environment))
    assert set(app.done) == set(FOLLOWED)


def test_every_step_of_the_pages_was_taken(app, capsys):
    """Those that this environment can't take are few: a checkout's, an account's."""
    with capsys.disabled():
        for page in FOLLOWED:
            sys.stdout.write(
                f"\n{page}: {app.done[page]} steps done, {app.left_out[page]} need more than a new app"
            )
        sys.stdout.write(f"\n{sum(app.done.values())} steps did what their pages say\n")
    assert sum(app.done.values()) >= 63
