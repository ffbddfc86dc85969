"""
The consumer's own instructions for each message and its cold start, over Powertools': `python -m benchmarks.overhead`.

The deployed consumer with its logs and metrics, all calls to AWS answered at once, beside Powertools' FIFO processor
with the same log line. Machine instructions, counted by valgrind, do not depend on other load; without valgrind it is
CPU time, the least of several turns.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import deque
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.batch import SqsFifoPartialProcessor, process_partial_response

from benchmarks.figures import Row, most, show
from lanes.aws.telemetry import PowertoolsTelemetry
from lanes.bell import BODY
from lanes.config import LanesConfig
from lanes.config.deployment import VARIABLE, Deployment, LaneQueues
from lanes.consumer import Consumer
from lanes.consumer.records import RawRecord
from lanes.consumer.runtime import Runtime
from lanes.depth import LaneDepth
from lanes.events import Event
from lanes.message import Message
from lanes.priority import Priority
from lanes.testing.clock import FakeClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord

    from lanes.consumer.settlement import VisibilityChange
    from lanes.consumer.telemetry import Telemetry

GOALS = {("mappings", 1): 1.0, ("mappings", 10): 1.0, ("pull", 1): 1.3, ("pull", 10): 1.1}
"""Over Powertools, by engine and batch size; a slot of the pull engine also makes the calls of Lambda's poller."""

COLD_START = 0.9
RECEIVES = 20
"""Batches that a slot of the benchmark receives in one invocation; a busy one receives thousands."""

FEW, MANY = 2, 6
"""Runs of so many records a batch and receive are compared, so that what both begin with does not count."""

# Everything before the first record: imports, clients, and for the consumer its runtime.
COLD_STARTS = {
    "consumer": "import lambdas.consumer.handler; from lanes.aws.runtime import runtime_from_env; runtime_from_env()",
    "powertools": (
        "from aws_lambda_powertools import Logger, Metrics; "
        "from aws_lambda_powertools.utilities.batch import SqsFifoPartialProcessor, process_partial_response; "
        "import boto3; Logger(); Metrics(namespace='n'); boto3.client('sqs')"
    ),
}
COUNTED = re.compile(r"I\s+refs:\s+([\d,]+)")


QUEUES = "https://sqs.eu-central-1.amazonaws.com/123456789012"
EMPTY = LaneDepth(backlog=0, in_flight=0)


class EmptyQueues:
    """Queues above that are always empty, and every call of a consumer whose messages all succeed."""

    def depth(self, lane: str) -> LaneDepth:  # noqa: ARG002
        """Return that nothing is there."""
        return EMPTY

    def change_visibility(self, lane: str, changes: Sequence[VisibilityChange]) -> Sequence[str]:  # noqa: ARG002
        """Return that nothing was refused."""
        return ()


class Context:
    """Lambda's context with time enough."""

    aws_request_id = "4c5d9f3c-0f3e-5b3a-8a53-c1b8d4c0e2a1"

    def get_remaining_time_in_millis(self) -> int:
        """Return half a minute."""
        return 30_000


def event_of(records: int) -> dict[str, Any]:
    """Return the event of a first delivery of so many messages of one group, sent just now."""
    moment = str(int(time.time() * 1000))
    return {
        "Records": [
            {
                "messageId": f"0f8a3f0e-64a4-4d0c-9f35-{number:012d}",
                "receiptHandle": "AQEBwJnKyrHigUMZj6rYigCgxlaS3SLy0a",
                "body": Message(
                    kind="order.placed",
                    data={"order": number, "amount": 99.5},
                    id=f"order-{number}",
                    priority=Priority.LOW,
                ).to_body(),
                "attributes": {
                    "ApproximateReceiveCount": "1",
                    "SentTimestamp": moment,
                    "ApproximateFirstReceiveTimestamp": moment,
                    "MessageGroupId": "customer-7",
                    "MessageDeduplicationId": f"order-{number}",
                    "SequenceNumber": "18849496460467696128",
                },
                "messageAttributes": {},
                "eventSource": "aws:sqs",
                "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:MAIN.fifo",
                "awsRegion": "us-east-1",
            }
            for number in range(records)
        ]
    }


def handler(message: Any) -> None:
    """Do nothing, so that only the consumer's own time is left."""


