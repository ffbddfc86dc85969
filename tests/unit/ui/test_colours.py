"""The page's colours, by day and by night."""

import re
from importlib.resources import files

import pytest

STYLE = (files("lanes.ui") / "assets" / "style.css").read_text(encoding="utf-8")
SCHEMES = dict(
    zip(
        ("light", "dark"),
        [
            dict(re.findall(r"--([\w-]+): #(\w{6})", block))
            for block in re.findall(r":root \{(.*?)\n\s*\}", STYLE, re.DOTALL)
        ],
        strict=True,
    )
)
TEXTS = [
    ("text", "page"),
    ("quiet", "page"),
    ("quiet", "panel"),
    ("quiet", "raised"),
    ("accent", "panel"),
    ("on-accent", "accent"),
    ("good", "good-back"),
    ("warn", "warn-back"),
    ("bad", "bad-back"),
    ("bad", "panel"),
]
LANES = [(f"lane-{number}", "panel") for number in range(7)]


def luminance(colour):
    """Give the relative luminance, as WCAG 2 defines it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (
        part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize(("front", "back"), TEXTS + LANES)
def test_what_is_to_be_read_stands_out(scheme, front, back):
    """Text by 4.5 to 1, shapes by 3 to 1: WCAG 2, level AA."""
    one, other = sorted(luminance(SCHEMES[scheme][name]) for name in (front, back))

    assert (other + 0.05) / (one + 0.05) >= (3.0 if front.startswith("lane") else 4.5)
