"""The show: the order of things, from the start of AWS on this machine to the judged runs."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from local.demo.backfill import BackfillJob, BackfillSummary
from local.demo.evidence import Evidence
from local.demo.figures import run_figures
from local.demo.flood import Flood
from local.demo.footprint import Footprint, measure_footprint
from local.demo.journal import Journal
from local.demo.phases import Phases
from local.demo.plan import DemoPlan, PlannedMessage
from local.demo.promises import judge
from local.demo.report import Outcome
from local.demo.screen import Screen
from local.demo.stage import WITH_PRIORITY, WITHOUT_PRIORITY, Stage, deploy_stage
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
        compares: run the flood without priority too.
    """

    def __init__(self, plan: DemoPlan, *, output: Path, screen: Screen, compares: bool) -> None:
        self._plan = plan
        self._output = output
        self._logs = output / "logs"
        self._table = output / "customers"
        self._screen = screen
        self._compares = compares
        self._phases = Phases(announce=screen.phase)
        self._journals: dict[str, Journal] = {}
        self._platform = Platform(
            run_mappings=False,
            seed=plan.seed,
            build_directory=output,
            on_line=self._take_line,
            on_receive=self._take_receive,
        )

    def run(self) -> Outcome:
        """Run it, and end everything that was started however it ends."""
        phase = self._phases.phase
        try:
            with phase("start", "AWS starts on this machine"):
                self._platform.start()
            with phase("deploy", f"cdk deploy -c stage={WITH_PRIORITY}"):
                stage = self._deploy(WITH_PRIORITY)
            other, backfill = self._prepare(stage)
            with phase("flood", f"{self._plan.customers:,} customers drain while urgent work arrives"):
                evidence = self._flood(stage, traffic=stage, backfill=backfill)
            without = None
            if other is not None:
                with phase("flood_without", "The same flood without priority"):
                    without = self._flood(other, traffic=stage, backfill=backfill)
            with phase("judge", "Reading the evidence"):
                root, handler = stage.code(self._output / "code")
                footprint = measure_footprint(root, handler=handler)
            return self._outcome(stage, evidence, without, footprint=footprint)
        finally:
            self._platform.stop()

    def _deploy(self, name: str) -> Stage:
        return deploy_stage(self._platform, name, log_path=self._logs / f"deploy-{name}.log")

    def _prepare(self, stage: Stage) -> tuple[Stage | None, list[PlannedMessage]]:
        """Have Spark fill the first stage while the second one is deployed, and that one from the same table."""
        # Left by an earlier demo.
        shutil.rmtree(self._table, ignore_errors=True)
        other = None
        with ExitStack() as jobs:
            first = jobs.enter_context(self._job(stage, make_table=True))
            if self._compares:
                words = f"Spark starts; cdk deploy -c stage={WITHOUT_PRIORITY}"
                with self._phases.phase("deploy_without", words):
                    other = self._deploy(WITHOUT_PRIORITY)
            summary = self._fill(first, stage, other, jobs)
        # Nothing more is deployed, so nothing has to be followed while the runs are timed.
        self._platform.start_mappings(follow=False)
        return other, self._plan.backfill(poison=summary.poison_ids, flaky=summary.flaky_ids)

    def _fill(
        self, first: BackfillJob, stage: Stage, other: Stage | None, jobs: ExitStack
    ) -> BackfillSummary:
        """Wait until the stages are filled; the second job starts as soon as there is a table."""
        words = f"Spark makes the table of {self._plan.customers:,} customers and sends it"
        with self._phases.phase("backfill", words):
            self._watch(first, stage, until=self._is_table_made)
            second = jobs.enter_context(self._job(other, make_table=False)) if other is not None else None
            self._watch(first, stage)
            summary = first.result()
        if other is not None and second is not None:
            with self._phases.phase("backfill_without", "Spark sends the same table to the other stage"):
                self._watch(second, other)
                second.result()
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
        journal = Journal(lane_of_queue=stage.lane_of_queue, backfill=ids.__contains__)
        self._journals[stage.function_name] = journal
        self._journals |= dict.fromkeys(stage.lane_of_queue, journal)
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

    def _take_receive(self, queue_name: str, messages: Sequence[Mapping[str, Any]]) -> None:
        self._journals[queue_name].take_receive(queue_name, messages)

    def _outcome(
        self, stage: Stage, evidence: Evidence, without: Evidence | None, *, footprint: Footprint
    ) -> Outcome:
        rules = stage.rules
        figures = run_figures(evidence, rules)
        figures_without = run_figures(without, rules, compared_with=evidence) if without is not None else None
        promises = judge(
            figures,
            figures_without,
            rules=rules,
            top_lane=figures.top_lane,
            customers=self._plan.customers,
            footprint=footprint,
        )
        return Outcome(
            plan=self._plan,
            rules=rules,
            evidence=evidence,
            evidence_without=without,
            figures=figures,
            figures_without=figures_without,
            promises=promises,
            footprint=footprint,
            phase_seconds=self._phases.seconds,
            total_seconds=self._phases.total,
        )
