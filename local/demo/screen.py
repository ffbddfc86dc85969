"""The screen: a live picture on a terminal, plain lines elsewhere, nothing at all when asked to be quiet."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
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
_BESIDE_BAR = 30


class Screen(Protocol):
    """Shows the progress of a demo."""

    def phase(self, words: str) -> None:
        """Show that a phase begins."""

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
    """Writes a line for each phase, and one every few seconds during a run."""

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
            self._write(f"  {_state(view)}")

    def _write(self, words: str) -> None:
        self._stream.write(f"{time.monotonic() - self._began:6.1f} s  {words}\n")
        self._stream.flush()

    def __enter__(self) -> Self:
        """Do nothing."""
        return self

    def __exit__(self, *_details: object) -> None:
        """Do nothing."""


def _state(view: FloodView) -> str:
    """Return one line about a run, without zeros."""
    done = [f"{view.done:,} of {view.total:,} done"] if view.done else []
    lanes = [f"{lane.name} {words}" for lane in view.lanes if (words := _words(lane))]
    return "; ".join([*done, *lanes]) or "the lanes are empty"


def _words(lane: LaneView) -> str:
    counts = (
        (lane.waiting, "waiting"),
        (lane.in_flight, "in flight"),
        (lane.done, "done"),
        (lane.yields, "yields"),
        (round(lane.pace), "a second"),
    )
    return ", ".join(f"{count:,} {noun}" for count, noun in counts if count)


@dataclass(slots=True)
class _Phase:
    """A phase on the screen: `ended` is None until its end."""

    words: str
    began: float
    ended: float | None = None
    is_done: bool = True

    def line(self) -> Text:
        seconds = (time.monotonic() if self.ended is None else self.ended) - self.began
        mark, style = ("…", "bold") if self.ended is None else ("✓", "dim") if self.is_done else ("✗", "bold")
        return Text(f" {mark} {self.words} ({seconds:.0f} s)", style=style)


class LiveScreen:
    """Draws phases, lanes and progress in place."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = time.monotonic()
        self._phases: list[_Phase] = []
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
        self._phases.append(_Phase(words, began=time.monotonic()))
        self._view = FloodView()

    def _close_phase(self, *, is_done: bool = True) -> None:
        if self._phases and self._phases[-1].ended is None:
            self._phases[-1].ended = time.monotonic()
            self._phases[-1].is_done = is_done

    def show(self, view: FloodView) -> None:
        """Take the view for the next refresh."""
        self._view = view

    def _picture(self) -> RenderableType:
        parts: list[RenderableType] = [one.line() for one in self._phases]
        view = self._view
        if view.lanes:
            parts += [Text(), _lane_table(view.lanes), Text(), _progress(view, width=self._console.width)]
        return Group(*parts)

    def __enter__(self) -> Self:
        """Take over the terminal's last lines."""
        self._live.start(refresh=True)
        return self

    def __exit__(self, error: object = None, *_details: object) -> None:
        """Leave the phases with their times, and the one that an error or Ctrl-C ended as not done."""
        self._close_phase(is_done=error is None)
        self._view = FloodView()
        self._live.stop()


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


def _progress(view: FloodView, *, width: int) -> RenderableType:
    row = Table.grid(padding=(0, 1))
    room = min(_BAR_WIDTH, max(1, width - _BESIDE_BAR))
    bar = ProgressBar(total=max(1, view.total), completed=view.done, width=room)
    row.add_row(" ", bar, f"{view.done:,} of {view.total:,}")
    return row
