"""
The evidence of a run: messages sent, delivered, done and left over, each from its own source.

Owns the words effect (one start of a handler's work and how it ended), delivery (one receive of one message)
and traffic (the lane to which a message belongs by its priority, even if one lane has all messages).
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from local.demo.plan import Fault


class Ending(StrEnum):
    """How an effect ended, in the handler's words; an effect that ended in a crash has none."""

    FINISHED = "finished"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """
    One message that a queue accepted.

    Attributes:
        id: of the event.
        traffic: name of the lane it belongs to by its priority.
        lane: name of the lane it was sent to; the same with priority on.
        position: its place in the order of its sender; None where several tasks sent at once.
        fault: how it is made to fail.
        is_live: sent while the backfill drained.
    """

    id: str
    traffic: str
    lane: str
    position: int | None = None
    fault: Fault | None = None
    is_live: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One receive of one message, as the queue handed it out; times are epoch seconds."""

    id: str
    lane: str
    group: str
    sequence: int
    sent_at: float
    receive_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One start of a handler's work; `ended_at` and `ending` are None if it never ended."""

    id: str
    attempt: int
    started_at: float
    ended_at: float | None = None
    ending: Ending | None = None

    @property
    def last_seen_at(self) -> float:
        """When it ended, as far as is known."""
        return self.started_at if self.ended_at is None else self.ended_at


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetter:
    """A message found in a dead-letter queue, and the reason that came with it."""

    id: str
    lane: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveSend:
    """One episode: when its messages were sent and how many of the backfill waited right after that."""

    at: float
    messages: int
    waiting: int


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """
    All that is known of one run.

    Attributes:
        lanes: names, highest first.
        began_at: when the mappings were enabled, with the whole backfill waiting; epoch seconds.
        sent: every accepted message by its id.
        deliveries: in the order received.
        effects: in the order started.
        dead_letters: contents of the dead-letter queues at the end.
        live_sends: the episodes as they were sent.
        left_in_queues: messages still in a lane at the end.
        yields: how often each lane's batches yielded, in the consumer's words.
        function_calls: AWS calls of the function by operation, as the server counted them.
    """

    lanes: tuple[str, ...]
    began_at: float
    sent: Mapping[str, Sent]
    deliveries: Sequence[Delivery] = ()
    effects: Sequence[Effect] = ()
    dead_letters: Sequence[DeadLetter] = ()
    live_sends: Sequence[LiveSend] = ()
    left_in_queues: int = 0
    yields: Mapping[str, int] = field(default_factory=dict)
    function_calls: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def first_delivery(self) -> Mapping[str, Delivery]:
        """The first delivery of each message that had one."""
        first: dict[str, Delivery] = {}
        for delivery in self.deliveries:
            first.setdefault(delivery.id, delivery)
        return first

    @cached_property
    def effects_of(self) -> Mapping[str, Sequence[Effect]]:
        """Effects of each message that had one, in the order started."""
        found: dict[str, list[Effect]] = defaultdict(list)
        for effect in sorted(self.effects, key=lambda effect: effect.started_at):
            found[effect.id].append(effect)
        return found

    @cached_property
    def finished(self) -> frozenset[str]:
        """Ids of messages with at least one finished effect."""
        return frozenset(effect.id for effect in self.effects if effect.ending is Ending.FINISHED)

    @cached_property
    def dead(self) -> frozenset[str]:
        """Ids of dead letters."""
        return frozenset(letter.id for letter in self.dead_letters)

    @cached_property
    def groups(self) -> Mapping[tuple[str, str], Sequence[str]]:
        """Ids of each lane's groups, in the order of the queue's sequence numbers."""
        members: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
        for one, delivery in self.first_delivery.items():
            members[delivery.lane, delivery.group].append((delivery.sequence, one))
        return {key: [one for _, one in sorted(found)] for key, found in members.items()}

    @property
    def ended_at(self) -> float:
        """When the last effect ended."""
        return max((effect.last_seen_at for effect in self.effects), default=self.began_at)

    @property
    def drain_seconds(self) -> float:
        """From the enabled mappings to the last effect's end."""
        return self.ended_at - self.began_at

    def failed_attempts(self, message_id: str) -> int:
        """How often the handler refused a message or never came back from it."""
        effects = self.effects_of.get(message_id, ())
        return sum(1 for effect in effects if effect.ending is not Ending.FINISHED)
