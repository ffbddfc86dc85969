"""The bulk jobs, found by the name of their package: their arguments, and one that runs on this machine."""

from __future__ import annotations

import importlib
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lanes.cli.usage import UsageError
from lanes.config.table import nearest
from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from lanes.cli.target import Target

PACKAGES = ("lanes_spark", "spark_jobs")
FORWARDED = (signal.SIGTERM, signal.SIGINT)
# The command names the lanes itself, by its options before the verb.
OF_THE_COMMAND = {
    "stack": "--stack",
    "deployment": "--stack",
    "region": "--region",
    "endpoint_url": "--endpoint",
}
# EMR Serverless and spark-submit get these, not the job.
OF_SPARK = {"packages": "--packages", "jars": "--jars", "conf": "--conf"}


def job_arguments(job: str, arguments: Sequence[str]) -> argparse.Namespace:
    """
    Read the arguments of a job with the parser of the job, so that both understand the same.

    Raises:
        UsageError: there is no such job, or an argument belongs elsewhere.
        SystemExit: an argument is wrong; the parser has printed the reason.
    """
    parsers = importlib.import_module(f"{_package()}.arguments").PARSERS
    if job not in parsers:
        problem = f"there is no job {job!r}{nearest(job, parsers)}; jobs are {', '.join(parsers)}"
        raise UsageError([problem], source="lanes bulk")
    parsed: argparse.Namespace = parsers[job]().parse_args(list(arguments))
    problems = [
        f"the job's --{name.replace('_', '-')} is set by this command; give {option} before the verb: "
        f"lanes {option} ... bulk submit {job}"
        for name, option in OF_THE_COMMAND.items()
        if getattr(parsed, name)
    ]
    problems += [f"write {option} in full" for name, option in OF_SPARK.items() if getattr(parsed, name)]
    if problems:
        raise UsageError(problems, source="lanes bulk")
    return parsed


def send_file(arguments: Sequence[str], target: Target) -> int:
    """
    Send a file in this process and return the exit code.

    Raises:
        SystemExit: an argument is wrong; the parser has printed the reason.
    """
    files = importlib.import_module(f"{_package()}.files")
    # Before any call.
    given = files.parser().parse_args(list(arguments))
    if target.profile:
        # The clients of tasks read it from the environment.
        os.environ["AWS_PROFILE"] = target.profile
    where = [] if given.dry_run or given.stack or given.deployment else _lanes_of(target)
    code: int = files.main([*arguments, *where])
    return code


def _lanes_of(target: Target) -> list[str]:
    region = ["--region", target.region] if target.region else []
    endpoint = ["--endpoint-url", target.endpoint] if target.endpoint else []
    return ["--stack", target.stack_name, *region, *endpoint]


def run_here(job: str, arguments: Sequence[str]) -> int:
    """Run a job on this machine until it ends, and return its exit code; signals reach it."""
    program = Path(str(_spec().origin)).with_name("submit.py")
    # A process group of its own: a terminal would send its signals to both, and the job would see each twice.
    with subprocess.Popen([sys.executable, str(program), job, *arguments], process_group=0) as child:

        def forward(number: int, _frame: object) -> None:
            child.send_signal(number)

        before = {number: signal.signal(number, forward) for number in FORWARDED}
        try:
            code = child.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    return code if code >= 0 else 128 - code


def _package() -> str:
    return str(_spec().name)


def _spec() -> importlib.machinery.ModuleSpec:
    for name in PACKAGES:
        found = importlib.util.find_spec(name)
        if found is not None and found.origin is not None:
            return found
    raise ConfigurationError(
        [f"none of the packages {', '.join(PACKAGES)} is installed; they come with the extra 'spark'"],
        source="lanes bulk",
    )
