"""`lanes bulk`: run Spark jobs that send whole tables, on EMR Serverless or on this machine."""

from __future__ import annotations

import importlib
import importlib.util
import os
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
from lanes.config.spark_submit import RUN_TAG, STACK_TAG, SparkExtras
from lanes.config.table import nearest
from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from lanes.cli.target import Target

app = typer.Typer(no_args_is_help=True, help="Send whole tables with Spark jobs.")

RunId = Annotated[str, typer.Argument(metavar="RUN", help="Id of the run, as printed by submit.")]
PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
LOCAL_MANIFESTS = "build/bulk"
# A run takes a minute to start and minutes to hours to finish.
FOLLOW_SECONDS = 5.0
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
# EMR Serverless and spark-submit get these, not the job.
OF_SPARK = {"packages": "--packages", "jars": "--jars", "conf": "--conf"}


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
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end of the run.")] = False,
) -> None:
    """
    Start a job; the arguments after its name are passed to it unchanged. Exit code 3: the run ended without success.

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
        raise typer.Exit(run_here(job, [*arguments, *_local_arguments(target), *spark.arguments()]))
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
    say(f"started run {name}; follow it with `lanes bulk status {run_id}`")
    if given.follow:
        say(f"when the job has ended, wait for the end of its messages with `lanes runs watch {name}`")
    if wait:
        _follow(runs, run_id)
    _end(_show(target, runs, run_id))


@app.command(context_settings={**PASSED_ON, "help_option_names": []}, add_help_option=False)
def send(
    context: typer.Context,
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="A file of Parquet, CSV or JSON Lines, or a folder of Parquet."),
    ],
) -> None:
    """
    Send each row of a file, without Spark; `lanes bulk send FILE --help` lists its options.

    Ids, manifest, limits, quarantine and summary are those of the Spark jobs. A rerun with the same --run sends the
    remaining rows.
    """
    target = target_of(context)
    raise typer.Exit(send_file([file, *context.args], target))


@app.command()
def status(
    context: typer.Context,
    run: RunId,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end of the run.")] = False,
) -> None:
    """Show the state of a run and the messages it has sent. Exit code 3: the run failed or was cancelled."""
    target = target_of(context)
    runs = _runs(target)
    if wait:
        _follow(runs, run)
    _end(_show(target, runs, run))


@app.command()
def cancel(context: typer.Context, run: RunId) -> None:
    """Cancel a run; its messages stay sent, and a rerun with the same name sends the remaining rows."""
    target = target_of(context)
    runs = _runs(target)
    runs.cancel(run)
    _show(target, runs, run)


def _runs(target: Target) -> BulkRuns:
    clients = target.clients()
    return BulkRuns(BulkApplication.of_stack(clients, target.stack_name), clients)


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
    state = None
    while not (run := runs.get(run_id)).is_over:
        if run.state != state:
            state = run.state
            say(f"{run_id} is {state}{f': {run.details}' if run.details else ''}")
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
