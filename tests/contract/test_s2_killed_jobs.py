"""
S2, reruns after a kill.

Ids are derived from the row, so a task or job that runs again produces the same ones: SQS drops the repeat within five
minutes. A manifest in the output path records what each partition sent; a job that runs again with the same run id
skips what is recorded.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pyspark
import pytest
from pyspark import TaskContext

from lanes.message import id_in
from spark_jobs import LanesDataSource
from spark_jobs.source import LanesWriter

pytestmark = pytest.mark.timeout(300)

ROOT = Path(__file__).resolve().parents[2]
ROWS = 360
WORK = Path(pyspark.__file__).parent / "work"

needs_proc = pytest.mark.skipif(
    not Path("/proc/self/cmdline").exists(), reason="a job's processes are found through /proc"
)


@pytest.fixture
def table(tmp_path):
    """Give a table of four files, without Spark."""
    folder = tmp_path / "table"
    folder.mkdir()
    for part in range(4):
        numbers = range(part, ROWS, 4)
        (folder / f"{part}.json").write_text("".join(f'{{"n": {number}}}\n' for number in numbers))
    return folder


@pytest.fixture
def start(table, tmp_path):
    """Start the job as a process group of its own; all groups end with the test."""
    started = []

    def begin(lanes, *more):
        command = [sys.executable, "-m", "spark_jobs.enqueue", "--table", str(table), "--format", "json"]
        where = ["--deployment", lanes.deployment.to_json(), "--endpoint-url", lanes.endpoint_url]
        run = ["--kind", "a.kind", "--id", "n", "--run", "r", "--manifest", str(tmp_path / "runs")]
        output = (tmp_path / f"output-{len(started)}").open("w+")
        process = subprocess.Popen(
            [*command, *where, *run, *more],
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        process.output = output
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.output.close()


def wait_until(condition, process, *, seconds=120):
    """Wait for a condition while a process runs."""
    until = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, Path(process.output.name).read_text()
        assert time.monotonic() < until, Path(process.output.name).read_text()
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue


def summary_of(process):
    """Wait for the end of a job and give its summary."""
    status = process.wait()
    output = Path(process.output.name).read_text()
    assert status == 0, output
    return json.loads(output.splitlines()[-1])


def recorded(folder):
    """Give the ids in the manifest."""
    return [
        id_in(one)
        for file in (folder / "runs/r/sent").rglob("*.json")
        for one in json.loads(file.read_text())["ids"]
    ]


def ids_in(lanes):
    """Take everything from MAIN and give how often each id was there."""
    return Counter(int(event["id"]) for _, event in lanes.take("MAIN"))


def processes_of(session):
    """Give the command of each process that runs in a session of processes, by its id."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if os.getsid(int(folder.name)) == session:
                # A process that has ended and isn't reaped yet has an empty command.
                found[int(folder.name)] = (folder / "cmdline").read_bytes()
        except (OSError, ProcessLookupError):
            continue
    return {pid: command for pid, command in found.items() if command}


def executors_of(session):
    """Give the process ids of Spark's executors in a session of processes."""
    commands = processes_of(session)
    return sorted(pid for pid in commands if b"CoarseGrainedExecutorBackend" in commands[pid])


def kill(job, *, seconds=60):
    """
    Kill a job's driver, and wait until its Python workers have ended too.

    They are a process group of their own and end by themselves when they miss the driver; until then they
    send and write down.
    """
    os.killpg(job.pid, signal.SIGKILL)
    job.wait()
    until = time.monotonic() + seconds
    while left := processes_of(job.pid):
        assert time.monotonic() < until, f"still running: {left}"
        time.sleep(0.05)


@pytest.mark.deep
@needs_proc
def test_after_the_driver_was_killed_a_rerun_sends_what_is_missing(start, lanes, more_lanes, tmp_path):
    """
    The rerun sends to other queues, because SQS has forgotten the ids after five minutes.

    Ids in the manifest are not sent again, and no row is missing in the end.
    """
    killed = start(lanes, "--max-send-rate", "30")
    wait_until(lambda: recorded(tmp_path), killed)
    kill(killed)
    before = {int(one) for one in recorded(tmp_path)}

    summary = summary_of(start(more_lanes, "--take-over"))

    first, second = ids_in(lanes), ids_in(more_lanes)
    assert set(first.values()) == set(second.values()) == {1}
    assert 0 < len(before) < ROWS
    assert before <= first.keys()
    assert second.keys() == set(range(ROWS)) - before
    assert (summary["sent"], summary["skipped"]) == (ROWS - len(before), len(before))
    assert sorted(int(one) for one in recorded(tmp_path)) == list(range(ROWS))


@pytest.mark.deep
@needs_proc
def test_after_an_executor_was_killed_each_row_is_in_the_queue_once(start, lanes, tmp_path):
    """Its tasks run again in another executor; SQS drops the messages that were sent and not yet recorded."""
    job = start(lanes, "--master", "local-cluster[2,1,1024]", "--max-send-rate", "30")
    wait_until(lambda: lanes.waiting() > 30, job)
    executors = executors_of(job.pid)
    os.kill(executors[0], signal.SIGKILL)

    summary = summary_of(job)

    shutil.rmtree(WORK, ignore_errors=True)
    assert len(executors) == 2
    assert ids_in(lanes) == Counter(range(ROWS))
    assert set(recorded(tmp_path)) == {str(number) for number in range(ROWS)}
    assert summary["sent"] + summary["skipped"] == ROWS


def test_after_a_python_worker_was_killed_its_task_sends_the_rest(spark, lanes, tmp_path):
    """The second attempt reads the ids of the first from the manifest."""

    class KilledWriter(LanesWriter):
        def write(self, iterator):
            if TaskContext.get().attemptNumber() == 0:
                return super().write(self._then_die(iterator))
            return super().write(iterator)

        @staticmethod
        def _then_die(batches):
            for batch in batches:
                yield batch.slice(0, 40)
                os.kill(os.getpid(), signal.SIGKILL)

    class KilledDataSource(LanesDataSource):
        @classmethod
        def name(cls):
            return "killed"

        def writer(self, schema, overwrite):
            writer = super().writer(schema, overwrite)
            writer.__class__ = KilledWriter
            return writer

    spark.dataSource.register(KilledDataSource)
    table = spark.range(200, numPartitions=2).selectExpr("struct(id AS n) AS data", "id")

    lanes.write(table, "killed", runId="r", manifestPath=str(tmp_path / "runs"))

    assert ids_in(lanes) == Counter(range(200))
    assert set(recorded(tmp_path)) == {str(number) for number in range(200)}
