"""The measurement of bulk sending runs, and its last line has a figure for each of its goals."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.nightly
def test_the_last_line_has_the_figures():
    """A single short turn shows the size of the ratios only."""
    command = [sys.executable, "-m", "benchmarks.enqueue", "--json", "--turns", "1", "--rows", "4000"]

    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)

    figures = {
        row["case"]: row["figure"]["value"] for row in json.loads(done.stdout.splitlines()[-1])["rows"]
    }
    assert len(figures) == 8
    assert figures["CPU, over boto3's full batches"] > 2
    assert figures["CPU, over the tutorials' loop"] > 15
    assert figures["clock at 10 ms, over boto3's 8 threads"] > 1
    assert figures["MB of 200,000 rows"] < 200
