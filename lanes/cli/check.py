"""`lanes check`: compare the deployment with the needs of the lanes."""

from __future__ import annotations

import dataclasses
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import Annotated

import typer

from lanes.cli.arguments import operations_of
from lanes.cli.exit_codes import ExitCode
from lanes.cli.printing import say, show_rows
from lanes.cli.target import target_of
from lanes.config import LanesConfig
from lanes.operate.lanes.check import Check
from lanes.operate.lanes.findings import Verdict


def check(
    context: typer.Context,
    *,
    file: Annotated[
        Path | None,
        typer.Option(
            "--file", help="Compare the deployment with this lanes.toml too.", exists=True, dir_okay=False
        ),
    ] = None,
) -> None:
    """
    Check configuration, queues, mappings, function, permissions, table and quota, and advise on each finding.

    Changes nothing. A finding that can't be checked is `unknown`. Exit code 3: a finding is `wrong`.
    """
    target = target_of(context)
    operations = operations_of(context)
    local = None if file is None else LanesConfig.load(file, stage=target.stage or None)
    findings = Check(deployment=operations.deployment, state=operations.state, local=local).run()
    rows = [dataclasses.asdict(finding) for finding in findings]
    show_rows(target, rows, empty="nothing to check")
    counts = {verdict: sum(one.verdict is verdict for one in findings) for verdict in Verdict}
    say(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count))
    if counts[Verdict.WRONG]:
        raise typer.Exit(ExitCode.NO)
