"""`lanes simulate`: simulate a load on your lanes, with one or several values of their settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from lanes.cli.arguments import duration as one_duration
from lanes.cli.printing import console, say, show_json, table_of
from lanes.cli.target import Output, UsageError, target_of, usage
from lanes.config import LanesConfig
from lanes.config.reading import read_toml
from lanes.errors import ConfigurationError, LanesError
from lanes.installing import install_hint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .scenario import Scenario, Settings

DEFAULT_FILE = Path("lanes.toml")
T = TypeVar("T")

ScenarioFile = Annotated[
    Path | None,
    typer.Argument(
        metavar="SCENARIO", help="TOML file that describes the load.", exists=True, dir_okay=False
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--file",
        help="Read the lanes from this file (default: ./lanes.toml).",
        exists=True,
        dir_okay=False,
    ),
]
ArrivalsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--arrivals", help='Set a lane\'s messages: "HIGH rate=0.5 burst=20 service=200ms". Repeatable.'
    ),
]
AwayOption = Annotated[
    list[str] | None,
    typer.Option("--away", help="Let the resource be away from 10 to 30 minutes: 10m-30m. Repeatable."),
]
SlotsOption = Annotated[
    str | None,
    typer.Option("--slots", help="Override the reserved concurrency: a number, or several as 1,2,5."),
]
BatchSizeOption = Annotated[
    str | None, typer.Option("--batch-size", help="Override the batch size of every lane: 10, or 1,10.")
]
RecheckOption = Annotated[
    str | None, typer.Option("--recheck-interval", help="Override the recheck interval: 250ms, or 100ms,1s.")
]
PlotOption = Annotated[
    Path | None,
    typer.Option("--plot", metavar="FILE", help="Draw a chart into this SVG file.", dir_okay=False),
]


class MissingGreenletError(LanesError):
    """The package for virtual time is not installed."""


def add_to(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command()(simulate)


def simulate(
    context: typer.Context,
    scenario: ScenarioFile = None,
    *,
    file: ConfigFile = None,
    arrivals: ArrivalsOption = None,
    slots: SlotsOption = None,
    batch_size: BatchSizeOption = None,
    recheck_interval: RecheckOption = None,
    duration: Annotated[str | None, typer.Option(help="Let messages arrive for this time: 10m, 1h.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Set the seed of all random choices.")] = None,
    away: AwayOption = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Also run the plain pattern and no priority.")
    ] = False,
    plot: PlotOption = None,
) -> None:
    """
    Simulate a load on your lanes in virtual time, with the consumer's own code.

    Needs no AWS. Describe the load in SCENARIO, with --arrivals, or both. Several values of a setting, or of several
    settings, give one table with a row for each combination.
    """
    _require_greenlet()
    check_plot(plot)
    from . import comparison
    from .outcome import read_prices
    from .simulated_lanes import Pattern

    config = read_config(context, file)
    choices = read_settings(config, slots=slots, batch_size=batch_size, recheck_interval=recheck_interval)
    load = read_load(scenario, config, arrivals=arrivals, duration=duration, seed=seed, away=away)
    for note in load_notes(load, [one.apply(config) for one in choices]):
        say(f"note: {note}")
    runs = comparison.compare(
        load,
        config,
        patterns=[Pattern.LANES, *([Pattern.PLAIN, Pattern.NONE] if compare else [])],
        prices=read_prices(),
        settings=choices,
        report=say,
    )
    if plot is not None:
        comparison.write(comparison.chart(runs), plot)
    if target_of(context).output is Output.JSON:
        show_json({"runs": [run.plain() for run in runs]})
    else:
        console().print(table_of(comparison.rows(runs)))


def check_plot(plot: Path | None) -> None:
    """Refuse a file that programs would take for another format; before the simulation, which takes minutes."""
    if plot is not None and plot.suffix != ".svg":
        raise typer.BadParameter(f"{str(plot)!r} does not end with .svg", param_hint="--plot")


def read_config(context: typer.Context, file: Path | None) -> LanesConfig:
    """Return the lanes of the file, of ./lanes.toml or the defaults."""
    stage = target_of(context).stage or None
    path = file or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)
    return LanesConfig.load(path, stage=stage) if path else LanesConfig.from_dict({}, stage=stage)


def read_settings(
    config: LanesConfig, *, slots: str | None, batch_size: str | None, recheck_interval: str | None
) -> list[Settings]:
    """
    Return each combination of the listed values.

    Raises:
        typer.BadParameter: a list has an empty, wrong or repeated value.
        UsageError: the lanes can't have a value.

    """
    from .scenario import combinations

    found = combinations(
        slots=listed(slots, "--slots", _count),
        batch_sizes=listed(batch_size, "--batch-size", _count),
        rechecks=listed(recheck_interval, "--recheck-interval", one_duration),
    )
    given = {"--slots": slots, "--batch-size": batch_size, "--recheck-interval": recheck_interval}
    with usage(", ".join(option for option, text in given.items() if text is not None)):
        for one in found:
            one.apply(config)
    return found


def listed(text: str | None, option: str, read: Callable[[str, str], T]) -> list[T]:
    """
    Return the values of a list with commas; none if the option was not given.

    Raises:
        typer.BadParameter: a value is empty, repeated, or refused by `read`.

    """
    if text is None:
        return []
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise typer.BadParameter(
            f"{text!r} has an empty value; separate values by one comma, such as 1,2,5", param_hint=option
        )
    values = [read(part, option) for part in parts]
    for place, value in enumerate(values):
        if value in values[:place]:
            raise typer.BadParameter(f"{parts[place]!r} is listed twice in {text!r}", param_hint=option)
    return values


def _count(text: str, option: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise typer.BadParameter(
            f"{text!r} is not a whole number; give a number such as 3, or several such as 1,2,5",
            param_hint=option,
        )
    return int(text)


def read_load(
    path: Path | None,
    config: LanesConfig,
    *,
    arrivals: list[str] | None,
    duration: str | None,
    seed: int | None,
    away: list[str] | None,
) -> Scenario:
    """
    Return the load of the file, overridden by the options.

    Raises:
        UsageError: an option is wrong, or no load is given; lists all problems.
        ConfigurationError: the file alone is wrong; lists all problems.

    """
    from . import scenario

    raw: dict[str, Any] = {}
    source = "options"
    if path is not None:
        raw, source = read_toml(path), str(path)
    tables = raw.get("arrivals", {})
    given = {"duration": duration, "seed": seed, "away": away}
    options = {key: value for key, value in given.items() if value is not None}
    try:
        if isinstance(tables, dict):
            for text in arrivals or ():
                scenario.arrivals_option(text, tables)
        return scenario.resolve({**raw, "arrivals": tables, **options}, config, source=source)
    except ConfigurationError as error:
        if path is not None and not (arrivals or options):
            raise
        raise UsageError(error.problems, source=source) from error


def load_notes(load: Scenario, configs: Sequence[LanesConfig]) -> list[str]:
    """Return notes to read before the figures."""
    needed = load.slots_needed
    few = sorted(
        {one.consumer.reserved_concurrency for one in configs if needed > one.consumer.reserved_concurrency}
    )
    notes = []
    if few:
        notes.append(
            f"the arrivals keep {needed:.1f} slots busy: with {' or '.join(map(str, few))} the lower lanes fall behind "
            f"as long as messages arrive"
        )
    if load.expected_messages > MANY_MESSAGES:
        notes.append(
            f"about {load.expected_messages:,.0f} messages; the simulation handles some 5,000 a second"
        )
    return notes


MANY_MESSAGES = 20_000


def _require_greenlet() -> None:
    try:
        import greenlet  # noqa: F401
    except ImportError as error:
        raise MissingGreenletError(
            f"virtual time needs the package greenlet: {install_hint('simulator')}"
        ) from error
