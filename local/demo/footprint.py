"""The footprint of the deployed function: the size of its code and the time a new process takes to import it."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

_TRIES = 3
_PROGRAM = (
    "import time; began = time.perf_counter(); import {module}; print((time.perf_counter() - began) * 1000)"
)
_MEGABYTE = 1_000_000
_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Size in megabytes of a million bytes, and milliseconds of the fastest of some imports."""

    asset_megabytes: float
    cold_import_milliseconds: float


def measure_footprint(task_root: Path, *, handler: str) -> Footprint:
    """
    Measure.

    Args:
        task_root: the function's unzipped code.
        handler: its module and function, as deployed.
    """
    size = sum(file.stat().st_size for file in task_root.rglob("*") if file.is_file())
    module = handler.rpartition(".")[0].replace("/", ".")
    imports = [_import_milliseconds(task_root, module) for _ in range(_TRIES)]
    return Footprint(asset_megabytes=size / _MEGABYTE, cold_import_milliseconds=min(imports))


def _import_milliseconds(task_root: Path, module: str) -> float:
    done = subprocess.run(
        [sys.executable, "-P", "-c", _PROGRAM.format(module=module)],
        cwd=task_root,
        env={"PYTHONPATH": str(task_root)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=True,
    )
    return float(done.stdout)
