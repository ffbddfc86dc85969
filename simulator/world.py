"""A whole deployment in virtual time: queues, mappings, function, and whichever consumer is looked at."""

from __future__ import annotations

import dataclasses
import enum
from collections import Counter, defaultdict
from random import Random
from typing import TYPE_CHECKING, Any

from lanes.consumer import Consumer
from lanes.consumer.consumer import Surroundings
from lanes.consumer.context import Yielded
from lanes.consumer.slots import SingleSlot
from lanes.consumer.telemetry import Metric
from lanes.deployment import Deployment, LaneQueues
from lanes.testing.fifo.settings import LOOK_AHEAD

from .background import StrandBackground
from .chronicle import Chronicle
from .counts import ApproximateQueues
from .function import SimulatedFunction
from .handled import Handled, HandledLog
from .kernel import Kernel
from .letters import KIND, Letters, data_of
from .mapping import SimulatedMapping
from .memory import Calls, CountedLedger, MemoryRegister
from .meter import Meter
from .parameters import Faults, Unknowns
from .plain import NATIVE_RECEIVES, PlainConsumer
from .troubles import Troubles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.config import LanesConfig
    from lanes.message import Message

    from .function import InvocationContext


class Pattern(enum.StrEnum):
    """Which consumer runs."""

    LANES = "lanes"  # this product's, as it is deployed
    PLAIN = "plain"  # the pattern it grew from
    NONE = "none"  # no priority: the same queues, nobody yields


@dataclasses.dataclass(slots=True)
class Tally:
    """What the consumers of a run counted."""

    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    problems: Counter[str] = dataclasses.field(default_factory=Counter)
    by_lane: defaultdict[str, Counter[str]] = dataclasses.field(default_factory=lambda: defaultdict(Counter))

    def add(self, lane: str, metric: str, count: int) -> None:
        """Add to a lane's count and to that of the whole."""
        self.counts[metric] += count
        self.by_lane[lane][metric] += count


