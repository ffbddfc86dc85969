"""The promises that the runs of the demo have to keep, each with its limit, its figure and a sentence."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from lanes.config import LanesConfig

from .evidence import Figures
from .plan import DEFAULT_CUSTOMERS, tries_while_away


class RunName(StrEnum):
    """A run, in the order in which runs are made and shown."""

    WITHOUT = "without"
    MAPPINGS = "mappings"
    PULL = "pull"

    @property
    def stage(self) -> str:
        """The stage of the app that it runs on."""
        return {self.WITHOUT: "demo-off", self.MAPPINGS: "demo", self.PULL: "demo-pull"}[self]

    @property
    def words(self) -> str:
        """The run as people read it."""
        return "no priority" if self is RunName.WITHOUT else self.value

    def key(self, figure: str) -> str:
        """Return the name of one of its figures in the report; those of the run with mappings have their bare names."""
        return figure if self is RunName.MAPPINGS else f"{figure}_{self}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """A promise and how it came out; `value` is None if there is no figure, `not_judged` says why it is not judged."""

    run: RunName
    name: str
    value: float | None
    relation: str = "="
    limit: float = 0
    sentence: str
    not_judged: str = ""

    @property
    def key(self) -> str:
        """Key of its figure in the report."""
        return self.run.key(self.name)

    @property
    def is_kept(self) -> bool:
        """Whether it was kept, or not judged."""
        value, limit = self.value, self.limit
        if self.not_judged or value is None:
            return bool(self.not_judged)
        return {"=": value == limit, "<=": value <= limit, ">=": value >= limit}[self.relation]

    def broken_words(self) -> str:
        """Return the broken promise and its distance from the limit."""
        wanted = f"{self.relation} {_number(self.limit)}"
        if self.value is None:
            return f"{self.key}: there is no figure; {wanted} was promised"
        distance = _number(abs(self.value - self.limit))
        return (
            f"{self.key} is {_number(self.value)}, off by {distance}; promised is {wanted}. {self.sentence}"
        )


def _number(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


_SENTENCES = {
    "losses": "Every accepted message is done or in a dead-letter queue.",
    "left_in_queues": "Nothing is left in a lane.",
    "order_violations": "Messages of a group are handled in the order sent.",
    "healthy_dead_lettered": "Only poison messages are given up.",
    "unexplained_dead_letters": "Each dead letter has its reason.",
    "duplicates_handled": "No message is handled again once it is done.",
    "other_violations": "Attempts are counted exactly, no message ends twice, and no more handlers run than there are "
    "slots.",
    "poison_dead_lettered": "Each poison message is given up, after exactly max_attempts failed attempts.",
    "least_backlog_at_live_send": "The backfill had a backlog at each live send, or the figures would mean nothing.",
    "inversions": "No record starts if a more urgent message has waited longer than the recheck interval and one "
    "record.",
    "high_wait_p99_seconds": "{top} waits at most 1.5 times the longest record and 1 second (99 of 100 messages).",
    "high_wait_ratio": "{top} waits at least 10 times longer without priority (99 of 100 messages).",
    "total_drain_ratio": "Priority costs at most 15 % of the time in which everything is done.",
    "away_calls": "While the resource is away, each slot calls it three times and then once after each pause.",
    "away_attempts": "No attempt counts because the resource was away.",
    "away_dead_lettered": "No message is given up because the resource was away.",
    "away_order_violations": "Messages of a group keep their order while the resource is away and once it is back.",
    "away_other_violations": "No message is lost, left in a lane or handled twice because the resource was away.",
    "away_inversions": "The most urgent messages are tried first while the resource is away, and are first once it is "
    "back.",
    "away_first_start_seconds": "Once the resource is back, a message starts within the pause.",
    "function_calls_per_message": "The function makes at most one call to SQS and DynamoDB for two messages.",
    "asset_megabytes": "The function's unzipped code is smaller than 20 MB.",
    "cold_import_milliseconds": "A new process imports the handler in less than half a second.",
}
_NONE = (
    *("losses", "left_in_queues", "order_violations", "healthy_dead_lettered", "unexplained_dead_letters"),
    *("duplicates_handled", "other_violations"),
)
_NONE_AWAY = ("away_attempts", "away_dead_lettered", "away_order_violations", "away_other_violations")


def judge(
    runs: Mapping[RunName, Figures], *, config: LanesConfig, customers: int, footprint: Figures, busy: str
) -> list[Promise]:
    """
    Judge a demo.

    Args:
        runs: figures of the runs, that with mappings among them.
        config: of the stage with mappings.
        customers: size of the backfill.
        footprint: of the function's code.
        busy: why times that are too long mean nothing; empty if they do.
    """
    slots = config.consumer.reserved_concurrency
    made = [promise for name, run in runs.items() for promise in _safety(name, run)]
    for name in [name for name in runs if name is not RunName.WITHOUT]:
        made += _priority(name, runs, slots=slots, customers=customers, busy=busy)
    mapped = partial(_promise, RunName.MAPPINGS, relation="<=")
    calls, reason = runs[RunName.MAPPINGS]["function_calls_per_message"], _no_calls(config, customers)
    return [
        *made,
        # Before a record that takes longer than the recheck interval, the lanes above are read.
        mapped("function_calls_per_message", calls, limit=0.5, not_judged=reason, busy=busy),
        mapped("asset_megabytes", footprint["asset_megabytes"], limit=20.0),
        mapped("cold_import_milliseconds", footprint["cold_import_milliseconds"], limit=500.0),
    ]


def _promise(
    run: RunName,
    name: str,
    value: float | None,
    *,
    relation: str = "=",
    limit: float = 0,
    top: str = "",
    not_judged: str = "",
    busy: str = "",
) -> Promise:
    """Return a promise; one that was kept needs no excuse such as a busy machine."""
    sentence = _SENTENCES[name].format(top=top)
    made = Promise(
        run=run,
        name=name,
        value=value,
        relation=relation,
        limit=limit,
        sentence=sentence,
        not_judged=not_judged,
    )
    return made if made.is_kept else replace(made, not_judged=busy)


def busy_words(load_average: float, *, processors: int) -> str:
    """Return the reason not to judge times on a machine that other programs use as well; empty if they don't."""
    # A quiet demo keeps one processor busy, and waits in between.
    if load_average <= max(2, processors):
        return ""
    return (
        f"other programs kept the machine busy (a load average of {load_average:.1f} on {processors} processors), so "
        "long times mean nothing; run it again on a quiet one"
    )


