"""`lanes config`: what a `lanes.toml` says, resolved, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lanes.cli.place import place_of
from lanes.cli.printing import say, show_rows
from lanes.config import LanesConfig

app = typer.Typer(no_args_is_help=True, help="Read and check a lanes.toml.")

FileOption = Annotated[Path, typer.Option("--file", help="The file.", exists=True, dir_okay=False)]


@app.command()
def show(context: typer.Context, file: FileOption = Path("lanes.toml")) -> None:
    """Print the lanes as the stage resolves them, highest first; problems of the file end it, all at once."""
    place = place_of(context)
    config = LanesConfig.load(file, stage=place.stage or None)
    rows = [
        {
            "lane": lane.name,
            "threshold": lane.threshold if lane is not config.last_lane else "the rest",
            "batch_size": lane.batch_size,
            "visibility": lane.visibility_timeout,
            "least_yield_delay": lane.yield_delay_min,
            "most_yield_delay": lane.yield_delay_max,
            "max_wait": lane.max_wait or "none",
            "maximum_concurrency": lane.maximum_concurrency,
        }
        for lane in config.lanes
    ]
    show_rows(place, rows, nothing="there are no lanes")
    for note in config.notes():
        say(f"note: {note}")