class EnvironmentTelemetry:
    """The telemetry of one environment, which counts into the run's tally."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._lane = ""

    def begin(self, lane: str, context: Any) -> None:  # noqa: ARG002
        """Remember the lane."""
        self._lane = lane

    def event(self, name: str, /, **fields: Any) -> None:
        """Do nothing."""

    def problem(self, name: str, /, **fields: Any) -> None:  # noqa: ARG002
        """Count a problem."""
        self._tally.problems[name] += 1

    def count(self, metric: str, value: float = 1) -> None:
        """Add to a count."""
        self._tally.add(self._lane, str(metric), int(value))

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
        faults: what goes wrong.
        look_ahead: how many of a queue's oldest messages are searched for groups: AWS's 120,000 unless told otherwise.
        standard: makes standard queues of the lanes', in an order that this decides; the consumer needs FIFO queues.
        seed: decides everything that chance decides.

    Attributes:
        handled: what was handled, in the order of its ends.
        sent, done: how many messages were sent, and how many of them were handled.
        sent_to: how many were sent to each lane.
        chronicle: what became of each message, by its place in the order of sends.
        meter: how slots were used while messages waited.

    """

    def __init__(
        self,
        config: LanesConfig,
        *,
        pattern: Pattern = Pattern.LANES,
        unknowns: Unknowns | None = None,
        faults: Faults | None = None,
        look_ahead: int = LOOK_AHEAD,
        standard: Random | None = None,
        seed: int = 1,
    ) -> None:
        if pattern is Pattern.PLAIN:
            lanes = tuple(dataclasses.replace(lane, batch_size=1) for lane in config.lanes)
            config = dataclasses.replace(config, lanes=lanes)
        self.config = config
        self.pattern = pattern
        self.unknowns = unknowns or Unknowns()
        self.faults = faults or Faults()
        self.kernel = Kernel()
        self.chance = Random(seed)  # noqa: S311 - a simulation
        self.calls = Calls()
        self._troubles = Troubles(
            self.faults,
            self.unknowns,
            kernel=self.kernel,
            chance=Random(f"troubles {seed}"),  # noqa: S311
        )
        self._troubles.attach(self.calls)
        self.meter = Meter(
            self.kernel.clock,
            lanes=[lane.name for lane in config.lanes],
            slots=config.consumer.reserved_concurrency,
        )
        self.queues = ApproximateQueues(
            config,
            kernel=self.kernel,
            calls=self.calls,
            native=NATIVE_RECEIVES if pattern is Pattern.PLAIN else None,
            unknowns=self.unknowns,
            look_ahead=look_ahead,
            standard=standard,
            chance=Random(f"counts {seed}"),  # noqa: S311
        )
        self.ledger = CountedLedger(self.calls)
        self.register = MemoryRegister(self.calls)
        self.tally = Tally()
        self.handled = HandledLog()
        self.chronicle = Chronicle()
        self.sent = self.done = 0
        self.sent_to: Counter[str] = Counter()
        self._letters = Letters()
        self._numbers: Counter[tuple[str, str]] = Counter()
        self.function = self._function()
        self.mappings = {lane.name: self._mapping(lane.name) for lane in config.lanes}
        self.queues.on_visible = lambda lane: self.mappings[lane].notice()
        if self.faults.redeploy_every:
            self._redeploy_later()

    @property
    def dead(self) -> int:
        """How many messages are in dead-letter queues."""
        return sum(queue.counts().visible for queue in self.queues.dead.values())

    @property
    def left(self) -> int:
        """How many messages are in the lanes' queues, in flight or not."""
        counts = (queue.counts() for queue in self.queues.live.values())
        return sum(one.visible + one.not_visible for one in counts)

    def send(self, lane: str, *, group: str, seconds: float, fault: str = "") -> None:
        """Send a message whose handler takes so long; `fault` is "always", "once" or "check", a checkpoint half way."""
        number = self._numbers[lane, group] = self._numbers[lane, group] + 1
        self.sent = place = self.chronicle.sent(self.kernel.now)
        self.sent_to[lane] += 1
        body = self._letters.write(lane=lane, place=place, number=number, seconds=seconds, fault=fault)
        self.meter.sent(lane, group)
        self.queues.live[lane].send(body, group=group, deduplication_id=str(place))
        self.mappings[lane].notice()

    def run(self, *, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass; return whether `until` came true."""
        return self.kernel.run(seconds=seconds, until=until)

    def settle(self, *, within: float) -> bool:
        """Let time pass until every message is done or dead-lettered and its queue is empty; return whether it is."""
        return self.run(seconds=within, until=lambda: self.done + self.dead >= self.sent and not self.left)

    def _function(self) -> SimulatedFunction:
        consumer = self.config.consumer
        ours = self.pattern is Pattern.LANES
        return SimulatedFunction(
            slots=self.config.function_concurrency if ours else consumer.reserved_concurrency,
            timeout=consumer.function_timeout.total_seconds(),
            make_handle=self._make_handle,
            queue_arn=lambda lane: f"arn:aws:sqs:us-east-1:1:{lane}.fifo",
            kernel=self.kernel,
            unknowns=self.unknowns,
            doom=self._troubles.doom,
        )

    def _mapping(self, lane: str) -> SimulatedMapping:
        return SimulatedMapping(
            self.config.lane(lane),
            queue=self.queues.live[lane],
            function=self.function,
            kernel=self.kernel,
            unknowns=self.unknowns,
            chance=self.chance,
            faults=self.faults,
        )

    def _redeploy_later(self) -> None:
        def redeploy() -> None:
            self.function.redeploy()
            self._redeploy_later()

        self.kernel.after(self.faults.redeploy_every, redeploy)

    def _make_handle(self) -> Callable[[Mapping[str, Any], InvocationContext], Mapping[str, Any]]:
        return self._consumer().handle if self.pattern is Pattern.LANES else self._plain_consumer().handle

    def _plain_consumer(self) -> PlainConsumer:
        return PlainConsumer(
            config=self.config,
            depths=self.queues,
            lane_of=lambda arn: arn.rpartition(":")[2].removesuffix(".fifo"),
            work=lambda lane, group, body: self._work(lane, data_of(body), group=group, attempt=None),
            yields=self.pattern is Pattern.PLAIN,
            count_yields=lambda lane, count: self.tally.add(lane, Metric.YIELDED, count),
        )

    def _consumer(self) -> Consumer:
        alone = self.config.function_concurrency == 1
        consumer = Consumer(
            Surroundings(
                deployment=self._deployment(),
                queues=self.queues,
                ledger=self.ledger,
                register=SingleSlot() if alone else self.register,
                telemetry=EnvironmentTelemetry(self.tally),
                clock=self._troubles.clock(),
                pause=self.kernel.sleep,
                background=StrandBackground(self.kernel),
                random=Random(self.chance.getrandbits(64)),  # noqa: S311
            )
        )

        @consumer.handler(KIND)
        def work(message: Message, context: Any) -> None:
            self._work(
                context.lane,
                message.data,
                group=message.group or "",
                attempt=context.attempt,
                check=context.checkpoint,
            )

        return consumer

    def _deployment(self) -> Deployment:
        queues = {
            lane.name: LaneQueues(
                url=f"https://sqs/1/{lane.name}.fifo", dead_letter_url=f"https://sqs/1/{lane.name}-dead.fifo"
            )
            for lane in self.config.lanes
        }
        return Deployment(config=self.config, queues=queues, table="ledger")

    def _work(
        self,
        lane: str,
        data: Mapping[str, Any],
        *,
        group: str,
        attempt: int | None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Be the handler; `attempt` is what the consumer says of it, None where nobody counts."""
        place, fault = data["place"], data.get("fault", "")
        before = self.chronicle.begin(place)
        number = before + 1 if attempt is None else attempt
        started = self.kernel.now
        self.meter.began(lane, group, first=not before)
        how = "died"
        try:
            seconds = data["seconds"]
            if fault == "check":
                self.kernel.sleep(seconds / 2)
                check()
                seconds /= 2
            self.kernel.sleep(seconds)
            how = "failed" if fault == "always" or (fault == "once" and number == 1) else "done"
        except Yielded:
            how = "yielded"
            raise
        finally:
            self.meter.ended(lane, group, done=how == "done")
            self.chronicle.end(place, attempt=number, how=how)
        if how == "failed":
            raise RuntimeError("as planned")
        self.done += self.chronicle.times_done(place) == 1
        self.handled.append(
            Handled(
                lane=lane,
                group=group,
                number=data["number"],
                sent_at=self.chronicle.sent_at(place),
                started_at=started,
                finished_at=self.kernel.now,
            )
        )
