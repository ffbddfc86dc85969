"""The experiments: which messages they send to the queues of the probe's stack, and which events they wait for."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

Event = dict[str, Any]
DEPLOY_SECONDS = 240
"""Deploying and destroying the stack takes about this time together."""
GRACE_SECONDS = 60.0
"""A step that takes this much longer than planned is given up."""
LOOK_EVERY = 0.2
ENOUGH_DROPPED = 4


class IncompleteError(Exception):
    """A step of an experiment did not get all of its events; the message names it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How often and how long each experiment runs; times are in seconds."""

    single_timeout: int = 30  # of the function with one slot
    single_visibility: int = 60  # of its queue; a dropped batch returns when it ends
    many_timeout: int = 600  # of the other function, and visibility timeout of its queues
    holds: tuple[float, ...] = (
        3.0,
        5.0,
        7.0,
        10.0,
        14.0,
        20.0,
    ) * 4  # of the slot, while a batch is throttled
    order_rounds: int = 20
    order_groups: int = 6
    polls: int = 1_000
    polled: int = 3  # messages that wait meanwhile
    bell_rounds: int = 30  # all groups are rung twice in each
    bell_groups: int = 4
    bell_hold: float = 0.5
    calls: int = 200  # of each kind

    @property
    def seconds(self) -> dict[str, float]:
        """Estimated duration of each experiment if AWS answers in 10 ms and is 5 s late at most."""
        call = 0.015
        return {
            "throttle": sum(self.holds) + len(self.holds) * 3,
            "order": self.order_rounds * (self.order_groups * 2 * call + 3),
            "polls": self.polls * 2.5 * call,
            "bell": self.bell_rounds * (2 * self.bell_hold + 1),
            "calls": self.calls * 5 * call,
        }

    def minutes(self, names: Collection[str] = ()) -> float:
        """Return the estimated minutes of some experiments, or all, with deploying and destroying."""
        measured = sum(seconds for name, seconds in self.seconds.items() if not names or name in names)
        return (measured + DEPLOY_SECONDS) / 60


FULL = Plan()
QUICK = Plan(
    single_timeout=8,
    single_visibility=10,
    many_timeout=120,
    holds=(4.0, 4.5, 5.0, 5.5, 6.0, 6.5),
    order_rounds=2,
    order_groups=4,
    polls=300,
    bell_rounds=3,
    bell_hold=0.3,
    calls=15,
)
"""Few repetitions: shows that everything runs, with wide ranges."""


class Stand(Protocol):
    """The deployed stack of the probe."""

    def url(self, queue: str) -> str:
        """Return the URL of a queue by its name in the stack."""

    def send(self, queue: str, messages: Sequence[tuple[str, str]]) -> None:
        """Send groups and bodies, in order; raises `AwsError`."""

    def events(self, run: str) -> list[Event]:
        """Return the events of a run, oldest first; raises `AwsError`."""


class Bench:
    """
    Sends tasks to the functions of the stack and collects their events.

    Args:
        stand: the stack.
        plan: repetitions and times.
        keep: called with the events of each step.
        clock: monotonic seconds.
        sleep: waits for seconds.
    """

    def __init__(
        self,
        stand: Stand,
        plan: Plan,
        *,
        keep: Callable[[Sequence[Event]], None],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.plan = plan
        self._stand = stand
        self._keep = keep
        self._clock = clock
        self._sleep = sleep

    def send(self, queue: str, run: str, tasks: Sequence[Mapping[str, Any]]) -> None:
        """Send tasks; each is in a group of its own unless it names one."""
        messages = [
            (
                str(task.get("group", f"{run}/{number}")),
                json.dumps({"run": run, "number": number, **task}),
            )
            for number, task in enumerate(tasks)
        ]
        self._stand.send(queue, messages)

    def instrument(self, name: str, tasks: Sequence[Mapping[str, Any]], *, events: int) -> None:
        """Have the function do tasks by calls, one after the other, and wait for their events."""
        url = self._stand.url(name)
        # One group, so that one task of an experiment runs at a time, and one that is stuck blocks no other experiment.
        tasks = [{"task": name, "url": url, "group": name, **task} for task in tasks]
        self.send("control", name, tasks)
        self.finish(name, events, kind=name, seconds=self.plan.seconds[name] * 4)

    def finish(self, run: str, count: int, *, seconds: float, kind: str = "end") -> list[Event]:
        """
        Wait for a number of events of a kind, keep all events of the run, and return them.

        Raises:
            IncompleteError: as of `wait`.
        """
        events = self.wait(
            run, lambda found: sum(event["event"] == kind for event in found) >= count, seconds=seconds
        )
        self._keep_all(run, events)
        return events

    def wait(self, run: str, is_done: Callable[[list[Event]], bool], *, seconds: float) -> list[Event]:
        """
        Return the events of a run once it is done.

        Raises:
            IncompleteError: the function failed, or it took much longer; the events so far are kept.
        """
        until = self._clock() + seconds + GRACE_SECONDS
        while True:
            events = self._stand.events(run)
            errors = [event["text"] for event in events if event["event"] == "error"]
            if is_done(events) and not errors:
                return events
            if errors or self._clock() >= until:
                self._keep_all(run, events)
                raise IncompleteError(f"{run}: {errors[0] if errors else 'some events are missing'}")
            self._sleep(LOOK_EVERY)

    def _keep_all(self, run: str, events: Sequence[Event]) -> None:
        self._keep([{"run": run, **event} for event in events])


def throttle(bench: Bench) -> None:
    """
    Take the one slot, let another batch of its mapping be throttled, and see when it comes back.

    One batch only: several would wait for each other too.
    """
    plan = bench.plan
    dropped = 0
    for number, seconds in enumerate(plan.holds):
        run = f"throttle/{number}"
        blocker = {"task": "hold", "seconds": seconds, "role": "blocker", "announce": True}
        bench.send("single", run, [{**blocker, "group": f"{run}/blocker"}])
        bench.wait(run, bool, seconds=0)
        bench.send("single", run, [{"task": "hold", "seconds": 0, "role": "waiting"}])
        events = bench.finish(run, 2, seconds=seconds + 2 * plan.single_visibility)
        dropped += any(event["role"] == "waiting" and event["receives"] > 1 for event in events)
        # Each of them lasts as long as the visibility timeout, and no other one shows more.
        if dropped == number + 1 == ENOUGH_DROPPED:
            return


def order(bench: Bench) -> None:
    """Find which group comes next after one was returned, and after one was deleted."""
    rounds = bench.plan.order_rounds
    bench.instrument("order", [{"groups": bench.plan.order_groups}] * rounds, events=2 * rounds)


def polls(bench: Bench) -> None:
    """Count short polls that miss."""
    bench.instrument("polls", [{"count": bench.plan.polls, "waiting": bench.plan.polled}], events=1)


def bell(bench: Bench) -> None:
    """Ring all groups at once, and again while their invocations run."""
    plan = bench.plan
    for number in range(plan.bell_rounds):
        run = f"bell/{number}"
        rings = [
            {"task": "hold", "seconds": plan.bell_hold, "group": f"slot-{slot}", "role": role}
            for role in ("first", "again")
            for slot in range(plan.bell_groups)
        ]
        bench.send("bell", run, rings)
        bench.finish(run, len(rings), seconds=2 * plan.bell_hold)


def calls(bench: Bench) -> None:
    """Time calls inside the function."""
    bench.instrument("calls", [{"count": bench.plan.calls}], events=1)


EXPERIMENTS: Mapping[str, Callable[[Bench], None]] = {
    one.__name__: one for one in (throttle, order, polls, bell, calls)
}
