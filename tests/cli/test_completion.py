"""Shell completion, as a shell asks for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("lanes t", {"trace", "tail"}),
        ("lanes tail --ev", {"--event"}),
        ("lanes dead-letters sh", {"show"}),
        ("lanes pause M", {"MEDIUM", "MAIN"}),
        ("lanes dead-letters redrive H", {"HIGH"}),
        ("lanes --stage demo-", {"demo-off", "demo-pull"}),
        ("lanes tail --kind payment.", {"payment.captured"}),
        ("lanes cancel --kind refund", {"refund.requested"}),
        ("lanes dead-letters list --kind order.p", {"order.placed"}),
        ("lanes send order.p", {"order.placed"}),
    ],
)
def test_a_shell_is_offered_verbs_options_and_names(words, offered):
    """Those that begin like the typed word: lanes and stages of the lanes.toml here, kinds of the handlers here."""
    place = str(len(words.split()) - 1)
    asked = {"_LANES_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": place}

    done = subprocess.run(
        [sys.executable, "-m", "lanes"],
        cwd=ROOT,
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=False,
    )

    assert set(done.stdout.split()) == offered
