"""`lanes config`: print and check a `lanes.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lanes.cli.printing import say, show_rows
from lanes.cli.target import target_of
from lanes.config import LanesConfig

app = typer.Typer(no_args_is_help=True, help="Print and check a lanes.toml.")

FileOption = Annotated[Path, typer.Option("--file", help="Read this file.", exists=True, dir_okay=False)]


@app.command()
def show(context: typer.Context, file: FileOption = Path("lanes.toml")) -> None:
    """Print the lanes of a file as the stage resolves them, highest first, or all problems of the file."""
    target = target_of(context)
    config = LanesConfig.load(file, stage=target.stage or None)
    rows = [
        {
            "lane": lane.name,
            "threshold": lane.threshold if lane is not config.last_lane else "the rest",
            "batch_size": lane.batch_size,
            "visibility": lane.visibility_timeout,
            "min_yield_delay": lane.yield_delay_min,
            "max_yield_delay": lane.yield_delay_max,
            "max_wait": lane.max_wait or "none",
            "maximum_concurrency": lane.maximum_concurrency,
        }
        for lane in config.lanes
    ]
    show_rows(target, rows, empty="there are no lanes")
    for note in config.notes():
        say(f"note: {note}")
