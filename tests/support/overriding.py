"""Scenarios with an operator who cancels, moves and redrives messages, and the outcome of each message."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from lanes.events import Event
from lanes.message import Message
from lanes.message_filter import MessageFilter
from lanes.operate.dead_letters import DeadLetterFilter
from lanes.operate.redrive import DeadLetterRun, Task
from lanes.overrides import KNOWN_AFTER, Action, Override
from tests.support.dead_letters import MemoryDeadLetters
from tests.support.operating import Trail
from tests.support.scenario import Scenario, Sent


class Overridden(Scenario):
    """A scenario in which an operator writes overrides."""

    def __init__(self, raw=None, **how):
        super().__init__(raw, **how)
        self.made = 0  # overrides; the order of groups is looked at by each test, since messages change lanes

    def send(self, lane, id, *does, group="g", run=""):
        """Send a message that was written at this moment of the scenario."""
        now = datetime.fromtimestamp(self.world.clock.now, UTC)
        message = Message(kind="work", data={"does": does or ("ok",)}, group=group, id=id, time=now)
        message_id = self.world.send_body(lane, message.to_body(), group=group, deduplication_id=id, run=run)
        self.sent.append(Sent(id=id, lane=lane, group=group, message_id=message_id))
        return message_id

    def put(self, action, *, priority=0, after=KNOWN_AFTER, **wanted):
        """Write an override now, and let time pass until it is known; return it."""
        self.made += 1
        now = self.world.clock.now
        override = Override(
            id=f"o{self.made}",
            action=Action(action),
            wanted=MessageFilter(**wanted),
            created_at=now,
            expires_at=now + 14 * 86_400,
            who="arn:ops",
            why="as asked",
            priority=priority,
        )
        self.world.overrides.add(override)
        self.world.clock.advance(after)
        return override

    def redrive(self, lane="MAIN", *, copies=True, before_call=None, limit=None, **wanted):
        """Work through a lane's dead letters as an operator does; return how far it came."""
        letters = MemoryDeadLetters(self.world.clock)
        letters.lane, letters.dead = self.world.queues.live[lane], self.world.queues.dead[lane]
        letters.before_call = before_call or letters.before_call
        run = DeadLetterRun(
            Task(lane=lane, wanted=DeadLetterFilter(**wanted), copies=copies, limit=limit),
            queues=letters,
            audit=Trail(),
            clock=self.world.clock,
            pause=self.world.clock.advance,
        )
        return run.run()

    def cancelled(self):
        """Return the ids of the cancelled messages."""
        return [one.id for one in self.world.overrides.gone.values()]

    def waiting(self, lane):
        """Return the ids of the messages in a lane, in the order of arrival."""
        return ids_in(self.world.queues.live[lane])

    def letters(self, lane):
        """Return the ids in a lane's dead-letter queue, in the order of their arrival."""
        return ids_in(self.world.queues.dead[lane])

    def reasons(self):
        """Return the reasons of all dead letters so far, in their order."""
        return [fields["reason"] for fields in self.world.recorder.named(Event.MESSAGE_DEAD_LETTERED)]

    def lane_of(self, id):
        """Return the lane in which a message was handled last."""
        return self.starts_of(id)[-1].lane

    def check_each_ended_once(self, *, twice_allowed=False):
        """Each message is done, dead-lettered or cancelled, and nothing is left in a lane."""
        letters = [one for lane in self.world.queues.dead for one in self.letters(lane)]
        ends = [*self.done, *letters, *self.cancelled()]
        if twice_allowed:
            ends = list(dict.fromkeys(ends))
        assert sorted(ends) == sorted(one.id for one in self.sent)
        assert self.violations == []
        for lane in self.world.queues.live:
            assert self.waiting(lane) == []


def ids_in(queue):
    """Return the ids of the messages in a queue, in the order of arrival."""
    return [json.loads(body)["id"] for body in queue.bodies()]
