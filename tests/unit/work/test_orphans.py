"""Processes that handlers leave behind, where the command is process 1."""

import subprocess
import sys

import pytest

AS_PROCESS_1 = """
import ctypes, os, subprocess, sys, time
from pathlib import Path

from lanes.work.supervisor import collect_orphans

own, ADOPTS = str(os.getpid()), 36  # PR_SET_CHILD_SUBREAPER: the parent of every orphan, as process 1 is
ctypes.CDLL(None).prctl(ADOPTS, 1, 0, 0, 0)

def ended():
    found = [path.read_text().rpartition(")")[2].split() for path in Path("/proc").glob("[0-9]*/stat")]
    return sum(fields[:2] == ["Z", own] for fields in found)

slot = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
for _ in range(5):
    subprocess.run(["sh", "-c", ": & exec sh -c :"], check=True)
while ended() < 6:
    time.sleep(0.02)
collect_orphans([slot.pid])
assert ended() == 6, "only process 1 collects"
os.getpid = lambda: 1
while ended() > 1:
    collect_orphans([slot.pid])
    slot.poll() if ended() == 6 else None
assert slot.wait() == 3
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has containers and this call")
def test_process_1_collects_orphans_and_leaves_the_exit_codes_of_slots():
    """Otherwise each message of a handler that starts programs could leave an entry in the table of processes."""
    done = subprocess.run(
        [sys.executable, "-c", AS_PROCESS_1], capture_output=True, text=True, check=False, timeout=60
    )

    assert (done.returncode, done.stderr) == (0, "")
