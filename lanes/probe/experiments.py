"""The experiments: which messages they send to the queues of the probe's stack, and which events they wait for."""

from __future__ import annotations

import itertools
import json
import time
from typing import TYPE_CHECKING, Any, Protocol

from lanes.probe.plan import KILLS_APART, POLLERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lanes.probe.plan import Plan

Event = dict[str, Any]
SINGLE = ("first", "second", "third")
"""Queues with a mapping to the function with one slot, in the order of their mappings in the stack."""
GRACE_SECONDS = 60.0
"""A step that takes this much longer than planned is given up."""
LOOK_EVERY = 0.2
ENOUGH_DROPPED = 4
APART = 0.3
"""Seconds between messages of known order: pollers notice one sooner than another."""
DONE = frozenset({"end", "late"})


class IncompleteError(Exception):
    """A step of an experiment did not get all of its events; the message names it."""


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
        self.round = 0
        self._stand = stand
        self._keep = keep
        self._clock = clock
        self._sleep = sleep

    def url(self, queue: str) -> str:
        """Return the URL of a queue."""
        return self._stand.url(queue)

    def run(self, experiment: str, *part: int) -> str:
        """Return the name of a run: each round has its own."""
        return "/".join(map(str, (experiment, self.round, *part)))

    def pause(self, seconds: float) -> None:
        """Wait."""
        self._sleep(seconds)

    def send(self, queue: str, run: str, tasks: Sequence[Mapping[str, Any]]) -> None:
        """Send tasks; each is in a group of its own unless it names one."""
        messages = [
            (
                str(task.get("group", f"{run}/{number}")),
                json.dumps({"run": run, "queue": queue, "number": number, **task}),
            )
            for number, task in enumerate(tasks)
        ]
        self._stand.send(queue, messages)

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

    def finish(self, run: str, count: int, *, seconds: float, kinds: frozenset[str] = DONE) -> list[Event]:
        """
        Wait for a number of events that end a task, keep all events of the run, and return them.

        Raises:
            IncompleteError: as of `wait`.
        """
        events = self.wait(
            run, lambda found: sum(event["event"] in kinds for event in found) >= count, seconds=seconds
        )
        self._keep_all(run, events)
        return events

    def _keep_all(self, run: str, events: Sequence[Event]) -> None:
        self._keep([{"run": run, **event} for event in events])


def calls(bench: Bench) -> None:
    """Time calls inside the function."""
    _instrument(bench, "calls", [{"count": bench.plan.calls}], kinds=frozenset({"calls"}))


def polls(bench: Bench) -> None:
    """Count short polls that miss."""
    task = {"count": bench.plan.polls, "waiting": bench.plan.polled}
    _instrument(bench, "polls", [task], kinds=frozenset({"polled"}))


def order(bench: Bench) -> None:
    """Find which group comes next after one was given back."""
    tasks = [{"count": 1, "groups": bench.plan.order_groups}] * bench.plan.order_rounds
    _instrument(bench, "order", tasks, kinds=frozenset({"order"}), events_each=2)


def counts(bench: Bench) -> None:
    """Time the counts of a queue."""
    plan = bench.plan
    tasks = [{"longest": plan.count_longest, "settle": plan.count_settle}] * plan.count_rounds
    _instrument(bench, "counts", tasks, kinds=frozenset({"counted"}), events_each=2)


def _instrument(
    bench: Bench,
    name: str,
    tasks: Sequence[Mapping[str, Any]],
    *,
    kinds: frozenset[str],
    events_each: int = 1,
) -> None:
    url, run = bench.url(name), bench.run(name)
    # One group, so that one task of an experiment runs at a time, and one that is stuck blocks no other experiment.
    bench.send("control", run, [{"task": name, "url": url, "group": name, **task} for task in tasks])
    bench.finish(run, len(tasks) * events_each, seconds=bench.plan.seconds[name] * 4, kinds=kinds)


