"""
The first lines of an execution environment's process: hold on to its owner, then become `awslambdaric`.

Runs by path with the interpreter's own packages and the function's code, without this project on the path:
`python -P runtime_process.py <lifeline descriptor> <handler>`.
"""

import _thread
import os
import runpy
import sys


def _end_with_owner(lifeline: int) -> None:
    """Wait for the other end of the lifeline to close, which happens however the owner ends."""
    try:
        while os.read(lifeline, 64):
            pass
    except OSError:
        pass
    os._exit(70)


if __name__ == "__main__":
    descriptor = int(sys.argv[1])
    # Processes that a handler starts must not keep the lifeline open after this one.
    os.set_inheritable(descriptor, False)
    # Not a threading.Thread: a handler that counts its threads finds those of AWS alone.
    _thread.start_new_thread(_end_with_owner, (descriptor,))
    sys.argv = ["awslambdaric", sys.argv[2]]
    runpy.run_module("awslambdaric", run_name="__main__", alter_sys=True)
