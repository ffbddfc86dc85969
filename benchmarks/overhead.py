"""
The consumer's own time per message: `python -m benchmarks.overhead --json`.

The deployed consumer with its logs and metrics, all calls to AWS answered at once, compared with a loop that decodes
each body and calls the handler. CPU time on one core, the minimum of several turns, since other load on the machine
only adds to it. If valgrind is installed, machine instructions are counted too; they do not depend on other load.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from benchmarks import stubbed
from benchmarks.report import Findings, Table, run
from lanes.config.deployment import VARIABLE
from lanes.testing.silence import Silence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

BATCHES = (1, 10)
HANDLES: dict[str, Callable[[], Callable[..., Any]]] = {
    "bare": lambda: stubbed.bare_loop,
    "silent": lambda: stubbed.consumer(Silence()),
    "deployed": stubbed.consumer,
    "pull": stubbed.pull,
    "powertools": stubbed.powertools,
}
ENGINES = {"": "deployed", "_pull": "pull"}
"""The handle of each engine, by the end of its figures' names."""

PULLED = max(BATCHES) * stubbed.RECEIVES
"""Records of one invocation of the pull engine, at most: counts begin after the first one, which builds the engine."""

IMPORTED = {
    "cold_import_ms": "import lanes.consumer, lanes.aws.runtime, lanes.message",
    "cold_import_lanes_ms": "import lanes.consumer, lanes.message",
}

# Everything before the first record: imports, clients, and for the consumer its runtime.
COLD_STARTS = {
    "consumer": "import lambdas.consumer.handler; from lanes.aws.runtime import runtime_from_env; runtime_from_env()",
    "powertools": (
        "from aws_lambda_powertools import Logger, Metrics; "
        "from aws_lambda_powertools.utilities.batch import SqsFifoPartialProcessor, process_partial_response; "
        "import boto3; Logger(); Metrics(namespace='n'); boto3.client('sqs')"
    ),
}
COUNTED = re.compile(r"I\s+refs:\s+([\d,]+)")


def measure(*, quick: bool, seed: int) -> Findings:  # noqa: ARG001 - nothing here is left to chance
    """Time all handles in turns, and count their instructions where that is possible."""
    micros = times(turns=3 if quick else 15, records=200 if quick else 2000)
    counts = {} if quick or not available() else instruction_counts()
    figures: dict[str, Any] = {}
    for batch in BATCHES:
        figures[f"us_per_record_batch_{batch}"] = round(micros["deployed", batch] - micros["bare", batch], 1)
        figures[f"us_per_record_batch_{batch}_without_logs"] = round(
            micros["silent", batch] - micros["bare", batch], 1
        )
        price = counts or micros
        for engine, name in ENGINES.items():
            figures[f"over_powertools_batch_{batch}{engine}"] = round(
                price[name, batch] / price["powertools", batch], 3
            )
            if counts:
                added = counts[name, batch] - counts["bare", batch]
                figures[f"instructions_per_record_batch_{batch}{engine}"] = round(added)
    for name, statement in IMPORTED.items():
        figures[name] = cold_import_ms(statement, turns=1 if quick else 7)
    figures |= cold_starts(count=bool(counts))
    rows = [(name, batch, micros[name, batch], counts.get((name, batch))) for name, batch in micros]
    title = "CPU of one message" + ("" if counts else " (instructions: not counted here, valgrind is needed)")
    columns = ("handler", "batch", "us", "instructions")
    return Findings(figures=figures, tables=[Table(title=title, columns=columns, rows=rows)])


def times(*, turns: int, records: int) -> dict[tuple[str, int], float]:
    """Return the least microseconds a record by handle and batch size; all take turns."""
    handles = {name: make() for name, make in HANDLES.items()}
    least: dict[tuple[str, int], float] = {}
    with silenced(), one_core():
        for _ in range(turns):
            for name, handle in handles.items():
                for batch in BATCHES:
                    took = seconds_of(handle, batch=batch, records=records) / records * 1e6
                    least[name, batch] = min(least.get((name, batch), took), took)
    return least


