"""
All faults at once, round after round: `python -m benchmarks.soak --minutes 60`.

Each round draws lanes, settings, load, undocumented AWS behaviour, an operator and faults from its seed, runs the
deployed consumer in virtual time until every queue is empty, and checks each message: no loss, order within groups,
exact attempts and single effects if they can be known, no healthy message dead-lettered, every hostile body in a
dead-letter queue; and never more handlers at work than slots. One round in seven has handlers that kill their process
as its only fault, and checks how long lanes stand still. On a breach it reduces the round, prints the command that
repeats it, and exits with 1.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING

from benchmarks.soak_round import FAULTS, Round, breaches

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BREACHED = 1


def soak(
    *, rounds: Callable[[int], bool], seed: int, say: Callable[[str], None]
) -> tuple[Counter[str], Round | None]:
    """
    Run rounds as long as `rounds` says of the number done so far.

    Returns:
        What was counted over all rounds, and the round that broke a promise, made small, or None.

    """
    seen: Counter[str] = Counter()
    while rounds(seen["rounds"]):
        one = Round(seed=seed + seen["rounds"])
        found = breaches(one, seen)
        seen["rounds"] += 1
        if found:
            say(f"round of seed {one.seed}: {'; '.join(found)}\nmaking it smaller ...")
            return seen, smaller(one)
    return seen, None


def smaller(breached: Round) -> Round:
    """Return the round with as few messages and faults as still break a promise."""
    for fault in FAULTS:
        candidate = breached.but(without=breached.without | {fault})
        if breaches(candidate, Counter()):
            breached = candidate
    messages = breached.messages
    while messages > 1:
        messages //= 2
        candidate = breached.but(messages=messages)
        if not breaches(candidate, Counter()):
            break
        breached = candidate
    return breached


def command_of(one: Round) -> str:
    """Return the command that runs one round."""
    without = f" --without {','.join(sorted(one.without))}" if one.without else ""
    return f"python -m benchmarks.soak --rounds 1 --seed {one.seed} --messages {one.messages}{without}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run for the given time and print the counts; the last line is one JSON object."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.soak", description=__doc__.split("\n\n")[0].strip()
    )
    parser.add_argument("--minutes", type=float, default=1.0, help="how long (default 1)")
    parser.add_argument("--json", action="store_true", help="nothing but the JSON object")
    parser.add_argument("--quick", action="store_true", help="five rounds, to see that it runs")
    parser.add_argument("--rounds", type=int, help="so many rounds, however long they take")
    parser.add_argument(
        "--seed", type=int, default=1, help="of the first round; the next ones follow (default 1)"
    )
    parser.add_argument(
        "--messages", type=int, default=0, help="of each round, instead of drawing the number"
    )
    parser.add_argument("--without", default="", help=f"faults that stay away, of {','.join(FAULTS)}")
    options = parser.parse_args(arguments)
    rounds = 5 if options.quick else options.rounds
    began = time.monotonic()
    if rounds == 1:
        one = Round(
            seed=options.seed,
            messages=options.messages or Round(seed=options.seed).messages,
            without=frozenset(filter(None, options.without.split(","))),
        )
        seen: Counter[str] = Counter(rounds=1)
        found = breaches(one, seen)
        sys.stdout.write("".join(f"{line}\n" for line in [*one.description(), *found]))
        return _told(seen, one if found else None, options=options, began=began)

    def go_on(done: int) -> bool:
        if rounds is not None:
            return done < rounds
        return time.monotonic() - began < options.minutes * 60

    seen, breached = soak(rounds=go_on, seed=options.seed, say=lambda text: sys.stderr.write(f"{text}\n"))
    return _told(seen, breached, options=options, began=began)


def _told(seen: Counter[str], breached: Round | None, *, options: argparse.Namespace, began: float) -> int:
    if not options.json:
        rows = {"breaches": int(breached is not None), **dict(sorted(seen.items()))}
        sys.stdout.write("".join(f"  {name:<28}{count:>12}\n" for name, count in rows.items()))
    if breached is not None:
        found = "; ".join(breaches(breached, Counter()))
        sys.stdout.write(f"BREACH {found}\nseed {breached.seed}, reproduce with:\n  {command_of(breached)}\n")
    line = {
        "benchmark": "soak",
        "seed": options.seed,
        "breaches": int(breached is not None),
        "reproduce": command_of(breached) if breached else None,
        **dict(sorted(seen.items())),
        "took_s": round(time.monotonic() - began, 1),
    }
    sys.stdout.write(json.dumps(line) + "\n")
    return BREACHED if breached else 0


if __name__ == "__main__":
    sys.exit(main())
