"""`lanes check`: whether what is deployed is what the lanes need."""

from __future__ import annotations

import dataclasses
from pathlib import Path  # noqa: TC003 - Typer reads the annotations
from typing import Annotated

import typer

from lanes.cli.operating import operations_of
from lanes.cli.place import place_of
from lanes.cli.printing import say, show_rows
from lanes.config import LanesConfig
from lanes.operate.check import Check
from lanes.operate.findings import Verdict

ANSWER_NO = 3


def check(
    context: typer.Context,
    *,
    file: Annotated[
        Path | None,
        typer.Option("--file", help="Compare with this lanes.toml too.", exists=True, dir_okay=False),
    ] = None,
) -> None:
    """
    Check configuration, queues, mappings, function, permissions, table and quota: a line each, with what to do.

    Only reads. Ends with 3 if something is wrong; what could not be asked is unknown and does not count as wrong.
    """
    place = place_of(context)
    operations = operations_of(context)
    local = None if file is None else LanesConfig.load(file, stage=place.stage or None)
    findings = Check(deployment=operations.deployment, state=operations.state, local=local).run()
    show_rows(place, [dataclasses.asdict(finding) for finding in findings], nothing="nothing to check")
    counts = {verdict: sum(one.verdict is verdict for one in findings) for verdict in Verdict}
    say(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count))
    if counts[Verdict.WRONG]:
        raise typer.Exit(ANSWER_NO)
