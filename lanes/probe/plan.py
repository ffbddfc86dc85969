"""The repetitions and times of the experiments, and an estimate of their duration and cost."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

POLLERS = (2, 4, 13)
"""Maximum concurrency of the mappings with counted pollers."""
KILLS_APART = 1.0
"""Seconds between the starts of invocations that run into their timeout: some four are at work in each stall."""
DEPLOY_SECONDS = 240
"""Deploying and destroying the stack takes about this time together."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """
    How often and how long each experiment runs. All times are in seconds.

    Attributes:
        single_timeout: timeout of the function with one slot.
        single_visibility: visibility timeout of its queues; a dropped batch returns when it ends.
        holds: how long the slot is taken while another batch is throttled, one round each.
        races: rounds in which three mappings compete for the slot.
        race_hold: how long the slot is taken before.
        load_seconds: time in which the queues of the pollers have a backlog.
        load_hold: duration of each invocation in that time.
        count_rounds: rounds of a send and a receive until the counts show them.
        count_longest: a count that shows no change in this time is given up.
        count_settle: time from a count that shows the receive to the reading of blocked messages.
        polls: short polls of a queue.
        polled: messages that wait in that queue.
        calls: calls of each kind that are timed.
        order_rounds: rounds of receives that find the order of groups.
        order_groups: groups in each of these rounds.
        kills: invocations that run into the timeout.
        brief_timeout: timeout of their function.
        bell_rounds: times that all groups of the bell are rung twice.
        bell_groups: groups of the bell.
        bell_hold: duration of an invocation of the bell.
        many_timeout: timeout of the other functions, and visibility timeout of their queues.
    """

    single_timeout: int = 30
    single_visibility: int = 60
    holds: tuple[float, ...] = (3.0, 5.0, 7.0, 10.0, 14.0, 20.0) * 4
    races: int = 24
    race_hold: float = 4.0
    load_seconds: float = 60.0
    load_hold: float = 5.0
    count_rounds: int = 20
    count_longest: float = 70.0
    count_settle: float = 2.0
    polls: int = 1_000
    polled: int = 3
    calls: int = 200
    order_rounds: int = 20
    order_groups: int = 6
    kills: int = 10
    brief_timeout: int = 4
    bell_rounds: int = 30
    bell_groups: int = 4
    bell_hold: float = 0.5
    many_timeout: int = 600

    @property
    def seconds(self) -> dict[str, float]:
        """Estimated duration of each experiment if AWS answers in 10 ms and is 5 s late at most."""
        call = 0.015
        return {
            "calls": self.calls * 5 * call,
            "polls": self.polls * 2.5 * call,
            "order": self.order_rounds * (self.order_groups * 2 * call + 3),
            "counts": self.count_rounds * (2 * 5 + 3 + self.count_settle),
            "kill": 5 * self.brief_timeout + self.kills * KILLS_APART,
            "bell": self.bell_rounds * (2 * self.bell_hold + 1),
            "throttle": sum(self.holds) + len(self.holds) * 3,
            "winner": self.races * (self.race_hold + 3),
            "pollers": self.load_seconds + 5,
        }

    @property
    def loads(self) -> dict[int, int]:
        """Messages that give a mapping of each maximum concurrency its backlog."""
        waves = self.load_seconds / self.load_hold + 1
        return {pollers: round(pollers * waves) for pollers in POLLERS}

    def minutes(self, names: Collection[str] = ()) -> float:
        """Return the estimated minutes of one round of some experiments, or all, with deploying and destroying."""
        measured = sum(seconds for name, seconds in self.seconds.items() if not names or name in names)
        return (measured + DEPLOY_SECONDS) / 60

    def dollars(self) -> float:
        """
        Return the cost of one round of each experiment in US dollars, estimated upwards.

        Prices of us-east-1 (`simulator/prices.toml`): a million FIFO requests 0.50, invocations 0.20,
        GB-seconds 13.33 and writes 0.625. Idle mappings are taken to poll twice a second with five pollers
        each, as AWS documents no number for FIFO queues.
        """
        messages = (
            len(self.holds) * 2
            + self.races * 4
            + sum(self.loads.values())
            + self.bell_rounds * self.bell_groups * 2
            + self.kills
        )
        calls = self.calls * 6 + self.polls * 3 + self.order_rounds * 40 + self.count_rounds * 300
        idle_polls = 9 * 5 * 2 * self.minutes() * 60
        busy = sum(self.seconds.values()) * 2 + sum(self.loads.values()) * self.load_hold
        per_million = (
            0.50 * (messages * 4 + calls + idle_polls)
            + 0.20 * messages * 2
            + 13.3334 * busy * 0.5
            + 0.625 * (messages * 4 + self.calls + self.kills * 20)
        )
        return per_million / 1_000_000


FULL = Plan()
QUICK = Plan(
    single_timeout=8,
    single_visibility=10,
    holds=(4.0, 4.5, 5.0, 5.5, 6.0, 6.5),
    races=6,
    race_hold=2.5,
    load_seconds=8.0,
    load_hold=4.0,
    count_rounds=2,
    count_longest=8.0,
    count_settle=0.0,
    # Of 60, two misses fit shares of 0 and of 1 in 10.
    polls=300,
    calls=15,
    order_rounds=2,
    order_groups=4,
    kills=5,
    brief_timeout=4,
    bell_rounds=3,
    bell_hold=0.3,
    many_timeout=120,
)
"""Few repetitions: shows that everything runs, with wide ranges."""
