"""
The first lines of an execution environment's process: hold on to its owner, then become `awslambdaric`.

It ends with everything that the handler started, as Lambda ends an environment whole.

Runs by path with the interpreter's own packages and the function's code, without this project on the path:
`python -P runtime_process.py <lifeline descriptor> <handler> [<folder whose files are edited>]`.
"""

import _thread
import contextlib
import importlib.machinery
import os
import runpy
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_ROUNDS = 20


def kill_environment(root: int, *, mark: str) -> None:
    """
    Kill a process, its group, and every process that it started, also those in sessions of their own.

    Without `/proc`, as on macOS, only the group.

    Args:
        root: the first process of the environment, killed last.
        mark: a setting of the environment's variables that no other process has, such as `NAME=value`.
    """
    _kill_started_by(root, mark=mark)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(root, signal.SIGKILL)


def _kill_started_by(root: int, *, mark: str) -> None:
    # A process that is killed may have started another one a moment ago.
    for _ in range(_ROUNDS):
        found = _started_by(root, mark=mark)
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if not found:
            break


def _started_by(root: int, *, mark: str) -> set[int]:
    """Return the living processes below one, and those that inherited its variables, without itself."""
    parents: dict[int, int] = {}
    found: set[int] = set()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            pid = int(folder.name)
            state, parent = (folder / "stat").read_bytes().rpartition(b")")[2].split()[:2]
            if state in {b"Z", b"X"}:
                continue
            parents[pid] = int(parent)
            if mark.encode() in (folder / "environ").read_bytes().split(b"\0"):
                found.add(pid)
    found.add(root)
    while more := {pid for pid, parent in parents.items() if parent in found and pid not in found}:
        found |= more
    return found - {root, os.getpid()}


def _end_with_owner(lifeline: int, mark: str) -> None:
    """Wait for the other end of the lifeline to close, which happens however the owner ends."""
    try:
        while os.read(lifeline, 64):
            pass
    except OSError:
        pass
    kill_environment(os.getpid(), mark=mark)
    os._exit(70)


class _SourceLoader(importlib.machinery.SourceFileLoader):
    """Neither reads nor writes bytecode: within a second, that of an earlier file of the same size would pass."""

    def path_stats(self, path: str) -> Mapping[str, Any]:
        raise OSError(path)


def _read_sources_in(folder: Path) -> None:
    """Import the modules of a folder from their sources alone."""
    machinery = importlib.machinery
    found = machinery.FileFinder.path_hook(
        (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
        (_SourceLoader, machinery.SOURCE_SUFFIXES),
    )

    def hook(path: str) -> Any:
        if not Path(path).is_relative_to(folder):
            raise ImportError(path)
        return found(path)

    sys.path_hooks.insert(0, hook)
    sys.path_importer_cache.clear()


if __name__ == "__main__":
    descriptor = int(sys.argv[1])
    # The address is this environment's alone, and a handler's processes inherit it.
    own_mark = f"AWS_LAMBDA_RUNTIME_API={os.environ['AWS_LAMBDA_RUNTIME_API']}"
    # Processes that a handler starts must not keep the lifeline open after this one.
    os.set_inheritable(descriptor, False)
    # Not a threading.Thread: a handler that counts its threads finds those of AWS alone.
    _thread.start_new_thread(_end_with_owner, (descriptor, own_mark))
    for edited in sys.argv[3:]:
        _read_sources_in(Path(edited))
    sys.argv = ["awslambdaric", sys.argv[2]]
    try:
        runpy.run_module("awslambdaric", run_name="__main__", alter_sys=True)
    finally:
        # Without its owner the runtime ends too, perhaps before the thread has found the handler's processes.
        _kill_started_by(os.getpid(), mark=own_mark)
