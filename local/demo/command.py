"""`python -m local demo`: a backfill and urgent work on this machine, with each engine and without priority, judged."""

import argparse
import fcntl
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from lanes.errors import LanesError
from local.deploy import DeployError
from local.installed import ROOT
from local.interrupts import interrupt_once
from local.platform import Platform
from local.server import ServerError

from .backfill import BackfillError, BackfillJob
from .evidence import Evidence, Sent, away_figures, left_out, run_figures
from .flood import Flood, Journal, state
from .plan import (
    ALWAYS,
    AWAY_SECONDS,
    BACKFILL,
    DEFAULT_CUSTOMERS,
    FEWEST_CUSTOMERS,
    MOST_CUSTOMERS,
    ONCE,
    PRIORITIES,
    DemoPlan,
    Episode,
    outage,
)
from .promises import RunName, busy_words, judge
from .report import Outcome, document, page, table
from .stage import Stage

DEFAULT_OUTPUT = ROOT / "build" / "demo"
_MOST_SHARDS = 120_000
_BROKEN = 1
_INTERRUPTED = 130
_LOOK_SECONDS = 0.5
_SHOW_EVERY_SECONDS = 5.0


class DemoError(RuntimeError):
    """The demo can't start: the message says why, and what to do."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `demo`."""

    def add(name: str, least: int, most: int, default: int, words: str) -> None:
        read = partial(_whole, least=least, most=most)
        parser.add_argument(
            name, type=read, default=default, metavar="N", help=f"{words} (default: {default})"
        )

    add("--customers", FEWEST_CUSTOMERS, MOST_CUSTOMERS, DEFAULT_CUSTOMERS, "size of the backfill")
    add("--seed", 0, 2**31 - 1, 1, "seed of the messages and their failures")
    words = "groups over which the customers are spread, each handled in order"
    add("--shards", 1, _MOST_SHARDS, 4, words)
    parser.add_argument(
        "--output", type=Path, default=DEFAULT_OUTPUT, metavar="DIR", help="folder of the report"
    )
    parser.add_argument("--no-comparison", action="store_true", help="run the flood with mappings alone")
    parser.add_argument("--quiet", action="store_true", help="print broken promises only")
    parser.set_defaults(run=run)


def _whole(text: str, *, least: int, most: int) -> int:
    if not text.isdecimal() or not least <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Run the demo; the status is 0 if no promise was broken."""
    interrupt_once()
    output: Path = options.output.resolve()
    plan = DemoPlan.draw(customers=options.customers, seed=options.seed, shards=options.shards)
    runs = [RunName.MAPPINGS] if options.no_comparison else list(RunName)
    try:
        check_sample(ROOT / "lambdas" / "consumer" / "handler.py")
        with _locked(output):
            outcome = Show(plan, output=output, progress=Progress(quiet=options.quiet)).run(runs)
            return _conclude(outcome, output, quiet=options.quiet)
    except (ServerError, DeployError, BackfillError, LanesError, DemoError, OSError) as error:
        sys.stderr.write(f"local demo: {error}\n")
        return _BROKEN
    except KeyboardInterrupt:
        sys.stderr.write("local demo: interrupted; everything it started has ended\n")
        return _INTERRUPTED


def check_sample(handler: Path) -> None:
    """Refuse another application than the sample, before anything is deployed: the demo judges by its output."""
    text = handler.read_text(encoding="utf-8") if handler.is_file() else ""
    missing = [word for word in (*PRIORITIES, "resource", "away_until") if f'"{word}"' not in text]
    if missing:
        raise DemoError(
            f"{handler} is not the sample application any more: it knows no {', '.join(missing)}.\n"
            "The demo judges by the sample's output. Keep your handlers in another place meanwhile, and restore "
            f"the sample back:\n  git checkout -- {handler}"
        )


@contextmanager
def _locked(output: Path) -> Iterator[None]:
    """Keep a second demo out of the folder; however this one ends, the next may have it."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        lock_file = (output / ".lock").open("w")
    except OSError as error:
        raise DemoError(f"--output: {output} can't be a folder to write to: {error.strerror}") from error
    with lock_file as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoError(
                f"another demo is writing to {output}; wait for it, or choose another folder with --output"
            ) from None
        yield


