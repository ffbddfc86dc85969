"""`lanes config`: print and check a `lanes.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanes.cli.printing import say, show_rows
from lanes.cli.target import target_of
from lanes.config import EngineName, LanesConfig
from lanes.config.table import format_duration, format_rate

if TYPE_CHECKING:
    from lanes.config import ConsumerSettings, Lane

app = typer.Typer(
    no_args_is_help=True, help="Check a lanes.toml, and print its settings as a stage resolves them."
)

FileOption = Annotated[Path, typer.Option("--file", help="Read this file.", exists=True, dir_okay=False)]


@app.command()
def show(context: typer.Context, file: FileOption = Path("lanes.toml")) -> None:
    """
    Print the lanes of a file as the stage resolves them, highest first, and the engine.

    Use it before you deploy: it calls no AWS service. A problem such as an unknown key or settings that contradict each
    other ends it with exit code 1, and all problems of the file are listed. A note names a setting that is valid but
    seldom wanted. `lanes cdk diff` compares the file with your deployment.
    """
    target = target_of(context)
    config = LanesConfig.load(file, stage=target.stage or None)
    rows = [
        {
            "lane": lane.name,
            "threshold": lane.threshold if lane is not config.last_lane else "rest",
            "batch_size": lane.batch_size,
            "visibility": lane.visibility_timeout,
            **_engine_columns(lane, config.consumer),
            "max_wait": lane.max_wait or "none",
            "maximum_concurrency": lane.maximum_concurrency,
        }
        for lane in config.lanes
    ]
    show_rows(target, rows, empty="there are no lanes")
    say(_engine(config.consumer))
    for note in config.notes():
        say(f"note: {note}")


def _engine_columns(lane: Lane, consumer: ConsumerSettings) -> dict[str, Any]:
    """Return the settings of a lane that only this engine and this policy have."""
    if consumer.engine is EngineName.MAPPINGS:
        return {"min_yield_delay": lane.yield_delay_min, "max_yield_delay": lane.yield_delay_max}
    return {"weight": lane.weight} if consumer.is_weighted else {}


def _engine(consumer: ConsumerSettings) -> str:
    """Describe the engine and its settings on one line."""
    rates = {"max_rate": consumer.max_rate, **consumer.max_rates}
    limits = [f"{name} {format_rate(rate)}" for name, rate in rates.items() if rate is not None]
    engine = f"engine: pull, policy {consumer.policy}, linger {format_duration(consumer.linger)}"
    return ", ".join(["engine: mappings" if consumer.engine is EngineName.MAPPINGS else engine, *limits])
