"""
A deployed stage of the demo and the one run on it.

The backfill drains while urgent messages arrive, until everything is done; then the resource is away. The clock starts
when the mappings are switched on, with the whole backfill in its queue, in every run.
"""

import contextlib
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from lanes import Message, Producer
from lanes.aws.queues import NOTE_ATTRIBUTE
from lanes.config import LanesConfig
from lanes.config.deployment import Deployment
from lanes.events import Count, Event
from local.account import REGION, USER_KEY, isolated_variables, without_aws_settings
from local.deploy import ROOT, CdkApp, deploy, run_guarded
from local.deployed import make_session
from local.platform import Platform
from simulator import oracle

from . import plan
from .judge import Evidence, Sent

_WAITING = ("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesDelayed")
_IN_FLIGHT = "ApproximateNumberOfMessagesNotVisible"
_ENDS = {"finished": "done", "refused": "failed", "away": "away"}
"""How a handler's work ended, in the sample's words and in those of the oracle."""
_YIELDS = frozenset(event for event in Event if event.counts is Count.YIELDED)
_LOOK_SECONDS = 0.5
_STALL_SLACK_SECONDS = 30.0
_LAST_LINES_SECONDS = 2.0


class DemoError(RuntimeError):
    """The demo can't start or go on: the message says why, and what to do."""


class Stage:
    """
    One stage of the app, deployed with a real `cdk deploy`, and its mappings switched off.

    Args:
        platform: where it is deployed.
        name: of the stage.
        logs: folder for the logs of deploy and job.

    Raises:
        DeployError: the deploy failed.
    """

    def __init__(self, platform: Platform, name: str, *, logs: Path) -> None:
        app = CdkApp(directory=ROOT, stage=name, context={"removal": "destroy"})
        outputs = deploy(app, platform.endpoint_url, log_path=logs / f"deploy-{name}.log")
        [(self.stack, values)] = outputs.items()
        self.function_name = values["ConsumerFunctionName"]
        self.name = name
        self._logs = logs
        self._platform = platform
        self._sqs = platform.client("sqs")
        self.switch(enabled=False)

    @cached_property
    def producer(self) -> Producer:
        """Finds the lanes by the stack's name, as any application does."""
        url, session = self._platform.endpoint_url, make_session()
        return Producer.from_stack(
            self.stack, region=REGION, endpoint_url=url, session=session, source="demo"
        )

    @property
    def deployment(self) -> Deployment:
        """Its lanes and where they are."""
        return self.producer.deployment

    def switch(self, *, enabled: bool) -> None:
        """Switch its mappings on or off, as an operator would; they poll at once."""
        client = self._platform.client("lambda")
        # By name alone, those of the function's alias would be missing.
        for page in client.get_paginator("list_event_source_mappings").paginate():
            for mapping in page["EventSourceMappings"]:
                if self.function_name in mapping["FunctionArn"].split(":"):
                    client.update_event_source_mapping(UUID=mapping["UUID"], Enabled=enabled)
        if enabled:
            self._platform.follow_now()

    def depths(self) -> dict[str, tuple[int, int]]:
        """Return how many messages wait and are in flight in each lane, the highest first."""
        found = {}
        for lane in self.deployment.config.lanes:
            url, wanted = self.deployment.queues[lane.name].url, [*_WAITING, _IN_FLIGHT]
            counts = self._sqs.get_queue_attributes(QueueUrl=url, AttributeNames=wanted)["Attributes"]
            found[lane.name] = sum(int(counts[name]) for name in _WAITING), int(counts[_IN_FLIGHT])
        return found

    def deliveries(self) -> list[tuple[int, oracle.Sent]]:
        """Return all receives from its lanes so far: numbers in their queues, and messages."""
        names = {queues.url.rpartition("/")[2]: name for name, queues in self.deployment.queues.items()}
        return [
            (one.sequence, oracle.Sent(json.loads(one.body)["id"], names[one.queue], one.group, one.sent_at))
            for one in self._platform.receives()
            if one.queue in names
        ]

    def take_dead_letters(self) -> list[tuple[str, str]]:
        """Take everything out of the dead-letter queues; return ids and reasons."""
        taken = []
        for queues in self.deployment.queues.values():
            url = queues.dead_letter_url
            wanted = {"QueueUrl": url, "MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"]}
            while messages := self._sqs.receive_message(**wanted).get("Messages"):
                for message in messages:
                    attributes = message.get("MessageAttributes", {})
                    note = json.loads(attributes.get(NOTE_ATTRIBUTE, {}).get("StringValue", "{}"))
                    taken.append((json.loads(message["Body"])["id"], note.get("reason", "")))
                    self._sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
        return taken

    def send_backfill(self, customers: int) -> None:
        """Run the job that makes the rows of the customers and sends them; raise `DemoError` if it fails."""
        endpoint, log = self._platform.endpoint_url, self._logs / f"spark-{self.name}.log"
        where = ["--stack", self.stack, "--region", REGION, "--endpoint-url", endpoint]
        environment = without_aws_settings(os.environ) | isolated_variables(endpoint, USER_KEY)
        words = [sys.executable, "-m", "spark_jobs.enqueue", *plan.backfill_arguments(customers), *where]
        status = run_guarded(words, cwd=ROOT, environment=environment, log_path=log)
        said = log.read_text(errors="replace")
        if status or f'"sent": {customers},' not in said:
            raise DemoError(f"the Spark job failed with status {status}:\n{said.strip()[-2_000:]}")


