"""`lanes probe run` against AWS on this machine: it names the variant that runs there, from measurements alone."""

import json
import signal
from datetime import timedelta

import pytest

from local.platform import Platform
from tests.support.probe_runs import CHOICES, RUNS, Probe, drawn, found_by, unknowns_of, wrong

pytestmark = [pytest.mark.deep, pytest.mark.timeout(900)]

INTERRUPTED = 130


def test_a_drawn_variant_is_named(tmp_path):
    """One of the twenty that `python -m tests.support.probe_runs` runs; with every experiment."""
    variant = drawn(0, seed=257)
    lag = timedelta(seconds=variant["kill"])
    with Platform(
        build_directory=tmp_path / "build", unknowns=unknowns_of(variant), kill_lag=lag
    ) as platform:
        probe = Probe(platform, tmp_path)
        profile = probe.run()
        left = probe.left()

    found = found_by(profile)
    assert wrong(variant, found) == {}
    assert profile.bell.peak <= profile.bell.groups
    assert profile.throttle.receives == 1
    events = [
        json.loads(line) for line in probe.profile.with_suffix(".events.jsonl").read_text().splitlines()
    ]
    assert {event["run"].partition("/")[0] for event in events} >= {"throttle", "polls", "kill", "probe"}
    assert probe.profile.with_suffix(".html").read_text().count("<svg") == len(profile.sections) == 9
    assert left == []


def test_an_interrupted_probe_leaves_no_stack(tmp_path):
    """In the middle of an experiment."""
    with Platform(build_directory=tmp_path / "build") as platform:
        probe = Probe(platform, tmp_path)
        process = probe.start("--only", "throttle")
        while "throttle: about" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        process.communicate()

        assert (process.returncode, probe.left()) == (INTERRUPTED, [])


def test_twenty_runs_show_every_value_and_a_wrong_one_is_noticed():
    """The judge would prove little if it named everything."""
    variants = [drawn(number) for number in range(RUNS)]
    for name, values in CHOICES.items():
        assert {variant[name] for variant in variants if name in variant} == set(values)
    said = {"throttle": "as given", "winner": "chance", "pollers": "as given", "order": "back"}
    said |= {"counts": "as given", "blocked": None, "short_polls": "as given", "kill": 0.2}
    others = {"throttle": "backoff up to 0.3 s", "winner": "oldest", "pollers": "two pollers, slow ramp"}
    others |= {"order": "turn", "counts": "counts 5 s old", "blocked": False, "short_polls": 0.1, "kill": 1.5}

    assert wrong(others, said) == said
    assert wrong({"throttle": "as given", "kill": 0.0}, said) == {}