def top_lane(run: Figures) -> str:
    """Return the highest lane that got messages: lanes for yet more urgent work may be above it."""
    lanes: Mapping[str, Figures] = run["lanes"]
    return next((name for name, lane in lanes.items() if lane["sent"]), next(iter(lanes)))


def top_wait(run: Figures) -> float | None:
    """Return the p99 wait of that lane's traffic."""
    wait: float | None = run["lanes"][top_lane(run)]["p99_wait_seconds"]
    return wait


def _safety(name: RunName, run: Figures) -> Iterator[Promise]:
    for figure in _NONE:
        yield _promise(name, figure, run[figure])
    yield _promise(name, "poison_dead_lettered", run["poison_dead_lettered"], limit=run["poison_sent"])
    backlog = run["least_backlog_at_live_send"]
    yield _promise(name, "least_backlog_at_live_send", backlog, relation=">=", limit=10)


def _priority(
    name: RunName, runs: Mapping[RunName, Figures], *, slots: int, customers: int, busy: str
) -> Iterator[Promise]:
    run, without = runs[name], runs.get(RunName.WITHOUT)
    give = partial(_promise, name, top=top_lane(run))
    timed = partial(give, busy=busy)
    alone, several = _one_lane(run), _several(slots)
    yield timed("inversions", run["inversions"], not_judged=several)
    wait, longest = top_wait(run), 1.5 * run["longest_record_seconds"] + 1
    yield timed("high_wait_p99_seconds", wait, relation="<=", limit=longest, not_judged=alone)
    times = ratio = None
    reason = "the run without priority was left out"
    if without:
        other = top_wait(without)
        times = other / wait if wait and other is not None else None
        ratio = run["drain_seconds"] / without["drain_seconds"] if without["drain_seconds"] else None
        small = f"judged from {DEFAULT_CUSTOMERS} customers on: smaller backfills are over too soon"
        reason = small if customers < DEFAULT_CUSTOMERS else ""
    yield timed("high_wait_ratio", times, relation=">=", limit=10.0, not_judged=reason or alone)
    yield timed("total_drain_ratio", ratio, relation="<=", limit=1.15, not_judged=reason)
    calls, pause = tries_while_away()
    yield give("away_calls", run["away_calls"], relation="<=", limit=slots * calls)
    for figure in _NONE_AWAY:
        yield give(figure, run[figure])
    yield timed("away_inversions", run["away_inversions"], not_judged=several)
    yield timed("away_first_start_seconds", run["away_first_start_seconds"], relation="<=", limit=pause)


def _several(slots: int) -> str:
    return f"the promise is one of a single slot, and there are {slots}" if slots > 1 else ""


def _one_lane(run: Figures) -> str:
    """Return why there is no wait of urgent work to judge; empty if there is one."""
    used = [name for name, lane in run["lanes"].items() if lane["sent"]]
    return (
        f"all work goes through {used[0]}, so no work has priority over other work" if len(used) == 1 else ""
    )


def _no_calls(config: LanesConfig, customers: int) -> str:
    if config.last_lane.batch_size != 10 or config.consumer.idempotency:  # noqa: PLR2004 - as the reason says
        return "the promise is one of batches of 10 with idempotency off"
    return "judged from 1,000 customers on" if customers < 1_000 else ""  # noqa: PLR2004 - as the reason says
