"""`lanes bulk submit`: run Spark jobs that send whole tables, on EMR Serverless or on this machine."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shlex
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lanes.aws.bulk.runs import CANCELLED, BulkApplication, BulkRun, BulkRuns
from lanes.cli.arguments import duration
from lanes.cli.printing import say, show_one
from lanes.cli.target import target_of
from lanes.cli.usage import ExitCode, UsageError
from lanes.config.spark_submit import NO_EXTRAS, RUN_TAG, STACK_TAG, SparkExtras
from lanes.config.table import nearest
from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from lanes.cli.target import Target

app = typer.Typer(no_args_is_help=True, help="Send whole tables with Spark jobs.")

PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
LOCAL_MANIFESTS = "build/bulk"
# A run takes a minute to start and minutes to hours to finish; a look lists the files of its manifest.
FOLLOW_SECONDS = 10.0
# AWS counts the timeout in minutes, and takes 0 as the default or as none (API_StartJobRun).
MIN_TIMEOUT = timedelta(minutes=1)
PACKAGES = ("lanes_spark", "spark_jobs")
FORWARDED = (signal.SIGTERM, signal.SIGINT)
# The command names the lanes itself, by its options before the verb.
OF_THE_COMMAND = {
    "stack": "--stack",
    "deployment": "--stack",
    "region": "--region",
    "endpoint_url": "--endpoint",
}


@app.command(context_settings=PASSED_ON)
def submit(  # noqa: PLR0917 - Typer reads options from parameters
    context: typer.Context,
    job: Annotated[str, typer.Argument(metavar="JOB", help="Name of the job, such as enqueue.")],
    run: Annotated[
        str | None, typer.Option(help="Name the run; a rerun with the same name sends the remaining rows.")
    ] = None,
    executors: Annotated[
        int, typer.Option(help="Use at most this many executors, of two cores each.", min=1)
    ] = 3,
    timeout: Annotated[str, typer.Option(help="Cancel the run after this time.")] = "12h",
    packages: Annotated[
        str | None, typer.Option(help="Give Spark these jars by Maven coordinates, with commas.")
    ] = None,
    jars: Annotated[str | None, typer.Option(help="Give Spark these jars, with commas.")] = None,
    conf: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Give Spark this setting; repeatable.")
    ] = None,
) -> None:
    """
    Run a job and wait for its end; the arguments after its name are passed to it unchanged.

    Exit code 3: the run ended without success. Ctrl-C leaves it running, and prints how to follow and to cancel it.

    With --endpoint before the verb, the same program runs on this machine until it ends.
    """
    target = target_of(context)
    limit = duration(timeout, "--timeout")
    if limit < MIN_TIMEOUT:
        raise typer.BadParameter(
            f"{timeout} is too short; give one minute or more, such as 90m or 12h", param_hint="--timeout"
        )
    given = job_arguments(job, [*context.args, *(["--run", run] if run else [])])
    name = given.run or f"{job}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    spark = SparkExtras(packages=packages, jars=jars, conf=conf or ())
    if target.endpoint is not None:
        arguments = [*context.args, "--run", name, "--manifest", given.manifest or LOCAL_MANIFESTS]
        raise typer.Exit(run_here(job, [*arguments, *_local_arguments(target)], spark))
    clients = target.clients()
    application = BulkApplication.of_stack(clients, target.stack_name)
    runs = BulkRuns(application, clients)
    manifests = given.manifest or f"{application.files}/runs"
    arguments = [job, *context.args, *_target_arguments(target), "--run", name, "--manifest", manifests]
    run_id = runs.start(
        arguments,
        executors=executors,
        run=runs.next_session(manifests, name, take_over=bool(given.take_over)),
        timeout=limit,
        tags={STACK_TAG: target.stack_name, RUN_TAG: name},
        spark=spark,
    )
    say(f"started run {name}: job {run_id} of application {application.application}")
    try:
        _follow(runs, run_id)
    except KeyboardInterrupt:
        job_run = f"--application-id {application.application} --job-run-id {run_id}"
        say(f"the run goes on; follow it: aws emr-serverless get-job-run {job_run}")
        say(f"cancel it: aws emr-serverless cancel-job-run {job_run}")
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    if given.follow:
        say(f"wait for the end of its messages with `lanes runs watch {name}`")
    _end(_show(target, runs, run_id))


def _show(target: Target, runs: BulkRuns, run_id: str) -> BulkRun:
    run = runs.get(run_id)
    counts = runs.counts(run)
    show_one(
        target,
        {
            "id": run.id,
            "run": run.argument("--run"),
            "state": run.state,
            "details": run.details or None,
            "sent": None if counts is None else counts.sent,
            "quarantined": None if counts is None else counts.quarantined,
            "seconds": run.seconds,
            "vcpu_hours": run.vcpu_hours,
        },
    )
    return run


def _end(run: BulkRun) -> None:
    """End with the exit code of a run: a script must not take a run that was cut short for a complete one."""
    if run.has_failed:
        say(f"the run ended as {run.state}: {run.details or 'no details'}")
        if run.state == CANCELLED:
            say("a run that exceeds its --timeout is cancelled too")
        say("start it again with the same --run to send the remaining rows")
        raise typer.Exit(ExitCode.NO)


def _follow(runs: BulkRuns, run_id: str) -> None:
    """Wait for the end of a run, and print its state and messages as they change."""
    said = ""
    while not (run := runs.get(run_id)).is_over:
        counts = runs.counts(run)
        sent = "" if counts is None else f", {counts.sent:,} messages sent"
        state = f"{run_id} is {run.state}{f': {run.details}' if run.details else ''}{sent}"
        if state != said:
            said = state
            say(state)
        time.sleep(FOLLOW_SECONDS)


def _target_arguments(target: Target) -> list[str]:
    """Return the deployment as arguments: a job on AWS can't read the parameter, so it gets the document itself."""
    arguments = ["--deployment", target.deployment().to_json()]
    region = target.region or target.clients().operations("s3").meta.region_name
    return [*arguments, "--region", region]


def _local_arguments(target: Target) -> list[str]:
    where = ["--stack", target.stack_name, "--endpoint-url", str(target.endpoint)]
    return [*where, *(["--region", target.region] if target.region else [])]


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
    if problems:
        raise UsageError(problems, source="lanes bulk")
    return parsed


def run_here(job: str, arguments: Sequence[str], spark: SparkExtras = NO_EXTRAS) -> int:
    """Run a job on this machine until it ends, and return its exit code; signals reach it."""
    # The variable that pyspark itself reads (pyspark.java_gateway).
    extras = (
        {"PYSPARK_SUBMIT_ARGS": shlex.join([*given, "pyspark-shell"])} if (given := spark.arguments()) else {}
    )
    program = Path(str(_spec().origin)).with_name("submit.py")
    # A process group of its own: a terminal would send its signals to both, and the job would see each twice.
    command = [sys.executable, str(program), job, *arguments]
    with subprocess.Popen(command, process_group=0, env=os.environ | extras) as child:

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
