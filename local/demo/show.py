"""The show: the order of things, from the start of AWS on this machine to the judged runs."""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from local.demo.backfill import BackfillJob, BackfillSummary
from local.demo.evidence import Evidence
from local.demo.figures import RunRules, run_figures
from local.demo.flood import Flood
from local.demo.footprint import Footprint, measure_footprint
from local.demo.journal import Journal
from local.demo.phases import Phases
from local.demo.plan import DemoPlan, PlannedMessage
from local.demo.promises import busy_words, judge
from local.demo.report import Outcome
from local.demo.runs import RunName
from local.demo.screen import Screen
from local.demo.stage import Stage, deploy_stage
from local.demo.view import flood_view
from local.platform import Platform

_LOOK_SECONDS = 0.5


class Show:
    """
    Runs a demo.

    Args:
        plan: the messages.
        output: folder for the table, the logs and the unzipped code.
        screen: shows the progress.
        runs: the runs, that with mappings among them.
    """

    def __init__(self, plan: DemoPlan, *, output: Path, screen: Screen, runs: Sequence[RunName]) -> None:
        self._plan = plan
        self._output = output
        self._logs = output / "logs"
        self._table = output / "customers"
        self._screen = screen
        self._runs = runs
        self._phases = Phases(announce=screen.phase)
        self._journals: dict[str, Journal] = {}
        self._platform = Platform(
            run_mappings=False,
            seed=plan.seed,
            build_directory=output,
            on_line=self._take_line,
            record_receives=True,
        )

    def run(self) -> Outcome:
        """Run it, and end everything that was started however it ends."""
        phase = self._phases.phase
        try:
            with phase("start", "AWS starts on this machine"):
                self._platform.start()
            stages, backfill = self._prepare()
            # Nothing more is deployed, so nothing has to be followed while the runs are timed.
            self._platform.start_mappings(follow=False)
            evidence, load_average = {}, 0.0
            for name, stage in stages.items():
                words = f"{self._plan.customers:,} customers drain while urgent work arrives: {name.words}"
                with phase(name.key("flood"), words):
                    evidence[name] = self._flood(stage, traffic=stages[RunName.MAPPINGS], backfill=backfill)
                # Of the last minute, as long as a run of the default size takes.
                load_average = max(load_average, os.getloadavg()[0])
            with phase("judge", "Reading the evidence"):
                root, handler = stages[RunName.MAPPINGS].code(self._output / "code")
                footprint = measure_footprint(root, handler=handler)
            rules = {name: stage.rules for name, stage in stages.items()}
            return self._outcome(evidence, rules=rules, footprint=footprint, load_average=load_average)
        finally:
            self._platform.stop()

    def _prepare(self) -> tuple[dict[RunName, Stage], list[PlannedMessage]]:
        """Have Spark fill the first stage while the others are deployed, and those from the same table."""
        # Left by an earlier demo.
        shutil.rmtree(self._table, ignore_errors=True)
        first = self._deploy(RunName.MAPPINGS)
        stages = {RunName.MAPPINGS: first}
        with ExitStack() as jobs:
            job = jobs.enter_context(self._job(first, make_table=True))
            for name in self._runs:
                if name not in stages:
                    stages[name] = self._deploy(name)
            summary = self._fill(job, stages, jobs)
        backfill = self._plan.backfill(poison=summary.poison_ids, flaky=summary.flaky_ids)
        return {name: stages[name] for name in self._runs}, backfill

    def _deploy(self, name: RunName) -> Stage:
        with self._phases.phase(name.key("deploy"), f"cdk deploy -c stage={name.stage}"):
            return deploy_stage(self._platform, name.stage, log_path=self._logs / f"deploy-{name.stage}.log")

    def _fill(self, first: BackfillJob, stages: Mapping[RunName, Stage], jobs: ExitStack) -> BackfillSummary:
        """Wait until the stages are filled; the jobs of the others start as soon as there is a table."""
        words = f"Spark makes the table of {self._plan.customers:,} customers and sends it"
        with self._phases.phase("backfill", words):
            self._watch(first, stages[RunName.MAPPINGS], until=self._is_table_made)
            more = {
                name: jobs.enter_context(self._job(stage, make_table=False))
                for name, stage in stages.items()
                if name is not RunName.MAPPINGS
            }
            self._watch(first, stages[RunName.MAPPINGS])
            summary = first.result()
        for name, job in more.items():
            words = f"Spark sends the same table to the stage {name.stage}"
            with self._phases.phase(name.key("backfill"), words):
                self._watch(job, stages[name])
                job.result()
        return summary

    def _watch(self, job: BackfillJob, stage: Stage, *, until: Callable[[], bool] = lambda: False) -> None:
        """Show how the lanes fill, until the job has ended or something has come true."""
        while not (until() or job.has_ended(within=_LOOK_SECONDS)):
            view = flood_view(stage.depths(), done={}, yields={}, pace={}, total=self._plan.customers)
            self._screen.show(view)

    def _is_table_made(self) -> bool:
        return (self._table / "_SUCCESS").exists()

    def _job(self, stage: Stage, *, make_table: bool) -> BackfillJob:
        return BackfillJob(
            self._plan,
            stage=stage,
            endpoint_url=self._platform.endpoint_url,
            table=self._table,
            make_table=make_table,
            log_path=self._logs / f"spark-{stage.name}.log",
        )

    def _flood(self, stage: Stage, *, traffic: Stage, backfill: list[PlannedMessage]) -> Evidence:
        ids = frozenset(one.id for one in backfill)
        lane_for = stage.deployment.config.lane_for
        lane_of = {one.id: lane_for(one.priority).name for one in (*backfill, *self._plan.live)}
        journal = Journal(lane_of=lane_of, backfill=ids.__contains__)
        self._journals[stage.function_name] = journal
        return Flood(
            stage,
            plan=self._plan,
            backfill=backfill,
            traffic=traffic.deployment.config,
            journal=journal,
            show=self._screen.show,
        ).run()

    def _take_line(self, function_name: str, line: str) -> None:
        journal = self._journals.get(function_name)
        if journal is not None:
            journal.take_line(line)

    def _outcome(
        self,
        evidence: Mapping[RunName, Evidence],
        *,
        rules: Mapping[RunName, RunRules],
        footprint: Footprint,
        load_average: float,
    ) -> Outcome:
        first, judged = evidence[RunName.MAPPINGS], rules[RunName.MAPPINGS]
        figures = {name: run_figures(one, rules[name], compared_with=first) for name, one in evidence.items()}
        return Outcome(
            plan=self._plan,
            rules=judged,
            evidence=evidence,
            figures=figures,
            promises=judge(
                figures,
                rules=judged,
                customers=self._plan.customers,
                footprint=footprint,
                busy=busy_words(load_average, processors=os.cpu_count() or 1),
            ),
            footprint=footprint,
            load_average=load_average,
            phase_seconds=self._phases.seconds,
            total_seconds=self._phases.total,
        )