def seconds_of(handle: Callable[..., Any], *, batch: int, records: int) -> float:
    """Return the CPU time of so many records."""
    event, context = stubbed.event_of(batch), stubbed.Context()
    began = time.process_time()
    for _ in range(records // batch):
        handle(event, context)
    return time.process_time() - began


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """
    Run on one core, where the system can bind a process to it.

    AWS: at 1,769 MB a function has the equivalent of one (Lambda developer guide, "Configure Lambda function memory").
    On several, each wake-up of a sleeping core adds 30 to 50 us, or nothing if other load keeps it awake.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    # For this thread and those that it starts: a pool begins its threads with the first call.
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


@contextlib.contextmanager
def silenced() -> Any:
    """Write printed lines to /dev/null, so that they cost a write as in Lambda."""
    kept = os.dup(1)
    sink = os.open(os.devnull, os.O_WRONLY)
    try:
        sys.stdout.flush()
        os.dup2(sink, 1)
        yield
        sys.stdout.flush()
    finally:
        os.dup2(kept, 1)
        os.close(sink)
        os.close(kept)


def instruction_counts() -> dict[tuple[str, int], float]:
    """Return the instructions a record by handle and batch size."""
    return {
        (name, batch): instructions_each(
            "benchmarks.overhead", "--worker", name, str(batch), few=2 * PULLED, many=6 * PULLED
        )
        for name in HANDLES
        for batch in BATCHES
    }


def cold_starts(*, count: bool) -> dict[str, float]:
    """Compare a cold start with that of Powertools and one client of boto3, in instructions or CPU."""
    variables = {
        VARIABLE: stubbed.deployment().to_json(),
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "POWERTOOLS_SERVICE_NAME": "orders",
    }
    price: dict[str, float] = {
        name: instructions_of(statements, variables=variables)
        if count
        else cold_import_ms(statements, turns=1, variables=variables)
        for name, statements in COLD_STARTS.items()
    }
    counted = {"cold_start_instructions": price["consumer"]} if count else {}
    return counted | {"cold_start_over_powertools": round(price["consumer"] / price["powertools"], 3)}


def cold_import_ms(
    statement: str, *, turns: int, variables: Mapping[str, str] = MappingProxyType({})
) -> float:
    """Return the median milliseconds of CPU that a fresh process needs for its imports, Python's own start left out."""
    program = f"import time; a = time.process_time(); {statement}; print((time.process_time() - a) * 1000)"
    found = [
        float(
            subprocess.run(
                [sys.executable, "-c", program],
                check=True,
                capture_output=True,
                text=True,
                env={**os.environ, **variables},
            ).stdout
        )
        for _ in range(turns)
    ]
    return round(statistics.median(found), 1)


def work(name: str, batch: int, records: int) -> None:
    """Handle this many records, for a process that counts its instructions."""
    with silenced():
        seconds_of(HANDLES[name](), batch=batch, records=records)


def available() -> bool:
    """Whether this machine can count."""
    return shutil.which("valgrind") is not None


def instructions_each(module: str, *arguments: str, few: int, many: int) -> float:
    """
    Return the instructions of one run of a worker's piece.

    Args:
        module: is called as `python -m MODULE ARGUMENTS TIMES`, and runs its piece so many times.
        arguments: its command line.
        few: the smaller number of times.
        many: the larger one.

    Raises:
        RuntimeError: valgrind said no count.

    """
    command = ("-m", module, *arguments)
    # It leaves bytecode behind, which the first one would write and the second one would not.
    subprocess.run([sys.executable, *command, str(few)], check=True, stdout=subprocess.DEVNULL)
    counts = [_counted(*command, str(times)) for times in (few, many)]
    return (counts[1] - counts[0]) / (many - few)


def instructions_of(statements: str, *, variables: Mapping[str, str]) -> int:
    """
    Return the instructions of statements in a fresh process, without those of Python's own start.

    Args:
        statements: the program; its modules have their bytecode.
        variables: more environment variables.

    Raises:
        RuntimeError: valgrind said no count.

    """
    _counted("-c", statements, variables=variables)  # leaves bytecode behind
    return _counted("-c", statements, variables=variables) - _counted("-c", "pass", variables=variables)


def _counted(*command: str, variables: Mapping[str, str] = MappingProxyType({})) -> int:
    valgrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    done = subprocess.run(
        [*valgrind, sys.executable, *command],
        capture_output=True,
        text=True,
        check=False,
        # Hashes by chance would order sets, and so work, differently each time.
        env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "", **variables},
    )
    found = COUNTED.search(done.stderr)
    if done.returncode or not found:
        raise RuntimeError(f"valgrind counted nothing: {done.stderr[-500:]}")
    return int(found[1].replace(",", ""))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        sys.exit(0)
    sys.exit(run("overhead", measure, about="The consumer's own time per message, without that of AWS."))