class Journal:
    """Records the lines that a function prints, from any thread; `works` are the starts of its handlers."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: dict[str, int] = {}
        self._given_up = 0
        self._last_change = time.monotonic()
        self.works: list[oracle.Work] = []
        self.done: set[str] = set()
        self.away = 0
        self.yields: Counter[str] = Counter()

    def take_line(self, line: str) -> None:
        """Record the event of a line, if it has one."""
        try:
            event = json.loads(line) if line.startswith("{") else {}
        except ValueError:
            return
        step, name = event.get("resource"), event.get("event")
        with self._changed:
            if step == "started" or (isinstance(step, str) and step in _ENDS):
                self._take_step(step, event)
            elif name in _YIELDS:
                self.yields[event["lane"]] += 1
            elif name == Event.MESSAGE_DEAD_LETTERED:
                self._given_up += 1
            self._changed.notify_all()

    def _take_step(self, step: str, event: Mapping[str, Any]) -> None:
        one, at = str(event["id"]), float(event["at"])
        self._last_change = time.monotonic()
        if step == "started" or one not in self._running:
            # It died, unless its end is recorded; a start after a start means that the first one died.
            self._running[one] = len(self.works)
            self.works.append(oracle.Work(one, int(event["attempt"]), at, at, "died"))
        if step != "started":
            place = self._running.pop(one)
            self.works[place] = self.works[place]._replace(ended_at=at, how=_ENDS[step])
            self.done |= {one} if step == "finished" else set()
            self.away += step == "away"

    def wait(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until a condition about this journal holds, or the seconds are over; return whether it holds."""
        with self._changed:
            return self._changed.wait_for(condition, seconds)

    @property
    def ended(self) -> int:
        """Messages that are done or dead-lettered."""
        return len(self.done) + self._given_up

    @property
    def quiet_seconds(self) -> float:
        """Seconds since a handler last started or ended anything."""
        return time.monotonic() - self._last_change


class _StalledError(Exception):
    """Nothing has happened for so long that nothing will."""


