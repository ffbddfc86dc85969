"""Plots of measurements as inline SVG; colours and fonts are those of the page."""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.probe.profile import Spread

WIDTH, ROW, LABEL, RIGHT, AXIS = 720, 34, 190, 24, 26
PLOT = WIDTH - LABEL - RIGHT
STEPS_HEIGHT = 170
NOTHING = 1e-4
"""A tenth of a millisecond: shorter times are drawn there, as a logarithm needs."""


def strips(rows: Mapping[str, tuple[Sequence[float], Spread | None]], write: Callable[[float], str]) -> str:
    """Draw a dot for each time on a logarithmic axis, and a line over the range of each row."""
    values = [max(one, NOTHING) for dots, _ in rows.values() for one in dots]
    first = math.floor(math.log10(min(values)))
    last = max(first + 1, math.ceil(math.log10(max(values))))

    def place(value: float) -> float:
        return LABEL + PLOT * (math.log10(max(value, NOTHING)) - first) / (last - first)

    height = ROW * len(rows) + AXIS
    marks = [_tick(place(10**power), height - AXIS, write(10**power)) for power in range(first, last + 1)]
    for number, (label, (dots, spread)) in enumerate(rows.items()):
        middle = ROW * number + ROW / 2
        marks.append(_label(label, middle))
        if spread is not None:
            typical = f"{place(spread.typical):.1f}"
            marks += [
                _range(place(spread.low), place(spread.high), middle),
                f"<line class='typical' x1='{typical}' x2='{typical}' y1='{middle - 9}' y2='{middle + 9}'/>",
            ]
        marks += [
            f"<circle cx='{place(one):.1f}' cy='{middle + (index % 5 - 2) * 3:.1f}' r='2.5'/>"
            for index, one in enumerate(dots)
        ]
    return _picture(height, marks, f"Times of {', '.join(rows)}")


def bars(rows: Mapping[str, Spread]) -> str:
    """Draw shares from 0 to 100 %, with their interval."""
    height = ROW * len(rows) + AXIS

    def place(share: float) -> float:
        return LABEL + PLOT * share

    marks = [_tick(place(share / 4), height - AXIS, f"{share * 25} %") for share in range(5)]
    for number, (label, spread) in enumerate(rows.items()):
        top, middle = ROW * number + 8, ROW * number + ROW / 2
        marks += [
            _label(label, middle),
            f"<rect x='{LABEL}' y='{top}' width='{PLOT * spread.typical:.1f}' height='{ROW - 16}'/>",
            _range(place(spread.low), place(spread.high), middle),
        ]
    return _picture(height, marks, f"Shares of {', '.join(rows)}")


def steps(rows: Mapping[str, Sequence[tuple[float, int]]]) -> str:
    """Draw the number of invocations over the time in seconds, a line for each row."""
    longest = max((line[-1][0] for line in rows.values() if line), default=1.0) or 1.0
    most = max((number for line in rows.values() for _, number in line), default=1)
    height = STEPS_HEIGHT + AXIS

    def across(at: float) -> float:
        return LABEL + PLOT * at / longest

    def up(number: int) -> float:
        return STEPS_HEIGHT - (STEPS_HEIGHT - 12) * number / most

    marks = [
        _tick(across(longest * part / 4), STEPS_HEIGHT, f"{longest * part / 4:.3g} s") for part in range(5)
    ]
    marks.append(f"<text class='tick' x='{LABEL - 14}' y='16'>{most}</text>")
    for number, (label, line) in enumerate(rows.items()):
        path, before = [], 0
        for at, running in line:
            path.append(f"L{across(at):.1f},{up(before):.1f} L{across(at):.1f},{up(running):.1f}")
            before = running
        marks.append(f"<path class='step-{number}' d='M{LABEL},{up(0):.1f} {' '.join(path)}'/>")
        marks.append(f"<text class='legend-{number}' x='0' y='{20 + 20 * number}'>{escape(label)}</text>")
    return _picture(height, marks, f"Invocations at once: {', '.join(rows)}")


def _tick(x: float, bottom: float, text: str) -> str:
    return (
        f"<line class='grid' x1='{x:.1f}' x2='{x:.1f}' y1='0' y2='{bottom}'/>"
        f"<text class='tick' x='{x:.1f}' y='{bottom + 18}'>{escape(text)}</text>"
    )


def _range(low: float, high: float, middle: float) -> str:
    return f"<line class='range' x1='{low:.1f}' x2='{high:.1f}' y1='{middle}' y2='{middle}'/>"


def _label(text: str, middle: float) -> str:
    return f"<text x='0' y='{middle + 4}'>{escape(text)}</text>"


def _picture(height: float, marks: Sequence[str], words: str) -> str:
    return (
        f"<div class='wide'><svg viewBox='0 0 {WIDTH} {height}' role='img' aria-label='{escape(words, quote=True)}'>"
        f"{''.join(marks)}</svg></div>"
    )
