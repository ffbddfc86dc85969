"""The axes of the plots: round numbers around the measurements, few enough for a phone."""

import re

import pytest

from lanes.probe.plots import MOST_TICKS, even_ticks, logarithmic_ticks, strips
from lanes.probe.profile import Spread
from lanes.probe.words import seconds


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.0012, 0.004, [0.001, 0.002, 0.005]),
        (2.0, 2.0, [2, 5]),
        (0.9, 6.0, [0.5, 1, 2, 5, 10]),
        (0.0003, 40, [0.0001, 0.001, 0.01, 0.1, 1, 10, 100]),
    ],
)
def test_logarithmic_ticks_are_round_and_hold_all_times(low, high, ticks):
    """A long range has powers of ten alone."""
    assert logarithmic_ticks(low, high) == pytest.approx(ticks)


@pytest.mark.parametrize(
    ("longest", "step", "count"), [(10.3, 2, 6), (61.0, 20, 4), (0.7, 0.2, 4), (6.0, 1, 7)]
)
def test_even_ticks_are_multiples_of_a_round_number(longest, step, count):
    """From 0 to the last one that is not beyond the end."""
    ticks = even_ticks(longest)

    assert ticks == pytest.approx([step * number for number in range(count)])
    assert len(ticks) <= MOST_TICKS


def test_the_range_of_a_row_is_inside_the_axis():
    """Also where it is longer than its measurements."""
    picture = strips({"waits": ([1.0, 1.1], Spread(low=1, typical=1.2, high=4, samples=2))}, seconds)

    (right,) = re.findall(r"class='range' x1='[\d.]+' x2='([\d.]+)'", picture)
    assert float(right) < 560
    assert ">5 s<" in picture
