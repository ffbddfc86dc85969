"""`python -m local experiments`: the first experiments in real time, by the plain pattern and by lanes."""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import boto3

from lanes import Producer
from lanes.events import Event
from local.account import REGION, USER_KEY, connection_variables
from local.deploy import CdkApp, DeployError
from local.installed import ROOT
from local.interrupts import interrupt_once
from local.platform import BUILD, Platform
from local.server import ServerError
from simulator.experiments import Experiment, Replay, Timeline, named

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from lanes.config import LanesConfig

APP = ROOT / "examples" / "experiments"
FASTER = 10.0
"""Everything takes a tenth of the time that was described: handlers half a second."""

WORK = 5.0 / FASTER
LONGEST = 120.0
"""Seconds after which a run is given up."""

PATTERNS = ("plain", "ours")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of `experiments`."""
    parser.add_argument("name", nargs="?", default="all", help="one of them (default: all)")
    parser.add_argument("--json", action="store_true", help="print the lists as one JSON line")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Deploy, run, and print the lists."""
    experiments = named(options.name)
    interrupt_once()
    sys.stderr.write(f"deploying {2 * len(experiments)} stacks ...\n")
    try:
        replays = replay_all(experiments)
    except (ServerError, DeployError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    if options.json:
        sys.stdout.write(json.dumps([one.plain() for one in replays]) + "\n")
    else:
        sys.stdout.write("\n".join(one.text() for one in replays))
    return 0


def replay_all(experiments: Sequence[Experiment]) -> list[Replay]:
    """Deploy both stacks of each experiment, run them one after the other, and return their timelines."""
    context = {"experiment": experiments[0].name if len(experiments) == 1 else "all"}
    witness = Witness()
    app = CdkApp(directory=APP, context=context)
    with Platform(app=app, on_line=witness, build_directory=BUILD / "experiments") as platform:
        return [
            Replay(
                experiment=one,
                timelines=_courses({pattern: Run(platform, one, pattern) for pattern in PATTERNS}, witness),
            )
            for one in experiments
        ]


def _courses(runs: Mapping[str, Run], witness: Witness) -> dict[str, Timeline]:
    """Let the patterns run beside each other, once their functions are warm."""
    for one in runs.values():
        one.warm_up()
    for one in runs.values():
        witness.wait_for(one, one.experiment.slots, seconds=LONGEST)
    for one in runs.values():
        one.start()
    for one in runs.values():
        one.join()
        witness.wait_for(one, one.experiment.total + one.experiment.slots, seconds=LONGEST)
    return {pattern: witness.timeline(one) for pattern, one in runs.items()}


class Witness:
    """Notes the lines that functions print about their work, with the moment."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._lines: dict[str, list[tuple[float, tuple[str, ...]]]] = defaultdict(list)

    def __call__(self, function: str, line: str) -> None:
        """Record a line about handled or yielded records."""
        event = _event(line)
        if event:
            with self._changed:
                self._lines[function].append((time.monotonic(), event))
                self._changed.notify_all()

    def wait_for(self, run: Run, count: int, *, seconds: float) -> bool:
        """Wait until so many different messages are done; return whether they are."""
        with self._changed:
            return self._changed.wait_for(lambda: self._count_done(run) >= count, seconds)

    def timeline(self, run: Run) -> Timeline:
        """Return the timeline of a run since its start."""
        with self._changed:
            lines = [line for line in self._lines[run.function] if line[0] >= run.began_at]
        done = [(at, event[1], int(event[2])) for at, event in lines if event[0] == "done"]
        groups = run.experiment.groups
        return Timeline(
            done=[(lane, number, number % groups) for _, lane, number in done],
            lines=[_printed(event, groups) for _, event in lines],
            seconds=max((at for at, _, _ in done), default=run.began_at) - run.began_at,
        )

    def _count_done(self, run: Run) -> int:
        return len({event for _, event in self._lines[run.function] if event[0] == "done"})


class Run(threading.Thread):
    """
    One experiment by one pattern: sends its messages at their moments.

    Args:
        platform: where both stacks are.
        experiment: the messages and their times.
        pattern: `plain` or `ours`; the stack is named after it.

    """

    def __init__(self, platform: Platform, experiment: Experiment, pattern: str) -> None:
        super().__init__(name=f"{pattern} {experiment.name}", daemon=True)
        stack = f"{pattern}-{experiment.name}"
        outputs = platform.outputs[stack]
        self.experiment = experiment
        self.function = outputs["FunctionName"]
        self.began_at = 0.0
        self._send = (
            _plain_sender(platform, outputs, experiment)
            if pattern == "plain"
            else _lanes_sender(platform, stack, experiment.config)
        )
        self._numbers: Counter[str] = Counter()

    def warm_up(self) -> None:
        """Let every slot start its environment, with messages that are no part of it."""
        for number in range(self.experiment.slots):
            self._send(self.experiment.lanes[-1], -number, f"warm-{number}")

    def run(self) -> None:
        """Send all."""
        self.began_at = time.monotonic()
        pause = threading.Event()
        for at, lane, count in self.experiment.sends:
            pause.wait(max(0.0, self.began_at + at / FASTER - time.monotonic()))
            for _ in range(count):
                self._numbers[lane] += 1
                number = self._numbers[lane]
                group = number if self.experiment.standard else number % self.experiment.groups
                self._send(lane, number, f"{lane}-{group}")


def _plain_sender(
    platform: Platform, outputs: Mapping[str, str], experiment: Experiment
) -> Callable[[str, int, str], None]:
    sqs = platform.client("sqs")

    def send(lane: str, number: int, group: str) -> None:
        fifo = {} if experiment.standard else {"MessageGroupId": group, "MessageDeduplicationId": f"{number}"}
        body = json.dumps({"lane": lane, "number": number, "seconds": WORK})
        sqs.send_message(QueueUrl=outputs[f"Queue{lane}"], MessageBody=body, **fifo)

    return send


def _lanes_sender(platform: Platform, stack: str, config: LanesConfig) -> Callable[[str, int, str], None]:
    variables = connection_variables(platform.endpoint_url, USER_KEY)
    session = boto3.Session(
        aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
        region_name=REGION,
    )
    producer = Producer.from_stack(
        stack, region=REGION, endpoint_url=platform.endpoint_url, session=session, source="experiments"
    )

    def send(lane: str, number: int, group: str) -> None:
        threshold = config.lane(lane).threshold
        data = {"lane": lane, "number": number, "seconds": WORK}
        producer.send("work", data, group=group, priority=-1 if threshold is None else threshold)

    return send


def _event(line: str) -> tuple[str, ...]:
    """Return the words of a line about work, or those of the event that a batch of lanes made way."""
    words = tuple(line.split())
    if words[:1] in (("done",), ("yields",)):
        return words
    if f'"{Event.BATCH_YIELDED}"' not in line:
        return ()
    event: dict[str, Any] = json.loads(line)
    return "yields", str(event.get("lane")), str(event.get("records"))


def _printed(event: tuple[str, ...], groups: int) -> str:
    verb, lane, *rest = event
    if verb == "yields":
        return f"  {lane} yields" + (f" ({rest[0]} messages)" if rest and rest[0] != "1" else "")
    return f"{lane} {rest[0]}" + (f" (group {int(rest[0]) % groups})" if groups > 1 else "")
