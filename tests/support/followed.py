"""A followed run over lanes in memory: a sender, consumers that die at any call, and an oracle of their ends."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

from lanes import DeadLetter, Message
from lanes.errors import AwsError, LanesError
from lanes.operate.runs import Progress, read_progress
from lanes.runs import Head
from lanes.testing.calls import ProcessKilled
from tests.support.memory import World, aws_error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lanes.consumer import Consumer

NAME, KIND, OVER = "statements", "statement", "statements.sent"
FAULTS = ("refused", "unanswered", "killed before", "killed after")
SETTINGS = {"backoff_base": 1, "max_attempts": 3}


class Followed:
    """
    One run.

    Attributes:
        dies: ids whose handler gives them up, as long as they are listed here.
        handled: ids whose handler returned.
        calls: the id of each call of the handler.
        announced: the data of each message of the run's end that a lane accepted.
        plan: the faults of the next calls, of whatever process makes them; None for a call that succeeds.
    """

    def __init__(self, engine: str, *, chunks: int = 1, idempotency: bool = False, **root: object) -> None:
        consumer = {**SETTINGS, "idempotency": idempotency}
        self.world = World({"consumer": consumer, **root}, engine=engine)
        self.world.calls.break_if = lambda _operation, _position: self._fault("before")
        self.world.calls.lose_if = lambda _operation, _position: self._after
        self.chunks = chunks
        self.dies: set[str] = set()
        self.handled: set[str] = set()
        self.calls: list[str] = []
        self.announced: list[dict[str, object]] = []
        self.plan: list[str | None] = []
        self._after: BaseException | None = None
        self._lanes = {lane.name: 0 for lane in self.world.config.lanes}
        self.restart()

    def restart(self) -> Consumer:
        """Replace the consumer's process."""
        self.world.calls.killed = False
        self.consumer = self.world.environment()
        self.consumer.handler(KIND)(self._handle)
        self.consumer.handler(OVER)(lambda message: self.announced.append(message.data))
        return self.consumer

    def _handle(self, message: Message) -> None:
        self.calls.append(message.id)
        if message.id in self.dies:
            raise DeadLetter("it dies")
        self.handled.add(message.id)

    def _fault(self, _when: str) -> BaseException | None:
        planned, self._after = self.plan.pop(0) if self.plan else None, None
        if planned in ("refused", "unanswered"):
            error: BaseException = aws_error()
        elif planned:
            error = ProcessKilled()
        else:
            return None
        if planned in ("unanswered", "killed after"):
            self._after = error
            return None
        return error

    def message(self, id: str) -> Message:
        """Return a message of the run."""
        return Message(kind=KIND, data=id, id=id, source="shop")

    def send(self, ids: Iterable[str], *, crash: bool = False) -> bool:
        """Send these members in one session, and seal; a session that crashes does not seal. Return whether it has."""
        expected = 40 * self.chunks
        try:
            with self.world.producer(source="shop").run(NAME, expected=expected, on_complete=OVER) as run:
                run.send_many(self.message(one) for one in ids)
                if crash:
                    self.world.calls.crash()
        except (LanesError, ProcessKilled):
            self.world.calls.killed = False
            return False
        return True

    def stray(self, id: str, *, run: str = "") -> None:
        """Send a message with the run's mark, past its sender."""
        message = self.message(id)
        self.world.send_body("MAIN", message.to_body(), group=id, run=run or self.mark)

    @property
    def mark(self) -> str:
        """The mark of the run, or another one's before it is open."""
        head = self.world.runs._heads.get(NAME) or Head(name=NAME, chunks=self.chunks, key="0" * 16)
        return head.mark.text

    def step(self) -> None:
        """Let the consumer handle a batch of each lane, in whatever process is alive."""
        for lane in self._lanes:
            try:
                self.world.step(lane, consumer=self.consumer)
            except (ProcessKilled, AwsError):
                self.restart()
            if self.world.calls.killed:
                self.restart()
            if self.world.pulls:
                return

    def drain(self) -> None:
        """Let the consumer work, and time pass, until every lane is empty."""
        self.plan = []
        for _ in range(500):
            self.step()
            if not any(any(queue.counts()) for queue in self.world.queues.live.values()):
                return
            self.world.clock.advance(5)
        raise AssertionError("the lanes never became empty")

    @property
    def dead(self) -> set[str]:
        """The ids in the dead-letter queues."""
        return {
            json.loads(found.body)["id"]
            for queue in self.world.queues.dead.values()
            for found in queue._store.messages()
        }

    def redrive(self, *, copies: int = 1) -> None:
        """Send copies of a dead letter back to its lane, as an operator does, and delete it."""
        for lane, queue in self.world.queues.dead.items():
            for found in queue.receive(1):
                for copy in range(copies):
                    self.world.send_body(
                        lane,
                        found.body,
                        group=found.group,
                        deduplication_id=f"redrive-{found.message_id}-{copy}",
                        run=self.mark,
                    )
                with suppress(AwsError):
                    queue.delete(found.receipt_handle)
                return

    def progress(self) -> Progress:
        """Return an exact reading."""
        kept, self.plan = self.plan, []
        head = self.world.runs.head(NAME) or Head(name=NAME, chunks=self.chunks)
        found = read_progress(self.world.runs, head, exact=True)
        self.plan = kept
        return found
