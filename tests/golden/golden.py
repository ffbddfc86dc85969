"""Compares what the product gives out with a golden file, and renews the file where that is asked for."""

from __future__ import annotations

import difflib
import json
import os
from pathlib import Path

DATA = Path(__file__).parent / "data"
RENEW = "RENEW_GOLDEN"
"""Environment variable: with `RENEW_GOLDEN=1` the files are written instead of compared. Read their diff."""

LONGEST_LINE = 110


def check(name, found):
    """
    Check that `found` is what the golden file of this name holds.

    Raises:
        AssertionError: it is not; with the lines that differ.

    """
    path = DATA / f"{name}.json"
    text = _render(json.loads(json.dumps(found))) + "\n"
    if os.environ.get(RENEW):
        path.write_text(text)
        return
    kept = path.read_text() if path.exists() else ""
    if text != kept:
        diff = difflib.unified_diff(
            kept.splitlines(), text.splitlines(), str(path), "found", lineterm="", n=6
        )
        hint = f"If the change is meant, renew the file with {RENEW}=1 and say in the commit why."
        raise AssertionError("\n".join([f"{name} has changed. {hint}", *diff]))


def _render(value, indent=0, key=""):
    """Write JSON with short values on one line, long ones on several, and keys in order."""
    brief = key + json.dumps(value, sort_keys=True, ensure_ascii=False)
    if not value or not isinstance(value, dict | list) or indent + len(brief) <= LONGEST_LINE:
        return brief
    deeper, inner = " " * (indent + 2), indent + 2
    if isinstance(value, list):
        parts, ends = [_render(one, inner) for one in value], "[]"
    else:
        ordered = value.items() if "step" in value else sorted(value.items())
        parts = [_render(one, inner, f"{json.dumps(name, ensure_ascii=False)}: ") for name, one in ordered]
        ends = "{}"
    body = f",\n{deeper}".join(parts)
    return f"{key}{ends[0]}\n{deeper}{body}\n{' ' * indent}{ends[1]}"
