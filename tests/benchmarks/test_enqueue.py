"""The measurement of bulk sending runs, and its last line is what tools read."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.nightly
def test_the_last_line_has_the_figures():
    """One JSON object; a single turn is too short for the exact ratios, so only their size is looked at."""
    command = [sys.executable, "-m", "benchmarks.enqueue", "--json", "--repeats", "1"]

    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)

    figures = json.loads(done.stdout.splitlines()[-1])
    assert figures["messages_per_second_per_core"] > 0
    assert figures["ratio_to_boto3_batch"] > 2
    assert figures["ratio_to_tutorial_loop"] > 15
    assert figures["worker_peak_mb"] < 200
    assert figures["throttled"]["ratio"] > 0.9
    assert figures["at_10_ms"]["ratio"] > 1.5
    small, large = figures["worker_peak_mb_by_rows"].values()
    assert large < small + 20
