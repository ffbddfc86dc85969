"""The demo as a user starts it: a whole small one, and one that is interrupted."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from local.demo import __main__ as command
from tests.support.waiting import descendants, name_of, wait_for_end

ROOT = Path(__file__).parents[2]
SMALL = ("--customers", "200")


def start_demo(output, *options):
    """Start it in a session of its own, with its lines readable."""
    return subprocess.Popen(
        [sys.executable, "-u", "-m", "local.demo", "--output", str(output), *options],
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


@pytest.fixture
def started(monkeypatch):
    """Collect demos that are started in this process, whose signals and variables stay as they are."""
    found = []
    monkeypatch.setattr(command, "interrupt_once", lambda: None)
    monkeypatch.setattr(command, "Demo", lambda *_args, **_options: found.append(1))
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.setenv(name, os.environ[name])
    return found


@pytest.mark.deep
def test_a_small_demo_keeps_its_promises_and_says_so_in_its_report(tmp_path):
    """Real deploy, real Spark job, real processes; safety is judged in each run, at any size and on any machine."""
    with start_demo(tmp_path, *SMALL) as process:
        output, errors = process.communicate()

    report = json.loads((tmp_path / "report.json").read_text())
    broken = {(one["figure"], one["run"]) for one in report["promises"] if one["verdict"] == "BROKEN"}
    # A machine that is busy with other things makes waits longer; nothing else may be broken.
    assert {figure for figure, _ in broken} <= {"wait_beyond_seconds", "inversions"}, errors
    assert (process.returncode == 0) == (not broken) == report["passed"]
    assert (tmp_path / "report.html").read_text(encoding="utf-8").count("<svg ") == 1
    for name, run in report["runs"].items():
        main, high = run["lanes"]["MAIN"], run["lanes"]["HIGH"]
        assert (main["sent"], main["dead_letters"], high["dead_letters"]) == (200, 1, 1)
        assert (main["yields"] > 0) == (name == "mappings")
        assert main["receives"] > 200
    assert "MAIN dead letters" in output
    assert f"Report: {tmp_path / 'report.html'}" in output
    assert errors.count("BROKEN: ") == len(broken)


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
    """With the command of the CDK."""
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
    with start_demo(tmp_path, *SMALL) as process:
        wait_for_line(process, "customers drain")
        wait_for_line(process, "done;")
        interrupt(process, signal.SIGTERM)


@pytest.mark.parametrize(
    ("customers", "words"), [("many", "invalid int value: 'many'"), ("99", "99 is less than 100")]
)
def test_a_wrong_size_is_refused_with_the_allowed_one(customers, words, tmp_path, capsys):
    """Before anything starts."""
    with pytest.raises(SystemExit) as ended:
        command.main(["--customers", customers, "--output", str(tmp_path)])

    assert ended.value.code == 2
    assert words in capsys.readouterr().err


def test_a_second_demo_keeps_out_of_the_folder_of_the_first(tmp_path, capsys, started):
    """It says what to do."""
    with (tmp_path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)

        assert command.main(["--output", str(tmp_path)]) == 1

    assert "another demo is writing to" in capsys.readouterr().err
    assert not started


def test_handlers_in_place_of_the_sample_are_refused_before_anything_starts(
    tmp_path, monkeypatch, capsys, started
):
    """The demo would wait in vain for what the sample prints."""
    handler = tmp_path / "lambdas" / "consumer" / "handler.py"
    handler.parent.mkdir(parents=True)
    handler.write_text('@consumer.handler("order.placed")\n')
    monkeypatch.setattr(command, "ROOT", tmp_path)

    assert command.main(["--output", str(tmp_path / "out")]) == 1

    said = capsys.readouterr().err
    assert said.startswith(
        f"local demo: {handler} is not the sample application: it knows no customer.loyalty_tier"
    )
    assert said.endswith(f"git checkout -- {handler}\n")
    assert not started


def test_the_sample_is_taken_for_the_sample():
    """As it stands in this repository."""
    command.check_sample(ROOT / "lambdas" / "consumer" / "handler.py")
