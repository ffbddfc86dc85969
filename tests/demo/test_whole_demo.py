"""The demo as a user starts it: a whole small one, and one that is interrupted."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import descendants, still_running

ROOT = Path(__file__).parents[2]
SMALL = ("--customers", "200")
# A loaded machine takes several times as long as an idle one.
pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("demo")]


def start_demo(output, *options):
    """Start it in a session of its own, with its lines readable."""
    return subprocess.Popen(
        [sys.executable, "-u", "-m", "local", "demo", "--output", str(output), *options],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for_line(process, words):
    """Read its output until a line has these words."""
    for line in process.stdout:
        if words in line:
            return
    pytest.fail(f"the demo ended before it said {words!r}: {process.stderr.read()}")


def test_a_small_demo_keeps_its_promises_and_says_so_in_its_report(tmp_path):
    """Real deploy, real Spark job, real processes; safety is judged at any size and on any machine."""
    with start_demo(tmp_path, *SMALL, "--no-comparison") as process:
        output, errors = process.communicate()

    report = json.loads((tmp_path / "report.json").read_text())
    broken = {promise["name"] for promise in report["promises"] if promise["kept"] is False}
    # A machine that is busy with other things makes waits and imports longer; nothing else may be broken.
    assert broken <= {"high_wait_p99_seconds", "inversions", "cold_import_milliseconds"}, errors
    assert (process.returncode == 0) == (not broken) == report["passed"]
    assert report["customers"] == 200
    assert report["lanes"]["MAIN"]["sent"] == 200
    assert report["poison_dead_lettered"] == report["poison_sent"] == 3
    assert report["lanes"]["MAIN"]["yields"] > 0
    assert report["least_backlog_at_live_send"] >= 10
    assert f"Report: {tmp_path / 'report.html'}" in output
    assert (tmp_path / "timeline.png").read_bytes().startswith(b"\x89PNG")
    assert all(f"BROKEN: {name}" in errors for name in broken)


@pytest.mark.parametrize(
    ("phase", "number"),
    [("Spark starts", signal.SIGINT), ("customers drain", signal.SIGTERM)],
)
def test_an_interrupted_demo_leaves_nothing_running(tmp_path, phase, number):
    """Neither deploy nor Java, neither server nor execution environments."""
    with start_demo(tmp_path, *SMALL) as process:
        wait_for_line(process, phase)
        if phase == "customers drain":
            wait_for_line(process, "done;")
        started = descendants(process.pid)
        os.kill(process.pid, number)
        _, errors = process.communicate()

    assert process.returncode == 130
    assert errors == "local demo: interrupted; everything it started has ended\n"
    assert not still_running(started, within=5)