class Flood:
    """
    Drains one stage and sends the urgent messages meanwhile.

    `traffic` is the configuration with priority, which names the lane that a message belongs to in every run; `show`
    gets a line about the run twice a second.
    """

    def __init__(
        self,
        stage: Stage,
        customers: int,
        *,
        traffic: LanesConfig,
        journal: Journal,
        show: Callable[[str], None],
    ) -> None:
        self._stage = stage
        self._episodes = plan.episodes(customers)
        self._traffic = traffic
        self._journal = journal
        self._show = show
        lane = traffic.lane_for(plan.PRIORITIES[plan.BACKFILL]).name
        self._sent = {one: Sent(lane=lane) for one in plan.backfill_ids(customers)}
        self._backfill = frozenset(self._sent)
        self._backlogs: list[int] = []

    def run(self, *, with_outage: bool) -> Evidence:
        """Run until everything is done, or nothing has happened for so long that nothing will."""
        began_at, away_at, back_at = time.time(), 0.0, 0.0
        self._stage.switch(enabled=True)
        with contextlib.suppress(_StalledError):
            for episode in self._episodes:
                self._until(partial(self._has_progressed, episode.due_after))
                self._send(episode.messages)
                self._backlogs.append(list(self._stage.depths().values())[-1][0])
            self._drain()
            if with_outage:
                away_at, back_at = time.time(), time.time() + plan.AWAY_SECONDS
                backlog, urgent = plan.outage(back_at)
                self._send(backlog)
                self._until(lambda: self._journal.away >= plan.BEFORE_URGENT)
                self._send(urgent)
                self._drain()
        self._stage.switch(enabled=False)
        return Evidence(
            config=self._stage.deployment.config,
            began_at=began_at,
            away_at=away_at,
            back_at=back_at,
            sent=self._sent,
            deliveries=self._stage.deliveries(),
            works=list(self._journal.works),
            dead=self._stage.take_dead_letters(),
            least_backlog=min(self._backlogs, default=0),
            yields=self._journal.yields,
        )

    def _send(self, messages: Sequence[Message]) -> None:
        self._stage.producer.send_many(list(messages))
        for one in messages:
            lane, is_away = self._traffic.lane_for(plan.PRIORITIES[one.kind]).name, "away_until" in one.data
            self._sent[one.id] = Sent(lane=lane, place=len(self._sent), is_away=is_away)

    def _has_progressed(self, due: int) -> bool:
        return len(self._journal.done & self._backfill) >= due

    def _has_ended(self) -> bool:
        return self._journal.ended >= len(self._sent)

    def _until(self, condition: Callable[[], bool]) -> None:
        while not self._journal.wait(condition, _LOOK_SECONDS):
            self._look()

    def _drain(self) -> None:
        """Wait until the lanes are empty, and then for the last lines of the function, which may be read later."""
        while self._look():
            self._journal.wait(self._has_ended, _LOOK_SECONDS / 2)
        self._journal.wait(self._has_ended, _LAST_LINES_SECONDS)

    def _look(self) -> int:
        """Show the progress, and return the number of messages in the lanes; raise if the run has stalled."""
        depths, ended = self._stage.depths(), self._journal.ended
        self._show(f"{ended:,} of {len(self._sent):,} done; {state(depths, self._journal.yields)}")
        # By then messages of a crashed invocation would have returned.
        held_back = max(lane.visibility_timeout for lane in self._stage.deployment.config.lanes)
        if self._journal.quiet_seconds > held_back.total_seconds() + _STALL_SLACK_SECONDS:
            raise _StalledError
        return sum(map(sum, depths.values()))


def state(depths: Mapping[str, tuple[int, int]], yields: Mapping[str, int]) -> str:
    """Return the lanes in words, without zeros."""
    lanes = []
    for name, (waiting, in_flight) in depths.items():
        counts = ((waiting, "waiting"), (in_flight, "in flight"), (yields.get(name, 0), "yields"))
        if words := ", ".join(f"{count:,} {noun}" for count, noun in counts if count):
            lanes.append(f"{name} {words}")
    return "; ".join(lanes) or "the lanes are empty"
