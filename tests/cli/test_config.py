"""`lanes config` as a user types it."""

import json


def test_config_show_prints_one_json_document(typed):
    """Data goes to standard output, notes to standard error."""
    done = typed("--output", "json", "--stage", "demo", "config", "show")

    rows = json.loads(done.stdout)
    assert [row["lane"] for row in rows] == ["HIGH", "MEDIUM", "MAIN"]
    assert rows[0]["visibility"] == 60.0, "durations are seconds"
    assert "reserved_concurrency is 1" in done.stderr
    assert done.returncode == 0


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
