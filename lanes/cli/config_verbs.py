"""`lanes config`: what a `lanes.toml` says, resolved, and what is wrong with it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from lanes.cli.place import place_of
from lanes.config import LanesConfig

app = typer.Typer(no_args_is_help=True, help="Read and check a lanes.toml.")

FileOption = Annotated[Path, typer.Option("--file", help="The file.", exists=True, dir_okay=False)]


@app.command()
def show(context: typer.Context, file: FileOption = Path("lanes.toml")) -> None:
    """Print the lanes as the stage resolves them, highest first; problems of the file end it, all at once."""
    place = place_of(context)
    config = LanesConfig.load(file, stage=place.stage or None)
    place.show(
        [
            {
                "lane": lane.name,
                "threshold": lane.threshold if lane is not config.last_lane else "the rest",
                "batch size": lane.batch_size,
                "visibility": lane.visibility_timeout,
                "yield delay": f"{lane.yield_delay_min} to {lane.yield_delay_max}",
                "max wait": lane.max_wait or "none",
                "maximum concurrency": lane.maximum_concurrency,
            }
            for lane in config.lanes
        ]
    )
    for note in config.notes():
        typer.echo(f"note: {note}", err=True)
