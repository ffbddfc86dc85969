"""The backfill: a real Spark job in a process of its own, started with the command that a user types."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from local.account import REGION, USER_KEY, isolated_variables, without_aws_settings
from local.demo.plan import BACKFILL_RUN, DemoPlan
from local.demo.stage import Stage
from local.installed import ROOT
from local.interrupts import uninterrupted

_STOP_SECONDS = 5.0
_LAST_WORDS = 2_000


class BackfillError(RuntimeError):
    """The Spark job failed; the message is the end of its output."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillSummary:
    """The summary that the job prints."""

    sent: int
    poison_ids: Sequence[str]
    flaky_ids: Sequence[str]


class BackfillJob:
    """
    One run of the job; leaving the context ends it and its Java process.

    Args:
        plan: size, seed and faults.
        stage: the lanes that get the messages.
        endpoint_url: of AWS.
        table: folder of the customer table.
        make_table: make the table first; without it the one that is there is sent.
        log_path: file for the job's output, beside its summary.
    """

    def __init__(
        self,
        plan: DemoPlan,
        *,
        stage: Stage,
        endpoint_url: str,
        table: Path,
        make_table: bool,
        log_path: Path,
    ) -> None:
        self._plan = plan
        self._stage = stage
        self._endpoint_url = endpoint_url
        self._table = table
        self._make_table = make_table
        self._log_path = log_path
        self._summary_path = log_path.with_suffix(".json")
        self._process: subprocess.Popen[bytes] | None = None

    def _command(self) -> list[str]:
        plan = self._plan
        options = {
            "--table": str(self._table),
            "--seed": str(plan.seed),
            "--run": BACKFILL_RUN,
            "--groups": str(plan.shards),
            "--poison": str(plan.poison),
            "--flaky": str(plan.flaky),
            "--stack": self._stage.stack,
            "--region": REGION,
            "--endpoint-url": self._endpoint_url,
        }
        if self._make_table:
            options["--customers"] = str(plan.customers)
        pairs = [item for pair in options.items() for item in pair]
        return [sys.executable, "-m", "spark_jobs.loyalty_backfill", *pairs]

    def start(self) -> None:
        """Start the job."""
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        environment = without_aws_settings(os.environ) | isolated_variables(self._endpoint_url, USER_KEY)
        with self._log_path.open("wb") as log, self._summary_path.open("wb") as summary, uninterrupted():
            self._process = self._popen(environment, log=log, summary=summary)

    def _popen(
        self, environment: dict[str, str], *, log: IO[bytes], summary: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        # A group of its own, with Spark's Java process in it: Ctrl-C reaches this program alone, which then
        # ends the group.
        return subprocess.Popen(
            self._command(),
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=summary,
            stderr=log,
            start_new_session=True,
        )

    def has_ended(self, *, within: float) -> bool:
        """Wait so many seconds at most for its end."""
        assert self._process is not None  # noqa: S101 - start came first
        try:
            self._process.wait(within)
        except subprocess.TimeoutExpired:
            return False
        return True

    def result(self) -> BackfillSummary:
        """
        Wait for the end of the job and read its summary.

        Raises:
            BackfillError: it failed, or sent another number of messages than planned.
        """
        assert self._process is not None  # noqa: S101 - start came first
        status = self._process.wait()
        if status:
            said = self._log_path.read_text(errors="replace").strip()[-_LAST_WORDS:]
            raise BackfillError(f"the Spark job failed with status {status}:\n{said}")
        lines = self._summary_path.read_text().splitlines()
        summary = json.loads(lines[-1])
        if summary["sent"] != self._plan.customers:
            raise BackfillError(f"the Spark job sent {summary['sent']} messages of {self._plan.customers}")
        return BackfillSummary(
            sent=summary["sent"], poison_ids=summary["poison_ids"], flaky_ids=summary["flaky_ids"]
        )

    def stop(self) -> None:
        """End the job with all its processes, if it still runs."""
        if self._process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            if _group_ends(self._process, within=_STOP_SECONDS):
                return

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_details: object) -> None:
        self.stop()


def _group_ends(process: subprocess.Popen[bytes], *, within: float) -> bool:
    """Wait until no process of the group is left."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        process.poll()
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False
