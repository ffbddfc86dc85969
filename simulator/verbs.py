"""`lanes simulate` and `lanes plan`: what the lanes would do under a load, and which settings hold what is asked."""

from __future__ import annotations

import sys
import time
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lanes.cli.place import Output, place_of
from lanes.cli.printing import console, say, show_json, table_of
from lanes.config import LanesConfig
from lanes.errors import ConfigurationError, LanesError

from .settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .comparison import Run
    from .scenario import Scenario

USUAL_FILE = Path("lanes.toml")

ScenarioFile = Annotated[
    Path | None, typer.Argument(metavar="[SCENARIO]", help="TOML file of the load.", dir_okay=False)
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--file", help="The lanes; ./lanes.toml where there is one.", exists=True, dir_okay=False),
]
ArrivalsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--arrivals", help='A lane\'s messages: "HIGH rate=0.5 burst=20 service=200ms". May be repeated.'
    ),
]
SlotsOption = Annotated[
    int | None, typer.Option("--slots", min=1, help="Another reserved concurrency than the file's.")
]
PricesOption = Annotated[
    Path | None, typer.Option("--prices", help="Prices of your own.", exists=True, dir_okay=False)
]


class MissingKernelError(LanesError):
    """The package that virtual time runs on is not installed."""


def simulate(
    context: typer.Context,
    scenario: ScenarioFile = None,
    *,
    file: ConfigFile = None,
    arrivals: ArrivalsOption = None,
    slots: SlotsOption = None,
    duration: Annotated[str | None, typer.Option(help="How long messages arrive: 10m, 1h.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="What decides chance.")] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="The plain pattern and no priority beside it.")
    ] = False,
    unknowns: Annotated[
        str, typer.Option(help="'all': ranges over what AWS does not document; 'given': one run.")
    ] = "given",
    plot: Annotated[Path | None, typer.Option(help="Draw the waits into this PNG file.")] = None,
    prices: PricesOption = None,
    experiment: Annotated[
        str | None, typer.Option(help="Replay one of the first experiments instead; 'all' for all.")
    ] = None,
) -> None:
    """
    Play a load against the lanes in virtual time, with the consumer's own code.

    Needs no AWS. The load comes from SCENARIO, from --arrivals, or from both.
    """
    _need_kernel()
    if experiment is not None:
        _experiments(context, experiment)
        return
    from lanes.operate.prices import read_prices

    from . import comparison, presentation
    from .world import Pattern

    if unknowns not in ("all", "given"):
        raise typer.BadParameter(f"{unknowns!r} is neither 'all' nor 'given'", param_hint="--unknowns")
    config = read_config(context, file, slots)
    load = read_load(scenario, config, arrivals=arrivals, duration=duration, seed=seed)
    for note in load_notes(load, config):
        say(f"note: {note}")
    began = time.process_time()
    runs = comparison.compare(
        load,
        config,
        patterns=list(Pattern) if compare else [Pattern.LANES],
        prices=read_prices(prices),
        all_unknowns=unknowns == "all",
        tell=say if unknowns == "all" or compare else lambda _text: None,
    )
    say(effort(runs, seconds=time.process_time() - began))
    if plot is not None:
        presentation.draw(runs, plot)
    _show(context, runs)


def plan(
    context: typer.Context,
    scenario: ScenarioFile = None,
    *,
    target: Annotated[
        list[str], typer.Option("--target", help='What has to hold: "HIGH p99 < 2s". May be repeated.')
    ],
    file: ConfigFile = None,
    arrivals: ArrivalsOption = None,
    most_slots: Annotated[
        int,
        typer.Option("--most-slots", min=1, help="The most invocations at once that may be planned with."),
    ] = 20,
    budget: Annotated[
        int, typer.Option(min=1, help="The most runs; the answer says so if they were not enough.")
    ] = 150,
    duration: Annotated[str | None, typer.Option(help="How long messages arrive: 10m, 1h.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="What decides chance.")] = None,
    prices: PricesOption = None,
) -> None:
    """
    Search the cheapest settings under which the targets hold over the range of what AWS does not document.

    Prints them as a part of lanes.toml, with the figures that speak for them. Ends with 3 if nothing holds.
    """
    _need_kernel()
    from lanes.operate.prices import read_prices

    from . import search
    from .targets import parse_target

    config = read_config(context, file, None)
    targets = [parse_target(text, config) for text in target]
    load = read_load(scenario, config, arrivals=arrivals, duration=duration, seed=seed)
    answer = search.Search(
        load, config, targets=targets, prices=read_prices(prices), budget=budget, tell=say
    ).run(most_slots=most_slots)
    if place_of(context).output is Output.JSON:
        show_json(answer.plain())
    else:
        typer.echo(answer.text())
    if answer.best is None:
        raise typer.Exit(3)


def read_config(context: typer.Context, file: Path | None, slots: int | None) -> LanesConfig:
    """Return the lanes of the file, or of ./lanes.toml, or the usual ones; with that many slots."""
    stage = place_of(context).stage or None
    path = file or (USUAL_FILE if USUAL_FILE.exists() else None)
    config = LanesConfig.load(path, stage=stage) if path else LanesConfig.from_dict({}, stage=stage)
    return config if slots is None else Settings(slots=slots).apply(config)


def read_load(
    path: Path | None,
    config: LanesConfig,
    *,
    arrivals: list[str] | None,
    duration: str | None,
    seed: int | None,
) -> Scenario:
    """
    Return the load of the file, with what the options say over it.

    Raises:
        ConfigurationError: with everything that is wrong.

    """
    from . import scenario

    raw: dict[str, Any] = {}
    source = "options"
    if path is not None:
        raw, source = _toml(path), str(path)
    tables = dict(raw["arrivals"]) if isinstance(raw.get("arrivals"), dict) else raw.get("arrivals", {})
    for text in arrivals or ():
        scenario.arrivals_option(text, tables)
    given = {"duration": duration, "seed": seed}
    return scenario.resolve(
        {**raw, "arrivals": tables, **{key: value for key, value in given.items() if value is not None}},
        config,
        source=source,
    )


def load_notes(load: Scenario, config: LanesConfig) -> list[str]:
    """Say what a person should know before reading the figures."""
    slots = config.consumer.reserved_concurrency
    needed = load.slots_needed
    notes = []
    if needed > slots:
        notes.append(
            f"what arrives keeps {needed:.1f} slots busy and there are {slots}: the lower lanes fall behind "
            f"for as long as it goes on"
        )
    if load.expected_messages > MANY_MESSAGES:
        notes.append(f"about {load.expected_messages:,.0f} messages; some 5,000 are simulated in a second")
    return notes


def effort(runs: Sequence[Run], *, seconds: float) -> str:
    """Say what the simulation itself cost, in seconds of processor time."""
    messages = sum(lane.sent for run in runs for lane in run.outcome.lanes)
    events = sum(run.events for run in runs)
    return (
        f"{messages:,} messages, {events:,} events in {seconds:.1f} s of processor time: "
        f"{events / max(seconds, 0.001):,.0f} events a second{_peak()}"
    )


def _peak() -> str:
    """Say how much memory the process had at most, where the system tells."""
    try:
        import resource
    except ImportError:
        return ""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT / MEGABYTE
    return f", {peak:,.0f} MB at most"


MANY_MESSAGES = 20_000
MEGABYTE = 1_000_000
RSS_UNIT = 1 if sys.platform == "darwin" else 1_024
"""Bytes that getrusage counts memory by."""


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ConfigurationError([f"the file can't be read: {reason}"], source=str(path)) from error
    except ValueError as error:
        raise ConfigurationError([f"not a TOML file: {error}"], source=str(path)) from error


def _show(context: typer.Context, runs: list[Run]) -> None:
    from . import comparison, presentation

    if place_of(context).output is Output.JSON:
        show_json(presentation.plain(runs))
        return
    console().print(table_of(presentation.spoken(comparison.lane_rows(runs))))
    console().print(table_of(presentation.spoken(comparison.total_rows(runs))))


def _experiments(context: typer.Context, name: str) -> None:
    from . import experiments

    found = experiments.named(name)
    if place_of(context).output is Output.JSON:
        show_json([experiments.replay(one).plain() for one in found])
        return
    for one in found:
        typer.echo(experiments.replay(one).text())


def _need_kernel() -> None:
    try:
        import greenlet  # noqa: F401
    except ImportError as error:
        raise MissingKernelError(
            "virtual time needs the package greenlet: pip install 'priority-lanes[simulator]'"
        ) from error