class FullQueues(EmptyQueues):
    """
    Queues of a slot that receives: MAIN has the batches that were put into it, and every deletion succeeds.

    Args:
        clock: moved by every wait for a message.
    """

    def __init__(self, clock: FakeClock) -> None:
        self.batches: deque[list[RawRecord]] = deque()
        self._clock = clock

    def receive(self, lane: str, *, maximum: int, visibility: int, wait: int) -> list[RawRecord]:  # noqa: ARG002
        """Return the next batch of MAIN, or nothing after the wait."""
        if lane == "MAIN" and self.batches:
            return self.batches.popleft()
        self._clock.advance(wait)
        return []

    def delete(self, lane: str, records: Sequence[RawRecord]) -> list[str]:  # noqa: ARG002
        """Return that nothing was refused."""
        return []


def powertools() -> Callable[..., Any]:
    """Return a function of Powertools' FIFO processor with a log line for each message, as the consumer has it."""
    processor, logger = SqsFifoPartialProcessor(), Logger(service="orders")

    def handle_record(record: SQSRecord) -> None:
        message = json.loads(record.body)
        handler(message)
        attributes = record.attributes
        logger.info(
            Event.MESSAGE_HANDLED.value,
            extra={
                "kind": message["type"],
                "id": message["id"],
                "group": attributes.message_group_id,
                "message_id": record.message_id,
                "receive_count": int(attributes.approximate_receive_count),
                "sent_at": int(attributes.sent_timestamp) / 1000,
                "started_at": time.time(),
            },
        )

    def handle(event: dict[str, Any], context: Any) -> Any:
        return process_partial_response(
            event=event, record_handler=handle_record, processor=processor, context=context
        )

    return handle


def pull(telemetry: Telemetry | None = None) -> Callable[..., Any]:
    """Return a handle that serves its events by one invocation of the pull engine for every twenty of them."""
    clock = FakeClock()
    queues, made = FullQueues(clock), deployment("pull")
    consumer = Consumer(
        Runtime(
            deployment=made,
            queues=queues,  # type: ignore[arg-type]
            ledger=None,  # type: ignore[arg-type]
            telemetry=telemetry or PowertoolsTelemetry(environ={}),
            clock=clock,
            monotonic=clock,
            sleep=clock.advance,
        )
    )
    consumer.handler("order.placed")(handler)
    ring = event_of(1)
    (record,) = ring["Records"]
    record |= {"body": BODY, "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:bell.fifo"}

    def handle(event: Mapping[str, Any], context: Any) -> None:
        queues.batches.append([RawRecord.from_event(one) for one in event["Records"]])
        if len(queues.batches) == RECEIVES:
            consumer.handle(ring, context)
            assert not queues.batches  # noqa: S101 - what the figure is about

    return handle


def deployment(engine: str = "mappings") -> Deployment:
    """Return three lanes on one slot."""
    config = LanesConfig.from_dict({"consumer": {"engine": engine}})
    queues = {
        lane.name: LaneQueues(
            url=f"{QUEUES}/{lane.name}.fifo",
            dead_letter_url=f"{QUEUES}/{lane.name}-dead.fifo",
        )
        for lane in config.lanes
    }
    bell = f"{QUEUES}/bell.fifo" if engine == "pull" else None
    return Deployment(config=config, queues=queues, table="ledger", bell=bell)


def consumer(telemetry: Telemetry | None = None) -> Callable[..., Any]:
    """Return the handle of a consumer of three lanes on one slot, with the telemetry of a deployed one by default."""
    made = Consumer(
        Runtime(
            deployment=deployment(),
            queues=EmptyQueues(),  # type: ignore[arg-type]
            ledger=None,  # type: ignore[arg-type]
            telemetry=telemetry or PowertoolsTelemetry(environ={}),
        )
    )
    made.handler("order.placed")(handler)
    return made.handle


HANDLES: dict[str, Callable[[], Callable[..., Any]]] = {
    "mappings": consumer,
    "pull": pull,
    "powertools": powertools,
}


def measure(*, count: bool, turns: int) -> Iterator[Row]:
    """Yield a row for each handler and batch size, and one for the cold start."""
    unit = "instructions" if count else "us"
    price = {
        (name, batch): instructions_each(name, batch) if count else micros_each(name, batch, turns=turns)
        for name in HANDLES
        for batch in (1, 10)
    }
    for (name, batch), value in price.items():
        goal = GOALS.get((name, batch))
        over = None if goal is None else most(value / price["powertools", batch], goal)
        yield {"handler": name, "batch": batch, f"{unit} a record": value, "over Powertools": over}
    starts = {name: cold_start(program, count=count) for name, program in COLD_STARTS.items()}
    over = most(starts["consumer"] / starts["powertools"], COLD_START)
    yield {"handler": "cold start", f"{unit} a record": starts["consumer"], "over Powertools": over}


