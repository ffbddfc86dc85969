"""`lanes config` as a user types it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


def test_config_show_prints_one_json_document(typed):
    """Data goes to standard output, notes to standard error."""
    done = typed("--output", "json", "--stage", "demo", "config", "show")

    rows = json.loads(done.stdout)
    assert [row["lane"] for row in rows] == ["HIGH", "MEDIUM", "MAIN"]
    assert rows[0]["visibility"] == 60.0, "durations are seconds"
    assert "reserved_concurrency is 1" in done.stderr
    assert done.returncode == 0


@pytest.mark.parametrize("closed", ["<&- 2>&-", ">&-"])
def test_a_closed_stream_is_no_fault(closed):
    """Some schedulers start programs so; with a traceback a change that is made would look like one that failed."""
    command = f'"{sys.executable}" -m lanes config show {closed}'
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)

    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert ("HIGH" in done.stdout) != closed.startswith(">")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the device is Linux's")
@pytest.mark.parametrize("output", ["table", "json"])
def test_a_full_disk_is_named(output):
    """The output is lost, and no traceback says more."""
    command = f'"{sys.executable}" -m lanes config show --output {output} > /dev/full'
    done = subprocess.run(["/bin/sh", "-c", command], capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "error: the output can't be written: No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_unknown_stage_is_named_with_the_nearest_known_one(typed):
    """A mistyped stage ends with status 1 and no traceback."""
    done = typed("--stage", "dmo", "config", "show")

    assert done.returncode == 1
    assert "did you mean 'demo'" in done.stderr
    assert "Traceback" not in done.stderr


def test_wrong_option_is_a_usage_error(typed):
    """A wrong option ends with status 2 and says which."""
    done = typed("config", "show", "--fiel", "x")

    assert done.returncode == 2
    assert "--fiel" in done.stderr


def test_config_show_has_the_engine_and_its_settings(typed, tmp_path):
    """A weight for each lane instead of the delays of yields; limits in the units of the file."""
    file = tmp_path / "lanes.toml"
    file.write_text(
        """
        consumer = {engine = "pull", policy = "weighted", max_rate = 50, max_rates = {mail = "6/min"}}
        lanes = [{name = "A", threshold = 0, weight = 3}, {name = "B"}]
        """
    )

    done = typed("--output", "json", "config", "show", "--file", str(file))

    rows = json.loads(done.stdout)
    assert [row["weight"] for row in rows] == [3, 1]
    assert not any("min_yield_delay" in row for row in rows)
    assert "engine: pull, policy weighted, linger 1s, max_rate 50/s, mail 6/min" in done.stderr