def kill(bench: Bench) -> None:
    """Let invocations run into the timeout of their function; they start apart, since their writes delay each other."""
    run = bench.run("kill")
    for number in range(bench.plan.kills):
        bench.send("kill", run, [{"task": "kill", "group": f"{run}/{number}"}])
        bench.pause(KILLS_APART)
    bench.finish(run, bench.plan.kills, seconds=bench.plan.seconds["kill"])


def bell(bench: Bench) -> None:
    """Ring all groups at once, and again while their invocations run."""
    plan = bench.plan
    for number in range(plan.bell_rounds):
        run = bench.run("bell", number)
        rings = [
            {"task": "hold", "seconds": plan.bell_hold, "group": f"slot-{slot}", "role": role}
            for role in ("first", "again")
            for slot in range(plan.bell_groups)
        ]
        bench.send("bell", run, rings)
        bench.finish(run, len(rings), seconds=2 * plan.bell_hold)


def throttle(bench: Bench) -> None:
    """
    Take the one slot, let another batch of its mapping be throttled, and see when it comes back.

    One batch only: several would wait for each other too.
    """
    plan = bench.plan
    dropped = 0
    for number, seconds in enumerate(plan.holds):
        run = bench.run("throttle", number)
        _block(bench, run, seconds)
        bench.send(SINGLE[0], run, [{"task": "hold", "seconds": 0, "role": "waiting"}])
        events = bench.finish(run, 2, seconds=seconds + 2 * plan.single_visibility)
        dropped += any(event["role"] == "waiting" and event["receives"] > 1 for event in events)
        # Each of them lasts as long as the visibility timeout, and no other one shows more.
        if dropped == number + 1 == ENOUGH_DROPPED:
            return


def winner(bench: Bench) -> None:
    """Take the one slot, let a batch of each of three mappings wait for it, and see which gets it."""
    orders = itertools.cycle(itertools.permutations(SINGLE))
    for number, queues in zip(range(bench.plan.races), orders, strict=False):
        run = bench.run("winner", number)
        _block(bench, run, bench.plan.race_hold)
        for queue in queues:
            bench.pause(APART)
            bench.send(
                queue, run, [{"task": "hold", "seconds": 0.1, "role": "waiting", "group": f"{run}/{queue}"}]
            )
        seconds = bench.plan.race_hold + 2 * bench.plan.single_visibility
        bench.finish(run, 1 + len(queues), seconds=seconds)


def _block(bench: Bench, run: str, seconds: float) -> None:
    """Take the slot of the function that has one, and return once it is taken."""
    blocker = {
        "task": "hold",
        "seconds": seconds,
        "role": "blocker",
        "announce": True,
        "group": f"{run}/blocker",
    }
    bench.send(SINGLE[0], run, [blocker])
    bench.wait(run, bool, seconds=0)


def pollers(bench: Bench) -> None:
    """Give mappings with different maximum concurrency a backlog, and count their invocations."""
    plan = bench.plan
    task = {"task": "hold", "seconds": plan.load_hold, "within": plan.load_seconds}
    for most, messages in plan.loads.items():
        bench.send(f"pollers-{most}", bench.run("pollers", most), [task] * messages)
    for most, messages in plan.loads.items():
        bench.finish(bench.run("pollers", most), messages, seconds=plan.load_seconds)


EXPERIMENTS: Mapping[str, Callable[[Bench], None]] = {
    one.__name__: one for one in (calls, polls, order, counts, kill, bell, throttle, winner, pollers)
}


def chosen(names: Sequence[str]) -> Iterator[tuple[str, Callable[[Bench], None]]]:
    """Yield the named experiments in their order, or all."""
    return ((name, run) for name, run in EXPERIMENTS.items() if not names or name in names)


__all__ = ["EXPERIMENTS", "POLLERS", "Bench", "Event", "Stand", "chosen"]
