"""Send a backfill and urgent messages on this machine, without priority and with each engine, and judge the runs."""

import argparse
import fcntl
import logging
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from lanes.errors import LanesError
from local.account import without_aws_settings
from local.deploy import ROOT, DeployError
from local.interrupts import interrupt_once
from local.platform import Platform
from local.server import ServerError

from . import plan
from .flood import DemoError, Flood, Journal, Stage
from .judge import Evidence, RunName, judge
from .report import Outcome, document, page, table

_SHOW_EVERY_SECONDS = 5.0


def main(arguments: Sequence[str]) -> int:
    """Run the demo; the status is 0 if no promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m local.demo", description=__doc__)
    add = parser.add_argument
    add("--customers", type=int, default=plan.DEFAULT_CUSTOMERS, help="size of the backfill (%(default)s)")
    add("--output", type=Path, default=ROOT / "build" / "demo", help="folder of the report (build/demo)")
    options = parser.parse_args(arguments)
    if options.customers < plan.FEWEST_CUSTOMERS:
        parser.error(f"--customers: {options.customers} is less than {plan.FEWEST_CUSTOMERS}, the least")
    # A user's own profile and keys play no part here: no call may reach a real account.
    for name in os.environ.keys() - without_aws_settings(os.environ).keys():
        del os.environ[name]
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    interrupt_once()
    try:
        check_sample(ROOT / "lambdas" / "consumer" / "handler.py")
        with _locked(options.output.resolve()) as output:
            return _conclude(Demo(options.customers, output=output).run(), output)
    except (ServerError, DeployError, LanesError, DemoError, OSError) as error:
        sys.stderr.write(f"local demo: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("local demo: interrupted; everything it started has ended\n")
        return 130


def check_sample(handler: Path) -> None:
    """Refuse another application than the sample, before anything is deployed: the demo judges by its output."""
    text = handler.read_text(encoding="utf-8") if handler.is_file() else ""
    if missing := [word for word in (*plan.PRIORITIES, "away_until") if f'"{word}"' not in text]:
        raise DemoError(
            f"{handler} is not the sample application: it knows no {', '.join(missing)}. The demo judges by the "
            f"sample's output; keep your handlers elsewhere meanwhile:\n  git checkout -- {handler}"
        )


@contextmanager
def _locked(output: Path) -> Iterator[Path]:
    """Keep a second demo out of the folder; however this one ends, the next may have it."""
    (output / "logs").mkdir(parents=True, exist_ok=True)
    with (output / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoError(
                f"another demo is writing to {output}; wait, or choose another --output"
            ) from None
        yield output


def _conclude(outcome: Outcome, output: Path) -> int:
    """Write the reports and the broken promises; return the status."""
    (output / "report.json").write_text(document(outcome), encoding="utf-8")
    (output / "report.html").write_text(page(outcome), encoding="utf-8")
    print(f"{table(outcome)}Report: {output / 'report.html'}")
    for words in outcome.broken:
        sys.stderr.write(f"BROKEN: {words}\n")
    return 1 if outcome.broken else 0


class Demo:
    """The story with a backfill of a size, from the start of AWS on this machine to the judged runs."""

    def __init__(self, customers: int, *, output: Path) -> None:
        self._customers = customers
        self._output = output
        self._journals: dict[str, Journal] = {}
        self._began = time.monotonic()
        self._shown = 0.0
        self._seconds: dict[str, float] = {}

    def run(self) -> Outcome:
        """Run it, and end everything that was started however it ends."""
        stages: dict[RunName, Stage] = {}
        evidence: dict[RunName, Evidence] = {}
        load = 0.0
        platform = Platform(
            run_mappings=False,
            seed=plan.SEED,
            build_directory=self._output,
            on_line=self._take_line,
            record_receives=True,
        )
        try:
            with self._phase("start", "AWS starts on this machine"):
                platform.start()
            for name in RunName:
                with self._phase(f"deploy {name.stage}", f"cdk deploy -c stage={name.stage}"):
                    stages[name] = Stage(platform, name.stage, logs=self._output / "logs")
                words = f"Spark sends a table of {self._customers:,} customers"
                with self._phase(f"send {name.stage}", words):
                    stages[name].send_backfill(self._customers)
            # Nothing more is deployed, so nothing has to be followed while the runs are timed.
            platform.start_mappings(follow=False)
            for name in RunName:
                evidence[name] = self._flood(name, stages)
                # Of the last minute, as long as a run of the default size takes.
                load = max(load, os.getloadavg()[0])
        finally:
            platform.stop()
        # A quiet demo keeps one processor busy, and waits in between.
        is_busy = load > max(2, os.cpu_count() or 1)
        if is_busy:
            print(f"Other programs kept the machine busy (load {load:.1f}): long times are not judged.")
        figures, verdicts = judge(evidence, customers=self._customers, is_busy=is_busy)
        return Outcome(
            customers=self._customers,
            evidence=evidence,
            figures=figures,
            verdicts=verdicts,
            seconds=self._seconds | {"total": time.monotonic() - self._began},
        )

    def _flood(self, name: RunName, stages: Mapping[RunName, Stage]) -> Evidence:
        journal = self._journals[stages[name].function_name] = Journal()
        traffic, has_engine = stages[RunName.MAPPINGS].deployment.config, name is not RunName.WITHOUT
        flood = Flood(stages[name], self._customers, traffic=traffic, journal=journal, show=self._show)
        words = f"{self._customers:,} customers drain while urgent work arrives, with {name}"
        with self._phase(name, words + "; then the resource is away" * has_engine):
            return flood.run(with_outage=has_engine)

    def _take_line(self, function_name: str, line: str) -> None:
        if journal := self._journals.get(function_name):
            journal.take_line(line)

    @contextmanager
    def _phase(self, name: str, words: str) -> Iterator[None]:
        """Time a phase, and write a line at its start."""
        self._shown, began = 0.0, time.monotonic()
        print(f"{began - self._began:6.1f} s  {words}", flush=True)
        yield
        self._seconds[name] = time.monotonic() - began

    def _show(self, words: str) -> None:
        """Write a line about the phase if the last one is old."""
        now = time.monotonic()
        if now >= self._shown + _SHOW_EVERY_SECONDS:
            self._shown = now
            print(f"{now - self._began:6.1f} s    {words}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