def micros_each(name: str, batch: int, *, turns: int) -> float:
    """Return the least microseconds of CPU of a record."""
    handle = HANDLES[name]()
    least = float("inf")
    with silenced(), one_core():
        for _ in range(turns):
            began = time.process_time()
            handle_records(handle, batch, MANY * RECEIVES * 10)
            least = min(least, (time.process_time() - began) / (MANY * RECEIVES * 10) * 1e6)
    return least


def handle_records(handle: Callable[..., Any], batch: int, records: int) -> None:
    """Handle so many records in batches."""
    event, context = event_of(batch), Context()
    for _ in range(records // batch):
        handle(event, context)


@contextlib.contextmanager
def one_core() -> Iterator[None]:
    """
    Run on one core, where the system can bind a process to it.

    AWS: at 1,769 MB a function has the equivalent of one (Lambda developer guide, "Configure Lambda function memory").
    On several, each wake-up of a sleeping core adds 30 to 50 us, or nothing if other load keeps it awake.
    """
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = os.sched_getaffinity(0)
    # For this thread and those that it starts: a pool begins its threads with the first call.
    os.sched_setaffinity(0, {min(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Write printed lines to /dev/null, so that they cost a write as in Lambda."""
    kept = os.dup(1)
    sink = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(sink, 1)
        yield
        sys.stdout.flush()
    finally:
        os.dup2(kept, 1)
        os.close(sink)
        os.close(kept)


def instructions_each(name: str, batch: int) -> float:
    """Return the instructions of a record."""
    few, many = (times * RECEIVES * batch for times in (FEW, MANY))
    command = ("-m", "benchmarks.overhead", "--worker", name, str(batch))
    counts = [instructions(*command, str(records)) for records in (few, many)]
    return (counts[1] - counts[0]) / (many - few)


def cold_start(program: str, *, count: bool) -> float:
    """Return the instructions, or the microseconds of CPU, of a program in a fresh process, without Python's start."""
    variables = {
        VARIABLE: deployment().to_json(),
        "AWS_DEFAULT_REGION": "eu-central-1",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "POWERTOOLS_SERVICE_NAME": "orders",
    }
    if count:
        return instructions("-c", program, variables=variables) - instructions("-c", "pass")
    timed = f"import time; a = time.process_time(); {program}; print((time.process_time() - a) * 1e6)"
    command, environ = [sys.executable, "-c", timed], {**os.environ, **variables}
    return float(subprocess.run(command, check=True, capture_output=True, text=True, env=environ).stdout)


def instructions(*command: str, variables: Mapping[str, str] = MappingProxyType({})) -> int:
    """
    Return the instructions of a Python process.

    Raises:
        RuntimeError: valgrind did not report a count.

    """
    valgrind = ["valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null"]
    # Hashes by chance would order sets, and so work, differently each time.
    environ = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "", **variables}
    # The first run leaves bytecode behind, which the second one does not have to compile.
    subprocess.run([sys.executable, *command], check=True, stdout=subprocess.DEVNULL, env=environ)
    done = subprocess.run(
        [*valgrind, sys.executable, *command], capture_output=True, text=True, check=False, env=environ
    )
    found = COUNTED.search(done.stderr)
    if done.returncode or not found:
        raise RuntimeError(f"valgrind counted nothing: {done.stderr[-500:]}")
    return int(found[1].replace(",", ""))


def main() -> None:
    """Measure and print, or handle records for a process that is counted."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.overhead", description="The consumer's own work."
    )
    parser.add_argument("--cpu", action="store_true", help="measure CPU time even if valgrind is installed")
    parser.add_argument("--turns", type=int, default=15, help="turns of CPU time")
    parser.add_argument("--json", action="store_true", help="print the JSON line only")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        name, batch, records = options.worker
        with silenced():
            handle_records(HANDLES[name](), int(batch), int(records))
        return
    count = not options.cpu and shutil.which("valgrind") is not None
    show("overhead", list(measure(count=count, turns=options.turns)), only_json=options.json)


if __name__ == "__main__":
    main()
