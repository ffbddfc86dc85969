"""
Runs of `lanes probe run` over variants of AWS on this machine, drawn by a seed and judged from its profile alone.

    python -m tests.support.probe_runs --runs 20
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from lanes.mapping.undocumented import ThrottleBackoff, Winner
from lanes.probe.profile import read_profile
from lanes.probe.words import findings
from lanes.testing.fifo.settings import GroupOrder
from local.platform import Platform
from simulator.parameters import Unknowns
from tests.support.command import Command

RUNS = 20
# The choices of each run, by the section of the profile. The kill has no name: its lag is a time.
RETRIES = {
    "backoff up to 0.3 s": ThrottleBackoff(longest=timedelta(seconds=0.3)),
    "as given": ThrottleBackoff(longest=timedelta(seconds=2)),
    "throttled batches dropped": ThrottleBackoff(retries=False),
}
CHOICES = {
    "throttle": tuple(RETRIES),
    "winner": tuple(Winner),
    "pollers": ("as given", "two pollers, slow ramp"),
    "order": tuple(GroupOrder),
    "counts": ("as given", "counts 5 s old"),
    "blocked": (True, False),
    "short_polls": (0.0, 0.1, 1 / 3),
    "kill": (0.0, 0.5, 1.5),
}
EXPERIMENTS = ("polls", "order", "counts", "kill", "throttle", "winner", "pollers")
MISSED = {0.0: "as given", 0.1: "short polls miss 1 in 10", 1 / 3: "short polls miss 1 in 3"}
# Beside the lag: a sign of life that is late on a busy machine, or the last one that was lost.
KILL_WITHIN = 0.3


def drawn(number, runs=RUNS, seed=0):
    """Return the variant of a run: in as many runs as it has values, each dimension shows all of them."""
    chosen = {}
    for name, values in CHOICES.items():
        order = [values[place % len(values)] for place in range(runs)]
        random.Random(f"{seed} {name}").shuffle(order)
        chosen[name] = order[number]
    if chosen["throttle"] == "throttled batches dropped":
        # No batch waits for a slot, so none wins one.
        del chosen["winner"]
    elif chosen["winner"] is not Winner.CHANCE:
        # A free slot is offered at once, whatever the waits: they don't show.
        chosen["throttle"] = "backoff up to 0.3 s"
    return chosen


def unknowns_of(variant):
    """Return the behaviour of a variant."""
    few = variant["pollers"] != "as given"
    return Unknowns(
        backoff=RETRIES[variant["throttle"]],
        winner=variant.get("winner", Winner.CHANCE),
        first_pollers=2 if few else 0,
        ramp=0.1 if few else 5.0,
        group_order=variant["order"],
        stale=0.0 if variant["counts"] == "as given" else 5.0,
        blocked_counted=variant["blocked"],
        missed_polls=variant["short_polls"],
    )


def found_by(profile):
    """Return the name that a profile gives each dimension."""
    named = {one.section: one.assumption for one in findings(profile)}
    return {
        **{name: named.get(name, "") for name in ("throttle", "pollers", "counts", "short_polls")},
        "winner": None if profile.winner is None else profile.winner.wins.value,
        "order": None if profile.order is None else profile.order.next.value,
        "blocked": None if profile.counts is None else profile.counts.blocked_counted,
        "kill": None if profile.kill is None else profile.kill.late.typical,
    }


def wrong(variant, found):
    """Return the dimensions that a profile does not name, with its words."""
    return {name: found[name] for name, value in variant.items() if not _is(name, value, found[name])}


def _is(name, value, found):
    if name == "kill":
        return found is not None and abs(found - value) < KILL_WITHIN
    return found == (MISSED[value] if name == "short_polls" else value)


class Probe:
    """`lanes probe run` in a process of its own, against a platform."""

    def __init__(self, platform, folder):
        self.platform = platform
        self.profile = folder / "aws-profile.toml"

    def start(self, *arguments):
        """Start it with few repetitions."""
        command = Command(self.platform.endpoint_url)
        return command.start("probe", "run", "--quick", "--yes", "--out", str(self.profile), *arguments)

    def run(self, *experiments):
        """Run it to its end and return its profile."""
        process = self.start(*(item for name in experiments for item in ("--only", name)))
        _, said = process.communicate()
        assert process.returncode == 0, said
        return read_profile(self.profile)

    def left(self):
        """Return the resources that a stack would charge for."""
        client = self.platform.client
        return [
            *client("cloudformation").describe_stacks()["Stacks"],
            *client("sqs").list_queues().get("QueueUrls", []),
            *client("lambda").list_functions()["Functions"],
            *client("dynamodb").list_tables()["TableNames"],
            *client("logs").describe_log_groups()["logGroups"],
        ]


def judged(variant, folder, *, seed):
    """Probe AWS on this machine with a variant, leave the files in a folder; return the mistakes of its profile."""
    wanted = [name for name in EXPERIMENTS if name != "winner" or "winner" in variant]
    lag = timedelta(seconds=variant["kill"])
    with Platform(
        build_directory=folder / "build", unknowns=unknowns_of(variant), seed=seed, kill_lag=lag
    ) as platform:
        found = found_by(Probe(platform, folder).run(*wanted))
    return wrong(variant, found)


def main():
    """Run, print a line each, and end with 1 if a variant was not named."""
    parser = argparse.ArgumentParser(prog="python -m tests.support.probe_runs", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--keep", type=Path, default=Path(tempfile.mkdtemp()), help="leave the files of each run here"
    )
    options = parser.parse_args()
    named = 0
    last = options.runs if options.last is None else options.last + 1
    for number in range(options.first, last):
        variant, began = drawn(number, options.runs, options.seed), time.monotonic()
        folder = options.keep / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        missed = judged(variant, folder, seed=options.seed + number)
        named += not missed
        text = "; ".join(f"{name}: {value}" for name, value in variant.items())
        sys.stdout.write(f"{number:2} {time.monotonic() - began:4.0f} s  {missed or 'named'}  {text}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{named} of {last - options.first} runs named\n")
    return named < last - options.first


if __name__ == "__main__":
    sys.exit(main())
