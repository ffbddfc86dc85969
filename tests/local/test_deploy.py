"""The `cdk` command as a process of its own."""

import subprocess
import sys
from pathlib import Path

from local.deploy import _words_of, run_guarded
from tests.support.waiting import descendants, until, wait_for_end

ROOT = Path(__file__).resolve().parents[2]

# A command that starts another process and waits for it, as `cdk` does with the app.
SLEEPING = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
DEPLOYING = f"""
import sys
from pathlib import Path
from local.deploy import _words_of, run_guarded

command = [sys.executable, "-c", {SLEEPING!r}]
run_guarded(command, cwd=Path("."), environment={{}}, log_path=Path(sys.argv[1]))
"""


def test_a_deploy_that_is_killed_leaves_no_process_behind(tmp_path):
    """SIGKILL can't be caught, so the command and its own processes notice the end of their owner."""
    deploying = subprocess.Popen([sys.executable, "-c", DEPLOYING, str(tmp_path / "log")], cwd=ROOT)
    try:
        until(lambda: len(descendants(deploying.pid)) == 3, why="the command did not start")
        started = descendants(deploying.pid)
    finally:
        deploying.kill()
        deploying.wait()

    wait_for_end(started)


def test_the_status_and_the_output_of_the_command_arrive(tmp_path):
    """Through the process that guards it."""
    command = [sys.executable, "-c", "print('refused'); exit(3)"]

    status = run_guarded(command, cwd=tmp_path, environment={}, log_path=tmp_path / "log")

    assert status == 3
    assert (tmp_path / "log").read_text() == "refused\n"


def test_a_command_that_could_write_no_word_points_to_the_disk(tmp_path):
    """On a full one its log stays empty, and so did the error."""
    (tmp_path / "log").touch()

    assert _words_of(tmp_path / "log", 1).endswith("log is empty: is its disk full?")