def _conclude(outcome: Outcome, output: Path, *, quiet: bool) -> int:
    """Write the reports and the broken promises; return the status."""
    (output / "report.json").write_text(json.dumps(document(outcome), indent=2) + "\n", encoding="utf-8")
    (output / "report.html").write_text(page(outcome), encoding="utf-8")
    if not quiet:
        sys.stdout.write(f"{table(outcome)}Report: {output / 'report.html'}\n")
    for promise in outcome.broken:
        sys.stderr.write(f"BROKEN: {promise.broken_words()}\n")
    return _BROKEN if outcome.broken else 0


class Progress:
    """Times the phases, and writes a line for each and one every few seconds within it, unless it is quiet."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._began = time.monotonic()
        self._next = 0.0
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str, words: str) -> Iterator[None]:
        """Time a phase."""
        self._write(words)
        self._next, began = 0.0, time.monotonic()
        yield
        self.seconds[name] = time.monotonic() - began

    def show(self, words: str) -> None:
        """Write a line if the last one is old."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _SHOW_EVERY_SECONDS
            self._write(f"  {words}")

    def _write(self, words: str) -> None:
        if not self._quiet:
            sys.stdout.write(f"{self.total:6.1f} s  {words}\n")
            sys.stdout.flush()

    @property
    def total(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._began


class Show:
    """
    The order of things, from the start of AWS on this machine to the judged runs.

    Args:
        plan: the messages.
        output: folder for the table, the logs and the unzipped code.
        progress: shows and times what goes on.
    """

    def __init__(self, plan: DemoPlan, *, output: Path, progress: Progress) -> None:
        self._plan = plan
        self._output = output
        self._progress = progress
        self._journals: dict[str, Journal] = {}
        self._platform = Platform(
            run_mappings=False,
            seed=plan.seed,
            build_directory=output,
            on_line=self._take_line,
            record_receives=True,
        )

    def run(self, runs: Sequence[RunName]) -> Outcome:
        """Run it, and end everything that was started however it ends."""
        phase, evidence, load = self._progress.phase, {}, 0.0
        away: dict[RunName, Evidence] = {}
        try:
            with phase("start", "AWS starts on this machine"):
                self._platform.start()
            stages, backfill = self._prepare(runs)
            # Nothing more is deployed, so nothing has to be followed while the runs are timed.
            self._platform.start_mappings(follow=False)
            for name in runs:
                words = f"{self._plan.customers:,} customers drain while urgent work arrives: {name.words}"
                with phase(name.key("flood"), words):
                    evidence[name] = self._flood(stages, name, self._plan.episodes, backfill)
                # Of the last minute, as long as a run of the default size takes.
                load = max(load, os.getloadavg()[0])
                if name is not RunName.WITHOUT:
                    words = f"The resource is away for {AWAY_SECONDS:g} s: {name.words}"
                    with phase(name.key("away"), words):
                        back_at = time.time() + AWAY_SECONDS
                        away[name] = self._flood(stages, name, outage(back_at), {}, back_at=back_at)
            with phase("judge", "Reading the evidence"):
                footprint = stages[RunName.MAPPINGS].footprint(self._output / "code")
                return self._outcome(evidence, away, footprint=footprint, load_average=load)
        finally:
            self._platform.stop()

    def _prepare(self, runs: Sequence[RunName]) -> tuple[dict[RunName, Stage], dict[str, Sent]]:
        """Have Spark fill the first stage while the others are deployed, and those from the same table."""
        table_folder = self._output / "customers"
        # Left by an earlier demo.
        shutil.rmtree(table_folder, ignore_errors=True)
        first = self._deploy(RunName.MAPPINGS)
        others = [name for name in runs if name is not RunName.MAPPINGS]
        with ExitStack() as jobs:
            job = jobs.enter_context(self._job(first, table_folder, make_table=True))
            stages = {RunName.MAPPINGS: first}
            for name in others:
                stages[name] = self._deploy(name)
            with self._progress.phase(
                "backfill", f"Spark makes the table of {self._plan.customers:,} customers and sends it"
            ):
                self._watch(job, first, until=(table_folder / "_SUCCESS").exists)
                more = {
                    name: jobs.enter_context(self._job(stages[name], table_folder, make_table=False))
                    for name in others
                }
                self._watch(job, first)
                summary = job.result()
            for name in others:
                words = f"Spark sends the same table to the stage {name.stage}"
                with self._progress.phase(name.key("backfill"), words):
                    self._watch(more[name], stages[name])
                    more[name].result()
        lane = first.deployment.config.lane_for(PRIORITIES[BACKFILL]).name
        faults = dict.fromkeys(summary["poison_ids"], ALWAYS) | dict.fromkeys(summary["flaky_ids"], ONCE)
        backfill = {one: Sent(traffic=lane, fault=faults.get(one)) for one in self._plan.backfill_ids()}
        return stages, backfill

    def _deploy(self, name: RunName) -> Stage:
        with self._progress.phase(name.key("deploy"), f"cdk deploy -c stage={name.stage}"):
            log_path = self._output / "logs" / f"deploy-{name.stage}.log"
            return Stage.deploy(self._platform, name.stage, log_path=log_path)

    def _job(self, stage: Stage, table_folder: Path, *, make_table: bool) -> BackfillJob:
        return BackfillJob(
            self._plan,
            stage=stage,
            endpoint_url=self._platform.endpoint_url,
            table=table_folder,
            make_table=make_table,
            log_path=self._output / "logs" / f"spark-{stage.name}.log",
        )

    def _watch(self, job: BackfillJob, stage: Stage, *, until: Callable[[], bool] = lambda: False) -> None:
        """Show how the lanes fill, until the job has ended or something has come true."""
        while not (until() or job.has_ended(within=_LOOK_SECONDS)):
            self._progress.show(state(stage.depths(), {}))

    def _flood(
        self,
        stages: Mapping[RunName, Stage],
        name: RunName,
        episodes: Sequence[Episode],
        backfill: Mapping[str, Sent],
        *,
        back_at: float = 0.0,
    ) -> Evidence:
        stage, journal = stages[name], Journal(backfill)
        self._journals[stage.function_name] = journal
        return Flood(
            stage,
            episodes=episodes,
            sent=backfill,
            traffic=stages[RunName.MAPPINGS].deployment.config,
            journal=journal,
            show=self._progress.show,
        ).run(back_at=back_at)

    def _take_line(self, function_name: str, line: str) -> None:
        if journal := self._journals.get(function_name):
            journal.take_line(line)

    def _outcome(
        self,
        evidence: Mapping[RunName, Evidence],
        away: Mapping[RunName, Evidence],
        *,
        footprint: dict[str, Any],
        load_average: float,
    ) -> Outcome:
        first = evidence[RunName.MAPPINGS]
        unjudged = left_out(first)
        figures = {
            name: run_figures(one, unjudged=unjudged) | (away_figures(away[name]) if name in away else {})
            for name, one in evidence.items()
        }
        promises = judge(
            figures,
            config=first.config,
            customers=self._plan.customers,
            footprint=footprint,
            busy=busy_words(load_average, processors=os.cpu_count() or 1),
        )
        return Outcome(
            plan=self._plan,
            evidence=evidence,
            away=away,
            figures=figures,
            promises=promises,
            footprint=footprint,
            load_average=load_average,
            seconds={**self._progress.seconds, "total": self._progress.total},
        )
