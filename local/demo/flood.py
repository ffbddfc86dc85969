"""
The flood: one run, from a waiting backfill and switched-on mappings until everything is done.

The clock starts when the mappings are switched on, with the whole backfill in its queue, in every run.
"""

import time
from collections.abc import Callable, Sequence

from lanes.config import LanesConfig
from local.demo.evidence import Evidence, LiveSend, Sent
from local.demo.journal import Journal
from local.demo.plan import DemoPlan, Episode, PlannedMessage
from local.demo.stage import Stage
from local.demo.view import FloodView, Pace, flood_view

_LOOK_SECONDS = 0.5
_STALL_SLACK_SECONDS = 30.0
_LAST_LINES_SECONDS = 2.0


class Flood:
    """
    Drains one stage and sends the live messages meanwhile.

    Args:
        stage: with the backfill in its last lane and its mappings off.
        plan: the messages and their times.
        backfill: the messages that wait.
        traffic: the configuration with priority, which decides the lane of a message.
        journal: records the events of the stage.
        show: gets a view of the run twice a second.
    """

    def __init__(
        self,
        stage: Stage,
        *,
        plan: DemoPlan,
        backfill: Sequence[PlannedMessage],
        traffic: LanesConfig,
        journal: Journal,
        show: Callable[[FloodView], None],
    ) -> None:
        self._stage = stage
        self._plan = plan
        self._traffic = traffic
        self._journal = journal
        self._show = show
        self._pace = Pace()
        self._sent = {one.id: self._as_sent(one, position=None) for one in backfill}
        self._live_sends: list[LiveSend] = []

    def run(self) -> Evidence:
        """Run until everything is done, or nothing has happened for so long that nothing will."""
        began_at = time.time()
        self._stage.resume()
        for episode in self._plan.episodes:
            while not self._journal.wait_for_backfill(episode.due_after, timeout=_LOOK_SECONDS):
                self._look()
                if self._has_stalled():
                    return self._evidence(began_at)
            self._send(episode)
        while self._look() and not self._has_stalled():
            self._journal.wait_for_all(len(self._sent), timeout=_LOOK_SECONDS / 2)
        # The queues can be empty before the last lines of the function were read.
        self._journal.wait_for_all(len(self._sent), timeout=_LAST_LINES_SECONDS)
        return self._evidence(began_at)

    def _send(self, episode: Episode) -> None:
        at = time.time()
        self._stage.producer.send_many([one.to_message() for one in episode.messages])
        for one in episode.messages:
            self._sent[one.id] = self._as_sent(one, position=len(self._sent))
        waiting = self._stage.depth(self._stage.lane_names[-1]).waiting
        self._live_sends.append(LiveSend(at=at, messages=len(episode.messages), waiting=waiting))

    def _as_sent(self, one: PlannedMessage, *, position: int | None) -> Sent:
        return Sent(
            id=one.id,
            traffic=self._traffic.lane_for(one.priority).name,
            lane=self._stage.deployment.config.lane_for(one.priority).name,
            position=position,
            fault=one.fault,
            is_live=one.is_live,
        )

    def _look(self) -> int:
        """Show the progress, and return the number of messages in the lanes."""
        depths, done = self._stage.depths(), self._journal.done()
        self._show(
            flood_view(
                depths,
                done=done,
                yields=self._journal.yields(),
                pace=self._pace.of(done, now=time.monotonic()),
                total=self._plan.customers + len(self._plan.live),
            )
        )
        return sum(depth.total for depth in depths.values())

    def _has_stalled(self) -> bool:
        """Whether messages of a crashed invocation would have returned by now."""
        held_back = max(lane.visibility_timeout for lane in self._stage.deployment.config.lanes)
        return self._journal.quiet_seconds > held_back.total_seconds() + _STALL_SLACK_SECONDS

    def _evidence(self, began_at: float) -> Evidence:
        left = sum(depth.total for depth in self._stage.depths().values())
        self._stage.pause()
        return Evidence(
            lanes=self._stage.lane_names,
            began_at=began_at,
            sent=self._sent,
            deliveries=self._stage.deliveries(),
            effects=self._journal.effects(),
            dead_letters=self._stage.take_dead_letters(),
            live_sends=tuple(self._live_sends),
            left_in_queues=left,
            yields=self._journal.yields(),
            function_calls=self._stage.function_calls(),
        )
