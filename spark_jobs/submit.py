"""
Starts a job for spark-submit, which takes a file and knows no modules.

    spark-submit spark_jobs/submit.py loyalty_backfill --help
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

JOBS = ("loyalty_backfill",)


def main(argv: list[str]) -> None:
    """Run the job that the first argument names, as a module of this package."""
    if len(argv) < 2 or argv[1] not in JOBS:  # noqa: PLR2004 - the program's name and the job's
        sys.exit(f"usage: submit.py JOB [ARGUMENTS]; jobs: {', '.join(JOBS)}")
    package = Path(__file__).resolve().parent
    # In place of the package's own folder, whose modules would otherwise pass for top-level ones.
    sys.path[0] = str(package.parent)
    sys.argv = argv[1:]
    runpy.run_module(f"{package.name}.{argv[1]}", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv)
