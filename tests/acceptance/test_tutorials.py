"""Pages are executed: their commands in order and their blocks in the named files, in an app that `lanes new` made."""

import os
import pty
import re
import shlex
import subprocess
import sys

import pytest

from tests.docs.pages import FENCE
from tests.support.command import ROOT, UV, line_with, run
from tests.support.waiting import until

pytestmark = [pytest.mark.deep, pytest.mark.timeout(400)]

NAMED = re.compile(r"`([\w./-]+\.(?:py|toml))`")
CHANGE = re.compile(r"Change\s+`([^`]+)`\s+in\s+`([^`]+)`\s+to\s+`([^`]+)`")
ELSEWHERE = re.compile(r"python3 -m venv|\S*pip install|\S*lanes new|\S*lanes local up|\. |make |lanes cdk")
"""Commands that the fixture has run, or that need a checkout or an account."""


class App:
    """An app from the wheel that runs on this machine, and a reader who follows pages in it."""

    def __init__(self, folder, environment):
        self.folder = folder
        self.bin = folder.parent / ".venv" / "bin"
        self.environment = environment | {"PATH": f"{self.bin}:{os.environ['PATH']}"}
        self.printed = []
        self.up = subprocess.Popen(
            [self.bin / "lanes", "local", "up"],
            cwd=folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        line_with("Stop with Ctrl-C.", self.up)

    def follow(self, page, *headings):
        """Do what the sections of a page say."""
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        for heading in headings:
            section = re.split(
                r"^## ", text.partition(f"\n## {heading}\n")[2], maxsplit=1, flags=re.MULTILINE
            )[0]
            before = 0
            for found in FENCE.finditer(section):
                self._read(section[before : found.start()])
                self._do(found[1], found[2], section[before : found.start()])
                before = found.end()
            self._read(section[before:])

    def _read(self, prose):
        for old, name, new in CHANGE.findall(prose):
            file = self.folder / name
            assert old in file.read_text()
            file.write_text(file.read_text().replace(old, new))
            line_with("live in ", self.up)

    def _do(self, kind, block, prose):
        if kind == "sh":
            for line in block.splitlines():
                if not ELSEWHERE.match(line):
                    self._type(line)
        elif kind in ("toml", "python") and (names := NAMED.findall(prose)):
            file = self.folder / names[0]
            if not file.exists():
                file.write_text(block)
            # Python of a file that is there is quoted from it.
            elif kind == "toml":
                file.write_text(f"{file.read_text()}\n{block}")
                line_with("deployed in ", self.up)

    def _type(self, line):
        """Run a command in a terminal, and answer its question with yes; ID is the one that a list has shown."""
        shown = re.findall(
            r"\b[0-9a-f]{8}-[0-9a-f-]{27}\b", "".join(said for typed, said in self.printed if "list" in typed)
        )
        words = [shown[-1] if word == "ID" else word for word in shlex.split(line)]
        if "tail" in words:
            words += ["--times", "1"]  # else it runs until Ctrl-C
        master, terminal = pty.openpty()
        with os.fdopen(master, "wb", buffering=0) as keyboard:
            keyboard.write(b"y\n")
            done = subprocess.run(
                words,
                cwd=self.folder,
                env=self.environment,
                stdin=terminal,
                capture_output=True,
                text=True,
                check=False,
            )
            os.close(terminal)
        said = done.stdout + done.stderr
        self.printed.append((line, said))
        assert done.returncode == 0, (line, said)

    def shows(self, text):
        """Wait until the function has printed a line."""
        logs = self.folder / "build" / "local" / "logs"
        until(lambda: any(text in log.read_text() for log in logs.glob("*Consumer*.log")))


@pytest.fixture(scope="module")
def app(release, environment, tmp_path_factory):
    """Make an app with the wheel and run it."""
    (wheel,) = release.glob("*.whl")
    folder = tmp_path_factory.mktemp("tutorial")
    run([UV, "venv", "--quiet", "--python", sys.executable, ".venv"], cwd=folder, environment=environment)
    install = [UV, "pip", "install", "--quiet", "--python", folder / ".venv" / "bin" / "python"]
    run([*install, f"priority-lanes[local] @ {wheel.as_uri()}"], cwd=folder, environment=environment)
    run([folder / ".venv" / "bin" / "lanes", "new", "shop"], cwd=folder, environment=environment)
    made = App(folder / "shop", environment)
    yield made
    made.up.terminate()
    made.up.communicate()


def test_the_quickstart_does_what_it_says(app):
    """From the first message to a dead letter that goes back, and its trace; then the app's own test."""
    app.follow("quickstart.md", "An app of your own", "The handler", "A test")

    app.shows("shipping order 8")
    app.shows("shipping order seven")
    said = dict(app.printed)
    assert "data.order" in said["lanes local run lanes dead-letters list"]
    question = "redrive these 1 in MEDIUM of shop? [y/N]:"
    assert question in said["lanes local run lanes dead-letters redrive MEDIUM"]
    assert question in (ROOT / "docs" / "quickstart.md").read_text()
    assert "now  done" in said["lanes local run lanes trace ID"]
    app.environment |= {"PYTHONDONTWRITEBYTECODE": "1"}
    run([app.bin / "python", "-m", "pytest", "-q"], cwd=app.folder, environment=app.environment)


def test_the_first_steps_of_the_outbox_do_what_they_say(app):
    """The relay comes with the library; the message that the program wrote is handled."""
    app.follow("how-to/outbox.md", "First steps with DynamoDB")

    app.shows("shipping order 9")
