"""`lanes bulk`: Spark jobs that send whole tables, on EMR Serverless or on this machine."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lanes.aws.bulk_runs import BulkApplication, BulkRuns
from lanes.cli.place import place_of
from lanes.cli.printing import say, show_one
from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lanes.cli.place import Place

app = typer.Typer(no_args_is_help=True, help="Send whole tables by Spark jobs.")

RunId = Annotated[str, typer.Argument(metavar="RUN", help="Id of the run, as submit printed it.")]
PASSED_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
JOBS_PACKAGES = ("lanes_spark", "spark_jobs")
LOCAL_MANIFESTS = "build/bulk"
FOLLOW_SECONDS = 5.0


@app.command(context_settings=PASSED_ON)
def submit(
    context: typer.Context,
    job: Annotated[str, typer.Argument(help="Name of the job, such as enqueue.")],
    run: Annotated[str | None, typer.Option(help="Name of the run; a rerun under it sends the rest.")] = None,
    executors: Annotated[int, typer.Option(help="Executors at most, of two cores each.", min=1)] = 3,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end of the run.")] = False,
) -> None:
    """
    Start a job; what follows its name goes to it as it is.

    With an address of AWS on this machine (--endpoint before the verb) the same program runs here, by spark-submit,
    until it ends.
    """
    place = place_of(context)
    name = run or f"{job}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
    if place.endpoint is not None:
        raise typer.Exit(
            _run_here(place, [job, *context.args, *_run_arguments(context.args, name, LOCAL_MANIFESTS)])
        )
    runs = _runs(place)
    application = BulkApplication.of_stack(place.clients(), place.stack_name)
    manifest = _run_arguments(context.args, name, f"{application.files}/runs")
    arguments = [job, *context.args, *_place_arguments(place), *manifest]
    run_id = runs.start(arguments, executors=executors, token=str(uuid.uuid4()))
    say(f"run {name} is started; follow it with: lanes bulk status {run_id}")
    if wait:
        _follow(runs, run_id)
    _show(place, runs, run_id)


@app.command()
def status(
    context: typer.Context,
    run: RunId,
    *,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the end of the run.")] = False,
) -> None:
    """Say how a run stands and how many messages it has sent; 3 is the exit code of one that failed."""
    place = place_of(context)
    runs = _runs(place)
    if wait:
        _follow(runs, run)
    _show(place, runs, run)


@app.command()
def cancel(context: typer.Context, run: RunId) -> None:
    """End a run. What it has sent stays sent; a rerun under the same name sends the rest."""
    place = place_of(context)
    runs = _runs(place)
    runs.cancel(run)
    _show(place, runs, run)


@app.command()
def logs(
    context: typer.Context,
    run: RunId,
    *,
    answer: Annotated[
        bool, typer.Option("--answer", help="Its lines of data in place of progress and errors.")
    ] = False,
) -> None:
    """Print what the driver of a run has written; EMR Serverless uploads it from time to time."""
    runs = _runs(place_of(context))
    pieces = 0
    for pieces, piece in enumerate(runs.log(run, stream="stdout" if answer else "stderr"), start=1):  # noqa: B007
        sys.stdout.write(piece)
    if not pieces:
        say("nothing has been uploaded yet")


def _runs(place: Place) -> BulkRuns:
    clients = place.clients()
    return BulkRuns(BulkApplication.of_stack(clients, place.stack_name), clients)


def _show(place: Place, runs: BulkRuns, run_id: str) -> None:
    run = runs.get(run_id)
    show_one(
        place,
        {
            "id": run.id,
            "run": run.argument("--run"),
            "state": run.state,
            "details": run.details or None,
            "sent": runs.rows(run, "sent"),
            "quarantined": runs.rows(run, "quarantine"),
            "seconds": run.seconds,
            "vcpu_hours": run.vcpu_hours,
        },
    )
    if run.state == "FAILED":
        raise typer.Exit(3)


def _follow(runs: BulkRuns, run_id: str) -> None:
    state = None
    while not (run := runs.get(run_id)).is_over:
        if run.state != state:
            state = run.state
            say(f"{run_id} is {state}")
        time.sleep(FOLLOW_SECONDS)


def _place_arguments(place: Place) -> list[str]:
    """Say where the lanes are: a job on AWS has no way to the parameters, so it gets the document itself."""
    given = ["--deployment", place.deployment().to_json()]
    region = place.region or place.clients().operations("s3").meta.region_name
    return [*given, "--region", region]


def _run_arguments(given: Sequence[str], name: str, manifests: str) -> list[str]:
    return ["--run", name, *([] if "--manifest" in given else ["--manifest", manifests])]


def _run_here(place: Place, arguments: Sequence[str]) -> int:
    """Run the same program with the same arguments, by spark-submit."""
    program = Path(sys.prefix) / "bin" / "spark-submit"
    where = ["--stack", place.stack_name, "--endpoint-url", str(place.endpoint)]
    region = ["--region", place.region] if place.region else []
    settings = [
        "--master",
        "local[2]",
        "--conf",
        "spark.ui.enabled=false",
        "--conf",
        "spark.driver.host=127.0.0.1",
    ]
    command = [str(program), *settings, str(_entry_point()), *arguments, *where, *region]
    environment = os.environ | {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    java = Path(sys.prefix) / "java"
    if (java / "bin" / "java").exists():
        environment["JAVA_HOME"] = str(java)
    return subprocess.run(command, env=environment, check=False).returncode


def _entry_point() -> Path:
    for name in JOBS_PACKAGES:
        found = importlib.util.find_spec(name)
        if found is not None and found.origin is not None:
            return Path(found.origin).with_name("submit.py")
    raise ConfigurationError(
        [f"none of the packages {', '.join(JOBS_PACKAGES)} is installed; they come with the extra 'spark'"],
        source="lanes bulk",
    )
