"""The demo as a user starts it: a whole small one, and one that is interrupted."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.support.processes import descendants, name_of, wait_for_end

ROOT = Path(__file__).parents[2]
SMALL = ("--customers", "200")


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


@pytest.mark.deep
def test_a_small_demo_keeps_its_promises_and_says_so_in_its_report(tmp_path):
    """Real deploy, real Spark job, real processes; safety is judged in each run, at any size and on any machine."""
    with start_demo(tmp_path, *SMALL) as process:
        output, errors = process.communicate()

    report = json.loads((tmp_path / "report.json").read_text())
    broken = {promise["name"] for promise in report["promises"] if promise["kept"] is False}
    # A machine that is busy with other things makes waits and imports longer; nothing else may be broken.
    slow = {"high_wait_p99_seconds", "inversions"}
    assert broken <= {"cold_import_milliseconds", *slow, *(f"{name}_pull" for name in slow)}, errors
    assert (process.returncode == 0) == (not broken) == report["passed"]
    for run in (report, report["without"], report["pull"]):
        assert run["poison_dead_lettered"] == run["poison_sent"] == 3
    assert report["customers"] == 200
    assert report["lanes"]["MAIN"]["sent"] == 200
    assert report["lanes"]["MAIN"]["yields"] > report["lanes_pull"]["MAIN"]["yields"] == 0
    assert min(report[lanes]["MAIN"]["receives"] for lanes in ("lanes", "lanes_pull")) > 200
    assert report["least_backlog_at_live_send"] >= 10
    assert "MAIN handled" in output
    assert f"Report: {tmp_path / 'report.html'}" in output
    assert "<svg " in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert all(f"BROKEN: {name}" in errors for name in broken)


def wait_for_program(process, name):
    """Wait until it has started a program, directly or through others."""
    pause = threading.Event()
    while process.poll() is None:
        if any(name_of(pid) == name for pid, _ in descendants(process.pid)):
            return
        pause.wait(0.05)
    pytest.fail(f"the demo ended before it started {name}: {process.stderr.read()}")


def interrupt(process, number):
    """Interrupt it, and check that it says so and that nothing it had started goes on."""
    started = descendants(process.pid)
    os.kill(process.pid, number)
    _, errors = process.communicate()

    assert process.returncode == 130
    assert errors == "local demo: interrupted; everything it started has ended\n"
    wait_for_end(started)


@pytest.mark.nightly
def test_ctrl_c_ends_a_deploy_that_has_just_begun(tmp_path):
    """At the moment when the Spark job and the second deploy are being started."""
    with start_demo(tmp_path, *SMALL) as process:
        wait_for_line(process, "stage=demo-off")
        interrupt(process, signal.SIGINT)


@pytest.mark.deep
def test_ctrl_c_ends_spark(tmp_path):
    """With its Java process."""
    with start_demo(tmp_path, *SMALL) as process:
        wait_for_program(process, "java")
        interrupt(process, signal.SIGINT)


@pytest.mark.nightly
def test_sigterm_ends_a_run(tmp_path):
    """With the server and the execution environments."""
    with start_demo(tmp_path, *SMALL, "--no-comparison") as process:
        wait_for_line(process, "customers drain")
        wait_for_line(process, "done;")
        interrupt(process, signal.SIGTERM)
