"""Scenarios of a consumer in memory: messages with their handler's behaviour, environments, faults, and the outcome."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, Any

from lanes import DeadLetter, Retry
from lanes.testing.calls import ProcessKilled
from tests.support.memory import World

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.consumer import Consumer
    from lanes.consumer.handlers import HandlerContext
    from lanes.message import Message
    from lanes.testing.fifo.message import ReceivedMessage

FAILURES = frozenset({"fail", "retry", "exit", "dead"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """One start of a handler."""

    id: str
    message_id: str
    lane: str
    group: str
    attempt: int
    receive_count: int
    at: float
    does: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A message of the scenario."""

    id: str
    lane: str
    group: str
    message_id: str


class Scenario:
    """
    Lanes in memory, the environments of their function, and a record of every handler start.

    A message's `does` lists its handler's action at each start, the last for all later ones: `ok`, `fail`, `retry`,
    `dead`, `exit`, `crash` (the process dies), `check` (a checkpoint, then ok). With `max_size`, a batch handler
    does it for up to so many messages a call.
    """

    def __init__(
        self,
        raw: Mapping[str, Any] | None = None,
        *,
        environments: int = 1,
        seed: int = 1,
        max_size: int | None = None,
        **world: Any,
    ) -> None:
        self.max_size = max_size
        self.calls: list[list[str]] = []
        self.world = World(raw, seed=seed, **world)
        self.random = Random(seed)
        self.sent: list[Sent] = []
        self.starts: list[Start] = []
        self.done: list[str] = []
        self.crashes = 0
        self.invocations = self.handlers = 0  # at work now
        self.violations: list[str] = []
        self.takes = 0.01
        self.may_raise = False
        self.in_handler: Callable[[Message], None] = lambda _message: None
        self.environments = [self._new_environment() for _ in range(environments)]
        self._by_group: dict[tuple[str, str], list[Sent]] = defaultdict(list)
        self._started: dict[str, int] = defaultdict(int)

    def warm_up(self) -> None:
        """Assemble every environment now instead of at its first event: the reserve saves up from then on."""
        for environment in self.environments:
            environment._engine = environment._runtime.build_engine(environment._handlers)

    def send(self, lane: str, id: str, *does: str, group: str = "g", priority: int | None = None) -> str:
        """Send a message that is handled as `does` says; return its SQS message id."""
        data = {"does": does or ("ok",)}
        message_id = self.world.send(lane, data=data, group=group, id=id, priority=priority)
        sent = Sent(id=id, lane=lane, group=group, message_id=message_id)
        self.sent.append(sent)
        self._by_group[lane, group].append(sent)
        return message_id

    def step(self, lane: str, most: int | None = None, *, environment: int = 0) -> None:
        """Let the mapping of a lane receive, invoke and delete once; in the pull engine, ring once for any lane."""
        if self.world.pulls:
            self.ring(environment=environment)
            return
        messages = self.world.receive(lane, most)
        if messages:
            self.invoke(lane, messages, environment=environment)

    def ring(self, *, environment: int = 0) -> None:
        """Start a slot of the pull engine."""
        self._alive(lambda: self.world.ring(consumer=self.environments[environment]), environment)

    def invoke(
        self,
        lane: str,
        messages: Sequence[ReceivedMessage],
        *,
        environment: int = 0,
        deletes: bool = True,
    ) -> None:
        """Invoke the function; an environment that dies is replaced, one that raises keeps its batch."""
        world = self.world

        def work() -> None:
            answered = world.invoke(lane, messages, consumer=self.environments[environment])
            if deletes:
                world.delete(lane, messages, kept=answered)

        self._alive(work, environment)

    def _alive(self, work: Callable[[], object], environment: int) -> None:
        """Let an environment work; replace it if it dies."""
        self.invocations += 1
        try:
            work()
        except ProcessKilled:
            self.world.calls.killed = False
            self.crashes += 1
            self.environments[environment] = self._new_environment()
        except Exception as error:  # noqa: BLE001 - Lambda would report it and keep the batch
            if not self.may_raise:
                self.violations.append(f"the function raised {error!r}")
        finally:
            self.invocations -= 1

    def break_once(
        self, when: Callable[[str], bool], error: BaseException, *, after_effect: bool = False
    ) -> None:
        """Break the first call of which `when` holds, given its operation."""
        broken: list[str] = []

        def error_for(operation: str, _position: int) -> BaseException | None:
            if broken or not when(operation):
                return None
            broken.append(operation)
            return error

        if after_effect:
            self.world.calls.lose_if = error_for
        else:
            self.world.calls.break_if = error_for

    def drain(self, *, most_steps: int = 20_000) -> None:
        """Let mappings and time go on until every queue is empty, or a promise is broken."""
        world = self.world
        if world.pulls:
            self._drain_by_rings(most_steps)
            return
        for _ in range(most_steps):
            if self.violations:
                return
            ready = [name for name, queue in world.queues.live.items() if queue.is_receivable()]
            if ready:
                self.step(
                    self.random.choice(ready), environment=self.random.randrange(len(self.environments))
                )
                world.clock.advance(0.02)
                continue
            moments = [queue.next_event_at() for queue in world.queues.live.values()]
            if not (left := [moment for moment in moments if moment is not None]):
                return
            world.clock.now = max(world.clock.now, min(left))
        raise AssertionError(f"not drained: {self.unresolved()}")

    def _drain_by_rings(self, most_steps: int) -> None:
        """Deliver the rings and heartbeats of the bell until every queue is empty."""
        world = self.world
        for _ in range(most_steps):
            if self.violations or not any(any(queue.counts()) for queue in world.queues.live.values()):
                return
            environment = self.random.randrange(len(self.environments))
            before = world.requests
            self._alive(lambda at=environment: world.deliver(consumer=self.environments[at]), environment)
            world.clock.advance(0.02)
            if world.requests == before:
                world.clock.now = max(world.clock.now, world.bell.next_event_at() or 0.0)
        raise AssertionError(f"not drained: {self.unresolved()}")

    def dead(self) -> dict[str, str]:
        """Return the reasons of the dead letters by id, as they are in the dead-letter queues."""
        notes = self.world.queues.notes
        return {sent.id: notes[sent.message_id].reason for sent in self.sent if sent.message_id in notes}

    def unresolved(self) -> list[str]:
        """Return the ids that are neither done nor dead-lettered."""
        resolved = {*self.done, *self.dead()}
        return [sent.id for sent in self.sent if sent.id not in resolved]

    def starts_of(self, id: str) -> list[Start]:
        """Return all starts of one message."""
        return [start for start in self.starts if start.id == id]

    def failures_of(self, id: str) -> int:
        """Return how many attempts of a message ended in failure or killed their process."""
        return sum(1 for start in self.starts_of(id) if start.does in FAILURES or start.does == "crash")

    def check_kept(self) -> None:
        """Check that no message was lost, none counted twice, and the order within groups held."""
        assert self.violations == []
        assert self.unresolved() == []
        for lane, queue in self.world.queues.live.items():
            counts = queue.counts()
            assert (lane, counts.visible, counts.not_visible) == (lane, 0, 0)
        letters = sum(queue.counts().visible for queue in self.world.queues.dead.values())
        assert letters == len(self.dead())

    def _new_environment(self) -> Consumer:
        consumer = self.world.environment()
        if self.max_size is None:
            consumer.handler("work")(self._work)
        else:
            consumer.batch_handler("work", max_size=self.max_size)(self._work_together)
        return consumer

    def _work_together(self, messages: Sequence[Message], context: HandlerContext) -> dict[str, Exception]:
        self.calls.append([message.id for message in messages])
        failed: dict[str, Exception] = {}
        before = list(self.done)
        try:
            for message, message_id in zip(messages, context.message_ids, strict=True):
                try:
                    self._work(message, dataclasses.replace(context, message_id=message_id))
                except Exception as error:  # noqa: BLE001 - each message has its own
                    failed[message.id] = error
        except BaseException:
            # None of the call is done; those that another slot has handled meanwhile are.
            of_call = {message.id for message in messages}
            self.done = before + [name for name in self.done[len(before) :] if name not in of_call]
            raise
        return failed

    def _work(self, message: Message, context: HandlerContext) -> None:
        self.handlers += 1
        if self.handlers > max(1, self.invocations):
            self.violations.append(f"{self.handlers} handlers at work in {self.invocations} invocations")
        try:
            self._handle(message, context)
        finally:
            self.handlers -= 1

    def _handle(self, message: Message, context: HandlerContext) -> None:
        does = message.data["does"]
        what = does[min(self._started[message.id], len(does) - 1)]
        self._started[message.id] += 1
        self._note_start(message, context, what)
        self.world.clock.advance(self.takes)
        self.in_handler(message)
        match what:
            case "fail":
                raise ValueError(f"{message.id} fails")
            case "retry":
                raise Retry(after=timedelta(seconds=3))
            case "dead":
                raise DeadLetter("not wanted")
            case "exit":
                raise SystemExit(1)
            case "crash":
                self.world.calls.crash()
            case "check":
                try:
                    context.checkpoint()
                except BaseException:
                    # The handler did not finish, so its next start repeats this action.
                    self._started[message.id] -= 1
                    raise
        self.done.append(message.id)

    def _note_start(self, message: Message, context: HandlerContext, what: str) -> None:
        group = message.group or ""
        self.starts.append(
            Start(
                id=message.id,
                message_id=context.message_id,
                lane=context.lane,
                group=group,
                attempt=context.attempt,
                receive_count=context.receive_count,
                at=self.world.clock.now,
                does=what,
            )
        )
        resolved = {*self.done, *self.dead()}
        for earlier in self._by_group[context.lane, group]:
            if earlier.id == message.id:
                return
            if earlier.id not in resolved:
                self.violations.append(f"{message.id} started before {earlier.id} of its group was done")
