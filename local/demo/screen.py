"""The screen: a live picture on a terminal, plain lines elsewhere, nothing at all when asked to be quiet."""

import sys
import time
from collections.abc import Sequence
from typing import Protocol, Self, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from local.demo.view import FloodView, LaneView

LANE_STYLES = ("bold red", "yellow", "cyan", "magenta", "green", "blue", "white")
_REFRESHES_A_SECOND = 4
_PLAIN_EVERY_SECONDS = 5.0
_BAR_WIDTH = 50


class Screen(Protocol):
    """Shows how a demo goes."""

    def phase(self, words: str) -> None:
        """Tell that a phase begins."""

    def show(self, view: FloodView) -> None:
        """Show a run at this moment."""

    def __enter__(self) -> Self:
        """Begin to show."""

    def __exit__(self, *_details: object) -> None:
        """Leave the screen as it should stay."""


def choose_screen(*, quiet: bool, stream: TextIO = sys.stdout) -> Screen:
    """Choose the screen that suits the options and the output."""
    if quiet:
        return QuietScreen()
    return LiveScreen(Console(file=stream)) if stream.isatty() else PlainScreen(stream)


class QuietScreen:
    """Shows nothing."""

    def phase(self, words: str) -> None:
        """Show nothing."""

    def show(self, view: FloodView) -> None:
        """Show nothing."""

    def __enter__(self) -> Self:
        """Do nothing."""
        return self

    def __exit__(self, *_details: object) -> None:
        """Do nothing."""


class PlainScreen:
    """Writes a line for each phase, and one every few seconds while a run goes on."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._began = time.monotonic()
        self._next = 0.0

    def phase(self, words: str) -> None:
        """Write the phase."""
        self._write(words)
        self._next = 0.0

    def show(self, view: FloodView) -> None:
        """Write a line if the last one is old."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _PLAIN_EVERY_SECONDS
            self._write("  " + "; ".join([f"{view.done} of {view.total} done", *map(_words, view.lanes)]))

    def _write(self, words: str) -> None:
        self._stream.write(f"{time.monotonic() - self._began:6.1f} s  {words}\n")
        self._stream.flush()

    def __enter__(self) -> Self:
        """Do nothing."""
        return self

    def __exit__(self, *_details: object) -> None:
        """Do nothing."""


def _words(lane: LaneView) -> str:
    return (
        f"{lane.name} {lane.waiting} waiting, {lane.in_flight} in flight, {lane.done} done, "
        f"{lane.yields} yields, {lane.pace:.0f}/s"
    )


class LiveScreen:
    """Draws phases, lanes and progress in place."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self._phases: list[tuple[str, float, float | None]] = []
        self._view = FloodView()
        self._live = Live(
            console=console,
            get_renderable=self._picture,
            refresh_per_second=_REFRESHES_A_SECOND,
            vertical_overflow="visible",
        )

    def phase(self, words: str) -> None:
        """Close the phase that went on and begin the next one."""
        self._close_phase()
        self._phases.append((words, time.monotonic(), None))
        self._view = FloodView()

    def _close_phase(self) -> None:
        if self._phases and self._phases[-1][2] is None:
            words, began, _ = self._phases[-1]
            self._phases[-1] = (words, began, time.monotonic())

    def show(self, view: FloodView) -> None:
        """Take the view for the next refresh."""
        self._view = view

    def _picture(self) -> RenderableType:
        parts: list[RenderableType] = [_phase_line(*one) for one in self._phases]
        view = self._view
        if view.lanes:
            parts += [Text(), _lane_table(view.lanes), Text(), _progress(view)]
        return Group(*parts)

    def __enter__(self) -> Self:
        """Take over the terminal's last lines."""
        self._live.start(refresh=True)
        return self

    def __exit__(self, *_details: object) -> None:
        """Leave the phases with their times."""
        self._close_phase()
        self._view = FloodView()
        self._live.stop()


def _phase_line(words: str, began: float, ended: float | None) -> Text:
    seconds = (time.monotonic() if ended is None else ended) - began
    mark, style = ("…", "bold") if ended is None else ("✓", "dim")
    return Text(f" {mark} {words} ({seconds:.0f} s)", style=style)


def _lane_table(lanes: Sequence[LaneView]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 1), header_style="dim")
    table.add_column("lane")
    for heading in ("waiting", "in flight", "done", "yields", "a second"):
        table.add_column(heading, justify="right")
    for number, lane in enumerate(lanes):
        numbers = (lane.waiting, lane.in_flight, lane.done, lane.yields, round(lane.pace))
        style = LANE_STYLES[number % len(LANE_STYLES)]
        table.add_row(Text(lane.name, style=style), *(f"{one:,}" for one in numbers))
    return table


def _progress(view: FloodView) -> RenderableType:
    row = Table.grid(padding=(0, 1))
    bar = ProgressBar(total=max(1, view.total), completed=view.done, width=_BAR_WIDTH)
    row.add_row(" ", bar, f"{view.done:,} of {view.total:,}")
    return row
