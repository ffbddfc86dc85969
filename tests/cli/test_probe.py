"""`lanes probe`, and the verbs that read its profile, as a user types them."""

import json


def test_a_probe_says_its_time_and_cost_first(typed):
    """And deploys nothing in a dry run."""
    done = typed("probe", "run", "--dry-run")

    assert done.returncode == 0, done.stderr
    assert "deploys the stack LanesProbe into http://127.0.0.1:1, measures for about" in done.stderr
    assert "below 1 USD" in done.stderr


def test_a_probe_without_a_terminal_needs_a_yes(typed):
    """It costs money."""
    done = typed("probe", "run")

    assert done.returncode == 2
    assert "--yes" in done.stderr


def test_an_unknown_experiment_is_refused(typed):
    """With the nearest one."""
    done = typed("probe", "run", "--only", "thotle")

    assert done.returncode == 2
    assert "there is no experiment 'thotle'; did you mean 'throttle'?" in done.stderr


def test_recorded_events_are_read_again(typed, tmp_path):
    """Into a profile; JSON for programs."""
    events = tmp_path / "some.events.jsonl"
    polls = {"run": "polls", "event": "polls", "at": 1, "polls": [[0, True], [1, False], [2, False]]}
    events.write_text(json.dumps(polls) + "\n")
    out = tmp_path / "mine.toml"
    (row,) = typed.json("probe", "read", str(events), "--out", str(out))

    assert (row["code"], row["result"]) == ("polls.missed", "66.7% (20.8% to 93.9%, 3 samples)")
    assert out.exists()


def test_events_that_cannot_be_read_are_an_error(typed, tmp_path):
    """Without a traceback."""
    done = typed("probe", "read", str(tmp_path / "none.jsonl"), "--out", str(tmp_path / "mine.toml"))

    assert done.returncode == 1
    assert "the file cannot be read" in done.stderr


def test_a_profile_decides_the_range_of_a_simulation(typed, tmp_path):
    """The assumed shares of missed polls are gone."""
    profile = tmp_path / "aws-profile.toml"
    missed = "{ low = 0.0, typical = 0.1, high = 0.2, samples = 9 }"
    profile.write_text(f"format = 2\n[polls]\nmissed = {missed}\n")
    load = ("--arrivals", "MAIN backlog=1 service=10ms", "--duration", "1s")
    told = typed.json("simulate", *load, "--unknowns", "all", "--profile", str(profile))

    assert {"short polls as measured, most missed", "counts 5 s old"} <= {*told["unknowns"]}
    assert "short polls miss 1 in 3" not in told["unknowns"]
