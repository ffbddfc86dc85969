"""The backfill: a real Spark job in a process of its own, started with the command that a user types."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

from local.account import REGION, USER_KEY, isolated_variables, without_aws_settings
from local.installed import ROOT
from local.interrupts import uninterrupted

from .plan import RUN, DemoPlan
from .stage import Stage

_STOP_SECONDS = 5.0
_LAST_WORDS = 2_000


class BackfillError(RuntimeError):
    """The Spark job failed; the message is the end of its output."""


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
        self._customers = plan.customers
        self._endpoint_url = endpoint_url
        self._log_path = log_path
        self._summary_path = log_path.with_suffix(".json")
        options = {
            "--table": table,
            "--seed": plan.seed,
            "--run": RUN,
            "--groups": plan.shards,
            "--poison": plan.poison,
            "--flaky": plan.flaky,
            "--stack": stage.stack,
            "--region": REGION,
            "--endpoint-url": endpoint_url,
            **({"--customers": plan.customers} if make_table else {}),
        }
        pairs = [str(item) for pair in options.items() for item in pair]
        self._command = [sys.executable, "-m", "spark_jobs.loyalty_backfill", *pairs]

        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        environment = without_aws_settings(os.environ) | isolated_variables(self._endpoint_url, USER_KEY)
        with self._log_path.open("wb") as log, self._summary_path.open("wb") as summary, uninterrupted():
            # A group of its own, with Spark's Java process in it: Ctrl-C reaches this program alone, which then
            # ends the group.
            self._process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=summary,
                stderr=log,
                start_new_session=True,
            )

    def has_ended(self, *, within: float) -> bool:
        """Wait so many seconds at most for its end."""
        assert self._process is not None  # noqa: S101 - inside the context
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(within)
        return self._process.returncode is not None

    def result(self) -> dict[str, Any]:
        """
        Wait for the end of the job and read its summary: `sent`, `poison_ids` and `flaky_ids`.

        Raises:
            BackfillError: it failed, or sent another number of messages than planned.
        """
        assert self._process is not None  # noqa: S101 - inside the context
        if status := self._process.wait():
            said = self._log_path.read_text(errors="replace").strip()[-_LAST_WORDS:]
            raise BackfillError(f"the Spark job failed with status {status}:\n{said}")
        summary: dict[str, Any] = json.loads(self._summary_path.read_text().splitlines()[-1])
        if summary["sent"] != self._customers:
            raise BackfillError(f"the Spark job sent {summary['sent']} messages of {self._customers}")
        return summary

    def __exit__(self, *_details: object) -> None:
        if self._process is None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            if _group_ends(self._process):
                return


def _group_ends(process: subprocess.Popen[bytes]) -> bool:
    """Wait until no process of the group is left."""
    until = time.monotonic() + _STOP_SECONDS
    while time.monotonic() < until:
        process.poll()
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.02)
    return False
