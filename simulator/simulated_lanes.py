"""A whole deployment in virtual time: queues, mappings, function, and the consumer under test."""

from __future__ import annotations

import dataclasses
import enum
from collections import Counter, defaultdict
from random import Random
from typing import TYPE_CHECKING, Any

from lanes.bell import maximum_concurrency
from lanes.config import EngineName, LanesConfig
from lanes.consumer import Consumer
from lanes.consumer.signals import Yielded
from lanes.errors import Unavailable
from lanes.metrics import Metric
from lanes.testing.assertions import Silence
from lanes.testing.calls import Calls
from lanes.testing.fifo.message import LOOK_AHEAD
from lanes.testing.world import MemoryStack, deployment_in_memory

from .fault_injection import FaultInjector
from .function import SimulatedFunction, SimulatedMapping
from .history import KIND, Bodies, Handled, HandledLog, History, Meter, SlotWatch, data_of
from .parameters import Faults, Unknowns
from .patterns import PlainConsumer, as_published, without_shares
from .queues import ApproximateQueues, SimulatedBell
from .scheduler import Scheduler, SimulatedBeside

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lanes.config import Lane
    from lanes.message import Message
    from lanes.testing.fifo.queue import FifoQueue
    from lanes.testing.function import InvocationContext


REFUSAL = 0.02
"""Seconds of a handler that finds its resource away."""


class Pattern(enum.StrEnum):
    """Which consumer runs."""

    LANES = "lanes"  # this product with the engine of its settings
    PLAIN = "plain"  # the published pattern
    PULL = "pull"  # this product with slots that receive
    NONE = "none"  # no priority: the same queues without yields


@dataclasses.dataclass(slots=True)
class Tally:
    """The counts of all consumers of a run."""

    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    problems: Counter[str] = dataclasses.field(default_factory=Counter)
    by_lane: defaultdict[str, Counter[str]] = dataclasses.field(default_factory=lambda: defaultdict(Counter))

    def add(self, lane: str, metric: str, count: int) -> None:
        """Add to a lane's count and to the total."""
        self.counts[metric] += count
        self.by_lane[lane][metric] += count


