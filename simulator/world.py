"""A whole deployment in virtual time: queues, mappings, function, and whichever consumer is looked at."""

from __future__ import annotations

import dataclasses
import enum
import json
from collections import Counter
from random import Random
from typing import TYPE_CHECKING, Any

from lanes.consumer import Consumer
from lanes.consumer.consumer import Surroundings
from lanes.consumer.slots import SingleSlot
from lanes.deployment import Deployment, LaneQueues
from lanes.message import Message
from simulator.function import SimulatedFunction
from simulator.kernel import Kernel
from simulator.mapping import SimulatedMapping
from simulator.memory import Calls, MemoryLedger, MemoryQueues, MemoryRegister
from simulator.parameters import Unknowns
from simulator.plain import NATIVE_RECEIVES, PlainConsumer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.config import LanesConfig
    from simulator.function import InvocationContext


class Pattern(enum.StrEnum):
    """Which consumer runs."""

    LANES = "lanes"  # this product's, as it is deployed
    PLAIN = "plain"  # the pattern it grew from
    NONE = "none"  # no priority: the same queues, nobody yields


@dataclasses.dataclass(slots=True)
class Handled:
    """One handled message; times in epoch seconds."""

    lane: str
    group: str
    number: int
    sent_at: float
    started_at: float
    finished_at: float


@dataclasses.dataclass(slots=True)
class Tally:
    """What the consumers of a run counted; it serves as their telemetry."""

    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    problems: Counter[str] = dataclasses.field(default_factory=Counter)

    def begin(self, lane: str, context: Any) -> None:
        """Do nothing."""

    def event(self, name: str, /, **fields: Any) -> None:
        """Do nothing."""

    def problem(self, name: str, /, **fields: Any) -> None:  # noqa: ARG002
        """Count a problem."""
        self.problems[name] += 1

    def count(self, metric: str, value: float = 1) -> None:
        """Add to a count."""
        self.counts[str(metric)] += int(value)

    def milliseconds(self, metric: str, value: float) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""


class SimulatedLanes:
    """
    Lanes under load in virtual time.

    Args:
        config: the lanes, as deployed.
        pattern: whose consumer runs.
        unknowns: what AWS leaves open.
        seed: decides everything that chance decides.

    """

    def __init__(
        self,
        config: LanesConfig,
        *,
        pattern: Pattern = Pattern.LANES,
        unknowns: Unknowns | None = None,
        seed: int = 1,
    ) -> None:
        if pattern is Pattern.PLAIN:
            lanes = tuple(dataclasses.replace(lane, batch_size=1) for lane in config.lanes)
            config = dataclasses.replace(config, lanes=lanes)
        self.config = config
        self.pattern = pattern
        self.unknowns = unknowns or Unknowns()
        self.kernel = Kernel()
        self.chance = Random(seed)  # noqa: S311 - a simulation
        self.calls = Calls()
        self.calls.takes = lambda _operation: self.kernel.sleep(self.unknowns.call)
        native = NATIVE_RECEIVES if pattern is Pattern.PLAIN else None
        self.queues = MemoryQueues(config, self.kernel.clock, self.calls, native=native)
        self.ledger = MemoryLedger(self.calls)
        self.register = MemoryRegister(self.calls)
        self.tally = Tally()
        self.handled: list[Handled] = []
        self.sent = 0
        self._numbers: Counter[tuple[str, str]] = Counter()
        self.function = SimulatedFunction(
            slots=config.consumer.reserved_concurrency,
            timeout=config.consumer.function_timeout.total_seconds(),
            make_handle=self._make_handle,
            queue_arn=lambda lane: f"arn:aws:sqs:us-east-1:1:{lane}.fifo",
            kernel=self.kernel,
            unknowns=self.unknowns,
            chance=self.chance,
        )
        self.mappings = {
            lane.name: SimulatedMapping(
                lane,
                queue=self.queues.live[lane.name],
                function=self.function,
                kernel=self.kernel,
                unknowns=self.unknowns,
                chance=self.chance,
            )
            for lane in config.lanes
        }

    def send(self, lane: str, *, group: str, seconds: float, fault: str = "") -> None:
        """Send a message whose handler takes so long; `fault` is "always" or "once"."""
        number = self._numbers[lane, group] = self._numbers[lane, group] + 1
        self.sent += 1
        data = {"seconds": seconds, "number": number, "sent": self.kernel.now, "fault": fault}
        body = Message(kind="work", data=data, group=group, id=f"{lane}-{self.sent}").to_body()
        self.queues.live[lane].send(body, group=group, deduplication_id=f"{lane}-{self.sent}")
        self.mappings[lane].notice()

    def run(self, *, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass; return whether `until` came true."""
        return self.kernel.run(seconds=seconds, until=until)

    def _make_handle(self) -> Callable[[Mapping[str, Any], InvocationContext], Mapping[str, Any]]:
        return self._consumer().handle if self.pattern is Pattern.LANES else self._plain_consumer().handle

    def _plain_consumer(self) -> PlainConsumer:
        return PlainConsumer(
            config=self.config,
            depths=self.queues,
            lane_of=lambda arn: arn.rpartition(":")[2].removesuffix(".fifo"),
            work=lambda lane, group, body: self._work(lane, json.loads(body)["data"], group=group, attempt=1),
            yields=self.pattern is Pattern.PLAIN,
        )

    def _consumer(self) -> Consumer:
        alone = self.config.consumer.reserved_concurrency == 1
        consumer = Consumer(
            Surroundings(
                deployment=self._deployment(),
                queues=self.queues,
                ledger=self.ledger,
                register=SingleSlot() if alone else self.register,
                telemetry=self.tally,
                clock=self.kernel.clock,
                random=Random(self.chance.getrandbits(64)),  # noqa: S311
            )
        )

        @consumer.handler("work")
        def work(message: Message, context: Any) -> None:
            self._work(context.lane, message.data, group=message.group or "", attempt=context.attempt)

        return consumer

    def _deployment(self) -> Deployment:
        queues = {
            lane.name: LaneQueues(
                url=f"https://sqs/1/{lane.name}.fifo", dead_letter_url=f"https://sqs/1/{lane.name}-dead.fifo"
            )
            for lane in self.config.lanes
        }
        return Deployment(config=self.config, queues=queues, table="ledger")

    def _work(self, lane: str, data: Mapping[str, Any], *, group: str, attempt: int) -> None:
        started = self.kernel.now
        self.kernel.sleep(data["seconds"])
        if data["fault"] == "always" or (data["fault"] == "once" and attempt == 1):
            raise RuntimeError("as planned")
        self.handled.append(
            Handled(
                lane=lane,
                group=group,
                number=data["number"],
                sent_at=data["sent"],
                started_at=started,
                finished_at=self.kernel.now,
            )
        )
