"""
Plots of measurements as inline SVG; colours and fonts are those of the page.

Labels are above their rows, since a narrow screen has no room beside them.
"""

from __future__ import annotations

import math
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lanes.probe.profile import Spread

WIDTH, ROW, LABEL, SIDE, AXIS = 560, 52, 22, 26, 26
PLOT = WIDTH - 2 * SIDE
STEPS_HEIGHT = 170
NOTHING = 1e-4
"""A tenth of a millisecond: shorter times are drawn there, as a logarithm needs."""
MOST_TICKS = 7
"""More would touch each other on a phone."""


def strips(rows: Mapping[str, tuple[Sequence[float], Spread | None]], write: Callable[[float], str]) -> str:
    """Draw a dot for each time on a logarithmic axis, and a line over the range of each row."""
    values = [one for dots, _ in rows.values() for one in dots]
    values += [end for _, spread in rows.values() if spread is not None for end in (spread.low, spread.high)]
    ticks = logarithmic_ticks(max(min(values), NOTHING), max(*values, NOTHING))
    first, last = math.log10(ticks[0]), math.log10(ticks[-1])

    def place(value: float) -> float:
        return SIDE + PLOT * (math.log10(max(value, NOTHING)) - first) / (last - first)

    height = ROW * len(rows) + AXIS
    marks = [_tick(place(one), height - AXIS, write(one)) for one in ticks]
    for number, (label, (dots, spread)) in enumerate(rows.items()):
        middle = _middle(number)
        marks.append(_label(label, number))
        marks += [
            f"<circle cx='{place(one):.1f}' cy='{middle + (index % 5 - 2) * 3:.1f}' r='3'/>"
            for index, one in enumerate(dots)
        ]
        if spread is not None:
            typical = f"{place(spread.typical):.1f}"
            marks += [
                _range(place(spread.low), place(spread.high), middle),
                f"<line class='typical' x1='{typical}' x2='{typical}' y1='{middle - 10}' y2='{middle + 10}'/>",
            ]
    return _picture(height, marks, f"Times of {', '.join(rows)}")


def bars(rows: Mapping[str, Spread]) -> str:
    """Draw shares from 0 to 100%, with their interval."""
    height = ROW * len(rows) + AXIS

    def place(share: float) -> float:
        return SIDE + PLOT * share

    marks = [_tick(place(share / 4), height - AXIS, f"{share * 25}%") for share in range(5)]
    for number, (label, spread) in enumerate(rows.items()):
        middle = _middle(number)
        marks += [
            _label(label, number),
            f"<rect x='{SIDE}' y='{middle - 9}' width='{PLOT * spread.typical:.1f}' height='18'/>",
            _range(place(spread.low), place(spread.high), middle),
        ]
    return _picture(height, marks, f"Shares of {', '.join(rows)}")


def steps(rows: Mapping[str, Sequence[tuple[float, int]]]) -> str:
    """Draw the number of invocations over the time in seconds, a line for each row."""
    longest = max((line[-1][0] for line in rows.values() if line), default=1.0) or 1.0
    peaks = {max((number for _, number in line), default=1) for line in rows.values()}
    bottom, most = LABEL + STEPS_HEIGHT, max(peaks, default=1)

    def across(at: float) -> float:
        return SIDE + PLOT * at / longest

    def up(number: int) -> float:
        return bottom - (STEPS_HEIGHT - 12) * number / most

    marks = [_tick(across(one), bottom, f"{one:g} s") for one in even_ticks(longest)]
    for peak in sorted(peaks):
        marks += [
            f"<line class='grid' x1='{SIDE}' x2='{WIDTH - SIDE}' y1='{up(peak):.1f}' y2='{up(peak):.1f}'/>",
            f"<text class='tick' x='{SIDE / 2 - 2}' y='{up(peak) + 4:.1f}'>{peak}</text>",
        ]
    for number, (label, line) in enumerate(rows.items()):
        path, before = [], 0
        for at, running in line:
            path.append(f"L{across(at):.1f},{up(before):.1f} L{across(at):.1f},{up(running):.1f}")
            before = running
        marks.append(f"<path class='step-{number}' d='M{SIDE},{up(0):.1f} {' '.join(path)}'/>")
        left = SIDE + number * PLOT / len(rows)
        marks.append(f"<text class='legend-{number}' x='{left:.1f}' y='15'>{escape(label)}</text>")
    return _picture(bottom + AXIS, marks, f"Invocations at once: {', '.join(rows)}")


def logarithmic_ticks(low: float, high: float) -> list[float]:
    """Return two round numbers or more around a range; in a long one, powers of ten alone."""
    ticks: list[float] = []
    for parts in ((1, 2, 5), (1,)):
        ticks = list(_around(low, high, parts))
        if len(ticks) <= MOST_TICKS:
            break
    return ticks


def _around(low: float, high: float, parts: Sequence[int]) -> Iterator[float]:
    """Yield round numbers from the last one that is not above `low` to the first one above `high`."""
    powers = range(math.floor(math.log10(low)), math.floor(math.log10(high)) + 2)
    numbers = [part * 10.0**power for power in powers for part in parts]
    first = max(index for index, one in enumerate(numbers) if one <= low)
    last = min(index for index, one in enumerate(numbers) if one > high)
    yield from numbers[first : last + 1]


def even_ticks(longest: float) -> list[float]:
    """Return multiples of a round number from 0 on."""
    step = next(one for one in _around(longest / (MOST_TICKS - 1), longest, (1, 2, 5)) if one * 6 >= longest)
    return [step * number for number in range(math.floor(longest / step) + 1)]


def _middle(number: int) -> float:
    return ROW * number + LABEL + (ROW - LABEL) / 2


def _tick(x: float, bottom: float, text: str) -> str:
    return (
        f"<line class='grid' x1='{x:.1f}' x2='{x:.1f}' y1='{LABEL}' y2='{bottom}'/>"
        f"<text class='tick' x='{x:.1f}' y='{bottom + 18}'>{escape(text)}</text>"
    )


def _range(low: float, high: float, middle: float) -> str:
    return f"<line class='range' x1='{low:.1f}' x2='{high:.1f}' y1='{middle}' y2='{middle}'/>"


def _label(text: str, number: int) -> str:
    """Write the label of a row over it, on a ground that hides the grid."""
    return f"<text class='label' x='{SIDE}' y='{ROW * number + 16}'>{escape(text)}</text>"


def _picture(height: float, marks: Sequence[str], words: str) -> str:
    return (
        f"<svg viewBox='0 0 {WIDTH} {height}' role='img' aria-label='{escape(words, quote=True)}'>"
        f"{''.join(marks)}</svg>"
    )