class EnvironmentTelemetry(Silence):
    """Count the telemetry of one environment in the run's tally."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._lane = ""

    def begin(self, lane: str, context: Any) -> None:  # noqa: ARG002
        """Set the lane of the following counts."""
        self._lane = lane

    def problem(self, name: str, /, **fields: Any) -> None:  # noqa: ARG002
        """Count a problem."""
        self._tally.problems[name] += 1

    def count(self, metric: str, value: float = 1) -> None:
        """Add to a count."""
        self._tally.add(self._lane, str(metric), int(value))


class SimulatedLanes(MemoryStack):
    """
    Lanes under load in virtual time.

    Args:
        config: the lanes, as deployed.
        pattern: the consumer to run.
        unknowns: undocumented behaviour of AWS.
        faults: faults to inject.
        look_ahead: number of a queue's oldest messages that are searched for free groups; AWS's 120,000 by default.
        seed: decides every random choice.
        plain_batch: batch size of the plain pattern; it was published with batches of one.

    Attributes:
        handled: the handled messages, by the end of their handlers.
        sent, done: numbers of messages sent and handled.
        away: whether the resource is away so many seconds after the start; never, by default.
        refused: number of calls that found it away.
        sent_to: number of messages sent to each lane.
        history: starts and ends of each message, by its place in the order of sends.
        meter: the use of slots while messages waited.
        slot_watch: the running handlers, compared with the slots.
        overrides: an operator's changes, None by default; set them before the run.

    """

    def __init__(
        self,
        config: LanesConfig,
        *,
        pattern: Pattern = Pattern.LANES,
        unknowns: Unknowns | None = None,
        faults: Faults | None = None,
        look_ahead: int = LOOK_AHEAD,
        seed: int = 1,
        plain_batch: int = 1,
    ) -> None:
        if pattern is Pattern.PLAIN:
            config = as_published(config, batch=plain_batch)
        elif pattern is Pattern.NONE:
            config = without_shares(config)
        if pattern is Pattern.PULL and config.consumer.engine is not EngineName.PULL:
            document = config.to_dict(brief=True)
            document["consumer"]["engine"] = EngineName.PULL.value
            config = LanesConfig.from_dict(document)
        elif pattern is Pattern.LANES and config.consumer.engine is EngineName.PULL:
            pattern = Pattern.PULL
        elif pattern is not Pattern.PULL:
            consumer = dataclasses.replace(config.consumer, engine=EngineName.MAPPINGS)
            config = dataclasses.replace(config, consumer=consumer)
        self.pattern = pattern
        self.unknowns = unknowns or Unknowns()
        self.faults = faults or Faults()
        self.scheduler = Scheduler()
        self.chance = Random(seed)  # noqa: S311 - a simulation
        calls = Calls()
        self._injector = FaultInjector(
            self.faults,
            self.unknowns,
            scheduler=self.scheduler,
            chance=Random(f"faults {seed}"),  # noqa: S311
        )
        self._injector.attach(calls)
        self.meter = Meter(
            self.scheduler.clock,
            lanes=[lane.name for lane in config.lanes],
            slots=config.consumer.reserved_concurrency,
        )
        self.slot_watch = SlotWatch(
            self.scheduler.clock,
            slots=config.consumer.reserved_concurrency,
            timeout=config.consumer.function_timeout.total_seconds(),
        )
        queues = ApproximateQueues(
            config,
            scheduler=self.scheduler,
            calls=calls,
            unknowns=self.unknowns,
            look_ahead=look_ahead,
            chance=Random(f"counts {seed}"),  # noqa: S311
        )
        super().__init__(config, self.scheduler.clock, calls, queues, sleep=self.scheduler.sleep)
        self.overrides = None
        self.tally = Tally()
        self.handled = HandledLog()
        self.history = History()
        self.away: Callable[[float], bool] = lambda _seconds: False
        self._began_at = self.scheduler.now
        self.sent = self.done = self.refused = 0
        self.sent_to: Counter[str] = Counter()
        self._bodies = Bodies()
        self._numbers: Counter[tuple[str, str]] = Counter()
        self.function = self._function()
        self.senders = SimulatedBell(self, self.scheduler)
        self.mappings = {
            lane.name: self._mapping(
                lane, self.queues.live[lane.name], enabled=self.pattern is not Pattern.PULL
            )
            for lane in config.lanes
        }
        self.bell_mapping = self._mapping(
            self.senders.as_lane, self.bell, enabled=self.pattern is Pattern.PULL
        )
        self.on_rung = self.bell_mapping.notice
        self.queues.on_visible = lambda lane: self.mappings[lane].notice()
        self.senders.deploy()
        if self.faults.redeploy_every:
            self._redeploy_later()

    @property
    def dead(self) -> int:
        """Number of messages in dead-letter queues."""
        return sum(queue.counts().visible for queue in self.queues.dead.values())

    @property
    def left(self) -> int:
        """Number of messages in the lanes' queues, in flight or not."""
        counts = (queue.counts() for queue in self.queues.live.values())
        return sum(one.visible + one.not_visible for one in counts)

    def send(self, lane: str, *, group: str, seconds: float, fault: str = "", rings: bool = True) -> None:
        """
        Send a message.

        Args:
            lane: name of the lane.
            group: its message group.
            seconds: time that its handler takes.
            fault: "always" or "once" for a handler that fails, "check" for a checkpoint half way, "crash" for one that
                kills its process each time, half way, "away" for one that says each time that its resource is away.
            rings: whether the sender rings the bell.

        """
        number = self._numbers[lane, group] = self._numbers[lane, group] + 1
        self.sent = place = self.history.sent(self.scheduler.now)
        self.sent_to[lane] += 1
        body = self._bodies.write(lane=lane, place=place, number=number, seconds=seconds, fault=fault)
        self.meter.sent(lane, group)
        self.queues.live[lane].send(body, group=group, deduplication_id=str(place))
        self.mappings[lane].notice()
        if rings:
            self.senders.ring_for(lane)

    def deploy(self, config: LanesConfig, *, within: float = 0.0) -> None:
        """
        Deploy the same lanes with another engine or number of slots, in the middle of the work.

        New invocations start in new environments, running ones go on until they end. New mappings deliver at once; old
        ones, and the senders' settings, stay `within` some seconds: the time of a deploy.
        """
        self.config, self.deployment = config, deployment_in_memory(config)
        self.pattern = Pattern.PULL if config.consumer.engine is EngineName.PULL else Pattern.LANES
        self.function.redeploy(slots=config.consumer.reserved_concurrency)
        self.slot_watch.deployed(config.consumer.reserved_concurrency)
        self._enable(config, is_new=True)
        self.scheduler.after(within, lambda: self._end_deploy(config))

    def run(self, *, seconds: float, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass; return whether `until` became true."""
        return self.scheduler.run(seconds=seconds, until=until)

    def settle(self, *, within: float) -> bool:
        """Let time pass until every message is done or dead-lettered and its queue is empty; return whether it is."""
        return self.run(seconds=within, until=lambda: self.done + self.dead >= self.sent and not self.left)

    def _function(self) -> SimulatedFunction:
        consumer = self.config.consumer
        return SimulatedFunction(
            slots=consumer.reserved_concurrency,
            timeout=consumer.function_timeout.total_seconds(),
            make_handle=self._make_handle,
            scheduler=self.scheduler,
            unknowns=self.unknowns,
            doom=self._injector.doom,
        )

    def _end_deploy(self, config: LanesConfig) -> None:
        if config is self.config:
            self._enable(config, is_new=False)
            self.senders.deploy()

    def _enable(self, config: LanesConfig, *, is_new: bool) -> None:
        """Enable the mappings of the engine, or disable the others."""
        if (config.consumer.engine is EngineName.PULL) is is_new:
            concurrency = maximum_concurrency(config.consumer.reserved_concurrency)
            self.bell_mapping.deploy(enabled=is_new, maximum_concurrency=concurrency)
        else:
            for lane in config.lanes:
                self.mappings[lane.name].deploy(enabled=is_new, maximum_concurrency=lane.maximum_concurrency)

    def _mapping(self, lane: Lane, queue: FifoQueue, *, enabled: bool) -> SimulatedMapping:
        return SimulatedMapping(
            lane,
            queue=queue,
            function=self.function,
            scheduler=self.scheduler,
            unknowns=self.unknowns,
            chance=self.chance,
            faults=self.faults,
            enabled=enabled,
        )

    def _redeploy_later(self) -> None:
        def redeploy() -> None:
            self.function.redeploy()
            self._redeploy_later()

        self.scheduler.after(self.faults.redeploy_every, redeploy)

    def _make_handle(self) -> Callable[[Mapping[str, Any], InvocationContext], Mapping[str, Any]]:
        if self.pattern in (Pattern.LANES, Pattern.PULL):
            return self._consumer().handle
        return self._plain_consumer().handle

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
        consumer = Consumer(
            self.runtime(
                EnvironmentTelemetry(self.tally),
                Random(self.chance.getrandbits(64)),  # noqa: S311
                beside=SimulatedBeside(self.scheduler),
                clock=self._injector.clock(),
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

    def _work(
        self,
        lane: str,
        data: Mapping[str, Any],
        *,
        group: str,
        attempt: int | None,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """Act as the handler; `attempt` is the consumer's count, None if the pattern has no attempts."""
        place, fault = data["place"], data.get("fault", "")
        before = self.history.begin(place, at=self.scheduler.now)
        number = before + 1 if attempt is None else attempt
        started = self.scheduler.now
        self.slot_watch.began()
        self.meter.began(lane, group, first=not before)
        how = "died"
        try:
            seconds = data["seconds"]
            if fault == "check":
                self.scheduler.sleep(seconds / 2)
                check()
                seconds /= 2
            elif fault == "crash":
                self.scheduler.sleep(seconds / 2)
                self.scheduler.die()
            if fault == "away" or self.away(self.scheduler.now - self._began_at):
                self.scheduler.sleep(REFUSAL)
                how = "away"
                self.refused += 1
                raise Unavailable(reason="as planned")
            self.scheduler.sleep(seconds)
            how = "failed" if fault == "always" or (fault == "once" and number == 1) else "done"
        except Yielded:
            how = "yielded"
            raise
        finally:
            self.slot_watch.ended()
            self.meter.ended(lane, group, done=how == "done")
            self.history.end(place, attempt=number, how=how)
        if how == "failed":
            raise RuntimeError("as planned")
        self.done += self.history.times_done(place) == 1
        self.handled.append(
            Handled(
                lane=lane,
                group=group,
                number=data["number"],
                sent_at=self.history.sent_at(place),
                first_started_at=self.history.first_begun_at(place),
                started_at=started,
                finished_at=self.scheduler.now,
            )
        )
