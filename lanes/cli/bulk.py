"""`lanes bulk submit`: send whole tables with Spark on EMR Serverless."""

from __future__ import annotations

import importlib
import importlib.util
from datetime import UTC, datetime, timedelta
from time import sleep
from typing import TYPE_CHECKING, Annotated
from urllib.parse import urlsplit

import typer

from lanes.aws.bulk import CANCELLED, BulkApplication, BulkRun, BulkRuns
from lanes.cli.arguments import duration
from lanes.cli.printing import say, show_one
from lanes.cli.target import ExitCode, UsageError, target_of
from lanes.config.spark_submit import RUN_TAG, STACK_TAG
from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from lanes.cli.target import Target

app = typer.Typer(no_args_is_help=True, help="Send whole tables with Spark jobs.")

PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
# A run takes a minute to start and minutes to hours to finish; a look lists the files of its manifest.
FOLLOW_SECONDS = 10.0
# AWS: 1 to 10,080 minutes, since release 7.11 (API_StartJobRun, executionTimeoutMinutes).
MIN_TIMEOUT, MAX_TIMEOUT = timedelta(minutes=1), timedelta(days=7)
PACKAGES = ("lanes_spark", "spark_jobs")
S3_SCHEMES = ("s3", "s3a", "s3n")
# The command names the lanes itself, by its options before the verb.
OF_THE_COMMAND = {
    "stack": "--stack",
    "deployment": "--stack",
    "region": "--region",
    "endpoint_url": "--endpoint",
}


@app.command(context_settings=PASSED_ON)
def submit(
    context: typer.Context,
    run: Annotated[
        str | None, typer.Option(help="Name the run; a rerun with the same name sends the remaining rows.")
    ] = None,
    executors: Annotated[
        int, typer.Option(help="Use at most this many executors, of two cores each.", min=1)
    ] = 3,
    timeout: Annotated[str, typer.Option(help="Cancel the run after this time, 7d at most.")] = "12h",
    spark_submit: Annotated[
        str, typer.Option(help="Give Spark these parameters of spark-submit, such as '--jars s3://...'.")
    ] = "",
) -> None:
    """
    Send a table with a job and wait for its end; all other options are those of the job.

    Exit code 3: the run ended without success. Ctrl-C leaves it running, and prints how to follow and to cancel it.
    """
    target = target_of(context)
    limit = duration(timeout, "--timeout")
    if not MIN_TIMEOUT <= limit <= MAX_TIMEOUT:
        raise typer.BadParameter(
            f"{timeout} is not from 1m to 7d, within which EMR Serverless lets a job run",
            param_hint="--timeout",
        )
    given = job_arguments([*context.args, *(["--run", run] if run else [])])
    name = given.run or f"enqueue-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    if target.endpoint is not None:
        problem = (
            "EMR Serverless is not on this machine; run the job itself: python -m spark_jobs.enqueue --help"
        )
        raise UsageError([problem], source="lanes bulk")
    clients = target.clients()
    application = BulkApplication.of_stack(clients, target.stack_name)
    runs = BulkRuns(application, clients)
    manifests = given.manifest or f"{application.files}/runs"
    if urlsplit(manifests).scheme not in S3_SCHEMES:
        problem = f"--manifest is {manifests!r}; a job on AWS needs s3://bucket/folder"
        raise ConfigurationError([problem], source="lanes bulk")
    arguments = [*context.args, *_target_arguments(target), "--run", name, "--manifest", manifests]
    run_id = runs.start(
        arguments,
        executors=executors,
        timeout=limit,
        tags={STACK_TAG: target.stack_name, RUN_TAG: name},
        spark=spark_submit,
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
        sleep(FOLLOW_SECONDS)


def _target_arguments(target: Target) -> list[str]:
    """Return the deployment as arguments: a job on AWS can't read the parameter, so it gets the document itself."""
    arguments = ["--deployment", target.deployment().to_json()]
    region = target.region or target.clients().operations("s3").meta.region_name
    return [*arguments, "--region", region]


def job_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """
    Read the arguments of the job with its own parser, so that both understand the same.

    Raises:
        UsageError: an argument belongs elsewhere.
        SystemExit: an argument is wrong; the parser has printed the reason.
    """
    parser = importlib.import_module(f"{_spec().name}.arguments").enqueue_parser()
    parsed: argparse.Namespace = parser.parse_args(list(arguments))
    problems = [
        f"the job's --{name.replace('_', '-')} is set by this command; give {option} before the verb: "
        f"lanes {option} ... bulk submit"
        for name, option in OF_THE_COMMAND.items()
        if getattr(parsed, name)
    ]
    if problems:
        raise UsageError(problems, source="lanes bulk")
    return parsed


def _spec() -> importlib.machinery.ModuleSpec:
    for name in PACKAGES:
        found = importlib.util.find_spec(name)
        if found is not None and found.origin is not None:
            return found
    raise ConfigurationError(
        [f"none of the packages {', '.join(PACKAGES)} is installed; they come with the extra 'spark'"],
        source="lanes bulk",
    )
