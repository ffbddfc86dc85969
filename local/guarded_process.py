"""
A command that ends with its owner, however the owner ends: `python guarded_process.py <command> ...`.

Runs by path. Standard input is the owner's end of a pipe; when it closes, the whole process group is killed.
"""

import os
import signal
import subprocess
import sys
import threading


def _end_with_owner() -> None:
    while os.read(0, 64):
        pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    # The command gets no end of the pipe, so a process that it leaves behind does not keep it open.
    process = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    threading.Thread(target=_end_with_owner, daemon=True).start()
    sys.exit(process.wait())
