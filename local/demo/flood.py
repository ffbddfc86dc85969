"""
The flood: one run, from a waiting backfill and switched-on mappings until everything is done.

The clock starts when the mappings are switched on, with the whole backfill in its queue, in every run.
"""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from lanes.config import LanesConfig
from lanes.events import Count, Event

from .evidence import AWAY, Effect, Evidence, Sent
from .plan import PRIORITIES, Episode
from .stage import Stage

_ENDS = {"finished": "done", "refused": "failed", "away": AWAY}
"""How a handler's work ended, in the sample's words and in those of the oracle."""
_YIELDS = frozenset(event for event in Event if event.counts is Count.YIELDED)
_LOOK_SECONDS = 0.5
_STALL_SLACK_SECONDS = 30.0
_LAST_LINES_SECONDS = 2.0


class Journal:
    """
    Records the lines that a function prints, from any thread.

    Args:
        backfill: ids of the backfill.
    """

    def __init__(self, backfill: Collection[str]) -> None:
        self._backfill = backfill
        self._changed = threading.Condition()
        self._running: dict[str, Effect] = {}
        self._effects: list[Effect] = []
        self._finished: set[str] = set()
        self._given_up = 0
        self._last_change = time.monotonic()
        self.progress = 0
        self.yields: Counter[str] = Counter()

    def take_line(self, line: str) -> None:
        """Record the event of a line, if it has one."""
        if not line.startswith("{"):
            return
        try:
            event = json.loads(line)
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
        effect = None if step == "started" else self._running.pop(one, None)
        if effect is None:
            # A start after a start means that the first one died.
            effect = Effect(id=one, attempt=int(event["attempt"]), started_at=at, ended_at=at)
            self._effects.append(effect)
        if step == "started":
            self._running[one] = effect
            return
        effect.ended_at, effect.how = at, _ENDS[step]
        if effect.how == "done" and one not in self._finished:
            self._finished.add(one)
            self.progress += one in self._backfill
        self.progress += effect.how == AWAY

    def wait_for_progress(self, least: int, *, timeout: float) -> bool:
        """Wait until so many of the backfill are done or calls found the resource away, or the seconds are over."""
        with self._changed:
            return self._changed.wait_for(lambda: self.progress >= least, timeout)

    def wait_for_all(self, messages: int, *, timeout: float) -> bool:
        """Wait until so many are done or dead-lettered, or the seconds are over."""
        with self._changed:
            return self._changed.wait_for(lambda: self.ended >= messages, timeout)

    @property
    def ended(self) -> int:
        """Messages that are done or dead-lettered."""
        return len(self._finished) + self._given_up

    @property
    def quiet_seconds(self) -> float:
        """Seconds since a handler last started or ended anything."""
        return time.monotonic() - self._last_change

    def effects(self) -> list[Effect]:
        """All effects so far, those that never ended among them."""
        with self._changed:
            return list(self._effects)


class Flood:
    """
    Drains one stage and sends the live messages meanwhile.

    Args:
        stage: with the backfill in its last lane and its mappings off.
        episodes: the live messages and their times.
        sent: the backfill, by id.
        traffic: the configuration with priority, which decides the lane of a message.
        journal: records the lines of the stage's function.
        show: gets a line about the run twice a second.
    """

    def __init__(
        self,
        stage: Stage,
        *,
        episodes: Sequence[Episode],
        sent: Mapping[str, Sent],
        traffic: LanesConfig,
        journal: Journal,
        show: Callable[[str], None],
    ) -> None:
        self._stage = stage
        self._episodes = episodes
        self._sent = dict(sent)
        self._traffic = traffic
        self._journal = journal
        self._show = show
        self._total = len(sent) + sum(len(episode.messages) for episode in episodes)
        self._backlogs: list[int] = []

    def run(self, *, back_at: float = 0.0) -> Evidence:
        """Run until everything is done, or nothing has happened for so long that nothing will."""
        began_at = time.time()
        self._stage.switch(enabled=True)
        if all(self._send_when_due(episode) for episode in self._episodes):
            while self._look() and not self._has_stalled():
                self._journal.wait_for_all(len(self._sent), timeout=_LOOK_SECONDS / 2)
            # The queues can be empty before the last lines of the function were read.
            self._journal.wait_for_all(len(self._sent), timeout=_LAST_LINES_SECONDS)
        left = sum(map(sum, self._stage.depths().values()))
        self._stage.switch(enabled=False)
        return Evidence(
            config=self._stage.deployment.config,
            began_at=began_at,
            back_at=back_at,
            sent=self._sent,
            deliveries=self._stage.deliveries(),
            effects=self._journal.effects(),
            dead=self._stage.take_dead_letters(),
            backlogs=self._backlogs,
            left=left,
            yields=self._journal.yields,
            calls=self._stage.function_calls(),
        )

    def _send_when_due(self, episode: Episode) -> bool:
        """Send an episode when it is due; return whether it ever was."""
        while not self._journal.wait_for_progress(episode.due_after, timeout=_LOOK_SECONDS):
            self._look()
            if self._has_stalled():
                return False
        self._stage.producer.send_many(list(episode.messages))
        for one in episode.messages:
            lane = self._traffic.lane_for(PRIORITIES[one.kind])
            self._sent[one.id] = Sent(traffic=lane.name, fault=one.data.get("fault"), is_live=True)
        waiting, _ = list(self._stage.depths().values())[-1]
        self._backlogs.append(waiting)
        return True

    def _look(self) -> int:
        """Show the progress, and return the number of messages in the lanes."""
        depths = self._stage.depths()
        self._show(f"{self._journal.ended:,} of {self._total:,} done; {state(depths, self._journal.yields)}")
        return sum(map(sum, depths.values()))

    def _has_stalled(self) -> bool:
        """Whether messages of a crashed invocation would have returned by now."""
        held_back = max(lane.visibility_timeout for lane in self._stage.deployment.config.lanes)
        return self._journal.quiet_seconds > held_back.total_seconds() + _STALL_SLACK_SECONDS


def state(depths: Mapping[str, tuple[int, int]], yields: Mapping[str, int]) -> str:
    """Return the lanes in words, without zeros."""
    lanes = []
    for name, (waiting, in_flight) in depths.items():
        counts = ((waiting, "waiting"), (in_flight, "in flight"), (yields.get(name, 0), "yields"))
        if words := ", ".join(f"{count:,} {noun}" for count, noun in counts if count):
            lanes.append(f"{name} {words}")
    return "; ".join(lanes) or "the lanes are empty"
