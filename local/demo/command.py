"""`python -m local demo`: a backfill and urgent work on this machine, with each engine and without priority, judged."""

import argparse
import fcntl
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lanes.errors import LanesError
from local.demo.backfill import BackfillError
from local.demo.page import write_page
from local.demo.plan import DEFAULT_CUSTOMERS, FEWEST_CUSTOMERS, MOST_CUSTOMERS, DemoPlan
from local.demo.report import Outcome, report_document
from local.demo.runs import RunName
from local.demo.sample import SampleError, check_sample
from local.demo.screen import choose_screen
from local.demo.show import Show
from local.demo.summary import write_summary
from local.demo.timeline import draw_timeline
from local.deploy import DeployError
from local.installed import ROOT
from local.interrupts import interrupt_once
from local.server import ServerError

DEFAULT_OUTPUT = ROOT / "build" / "demo"
_MOST_SHARDS = 120_000
_BROKEN = 1
_INTERRUPTED = 130


class OutputError(RuntimeError):
    """The folder can't be had: it can't be made, or another demo writes to it."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `demo`."""
    parser.add_argument(
        "--customers",
        type=_customers,
        default=DEFAULT_CUSTOMERS,
        metavar="N",
        help=f"size of the backfill (default: {DEFAULT_CUSTOMERS})",
    )
    parser.add_argument(
        "--seed", type=_seed, default=1, help="seed of the messages and their failures (default: 1)"
    )
    parser.add_argument(
        "--shards",
        type=_shards,
        default=4,
        metavar="N",
        help="groups over which the customers are spread, each handled in order (default: 4)",
    )
    parser.add_argument(
        "--output", type=Path, default=DEFAULT_OUTPUT, metavar="DIR", help="folder of the report"
    )
    parser.add_argument("--no-comparison", action="store_true", help="run the flood with mappings alone")
    parser.add_argument("--quiet", action="store_true", help="print broken promises only")
    parser.set_defaults(run=run)


def _customers(text: str) -> int:
    return _whole(text, FEWEST_CUSTOMERS, MOST_CUSTOMERS)


def _shards(text: str) -> int:
    return _whole(text, 1, _MOST_SHARDS)


def _seed(text: str) -> int:
    return _whole(text, 0, 2**31 - 1)


def _whole(text: str, least: int, most: int) -> int:
    if not text.isdecimal() or not least <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from {least} to {most}")
    return int(text)


def run(options: argparse.Namespace) -> int:
    """Run the demo; the status is 0 if no promise was broken."""
    interrupt_once()
    output: Path = options.output.resolve()
    plan = DemoPlan.draw(customers=options.customers, seed=options.seed, shards=options.shards)
    try:
        check_sample(ROOT / "lambdas" / "consumer" / "handler.py")
        with _locked(output):
            with choose_screen(quiet=options.quiet) as screen:
                runs = [RunName.MAPPINGS] if options.no_comparison else list(RunName)
                outcome = Show(plan, output=output, screen=screen, runs=runs).run()
            return _conclude(outcome, output, quiet=options.quiet)
    except (ServerError, DeployError, BackfillError, LanesError, OutputError, SampleError, OSError) as error:
        sys.stderr.write(f"local demo: {error}\n")
        return _BROKEN
    except KeyboardInterrupt:
        sys.stderr.write("local demo: interrupted; everything it started has ended\n")
        return _INTERRUPTED


@contextmanager
def _locked(output: Path) -> Iterator[None]:
    """Keep a second demo out of the folder; however this one ends, the next may have it."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        lock_file = (output / ".lock").open("w")
    except OSError as error:
        raise OutputError(f"--output: {output} can't be a folder to write to: {error.strerror}") from error
    with lock_file as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OutputError(
                f"another demo is writing to {output}; wait for it, or choose another folder with --output"
            ) from None
        yield


def _conclude(outcome: Outcome, output: Path, *, quiet: bool) -> int:
    """Write the reports and the broken promises; return the status."""
    document = report_document(outcome)
    (output / "report.json").write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    picture = draw_timeline(outcome, output / "timeline.svg")
    write_page(outcome, picture, output / "report.html")
    if not quiet:
        write_summary(outcome, sys.stdout)
        sys.stdout.write(f"Report: {output / 'report.html'}\n")
    for promise in outcome.broken:
        sys.stderr.write(f"BROKEN: {promise.broken_words()}\n")
    return _BROKEN if outcome.broken else 0
