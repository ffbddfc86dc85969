"""
Start `enqueue` for spark-submit, which runs a file and not a module.

    spark-submit spark_jobs/submit.py --help
"""

from __future__ import annotations

import importlib.util
import os
import runpy
import sys
from pathlib import Path

NAMES = ("lanes_spark", "spark_jobs")
OLDEST_PYTHON = (3, 11)


def main() -> None:
    """Run the job as a module of this package."""
    if sys.version_info < OLDEST_PYTHON:
        sys.exit(f"Python 3.11 or newer is needed, and this is {sys.version}")
    runpy.run_module(f"{_package()}.enqueue", run_name="__main__", alter_sys=True)


def _package() -> str:
    """Give the package of the job: the parent of this file, or on a cluster the installed one."""
    folder = Path(__file__).resolve().parent
    if (folder / "__init__.py").exists():
        # Replaces the folder of this file, or its modules would be importable as top-level ones.
        sys.path[0] = str(folder.parent)
        return folder.name
    for name in NAMES:
        if importlib.util.find_spec(name) is not None:
            return name
    sys.exit(f"none of the packages {', '.join(NAMES)} is on PYTHONPATH ({os.environ.get('PYTHONPATH', '')})")


if __name__ == "__main__":
    main()
