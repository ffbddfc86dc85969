"""The promises that the runs of the demo have to keep, each with its limit, its figure and a sentence."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Self

from local.demo.figures import RunFigures, RunRules
from local.demo.footprint import Footprint
from local.demo.plan import DEFAULT_CUSTOMERS
from local.demo.runs import RunName

BACKLOG_AT_LEAST = 10
DRAIN_RATIO = 1.15
WAIT_RATIO = 10.0
CALLS_A_MESSAGE = 0.5
ASSET_MEGABYTES = 20.0
IMPORT_MILLISECONDS = 500.0
_CALLS_BATCH_SIZE = 10
_CALLS_CUSTOMERS = 1_000
_RECORDS, _SLACK_SECONDS = 1.5, 1.0


class Relation(Enum):
    """How a figure has to relate to its limit."""

    EQUAL = "="
    AT_MOST = "<="
    AT_LEAST = ">="

    def holds(self, value: float, limit: float) -> bool:
        """Whether it does."""
        match self:
            case Relation.EQUAL:
                return value == limit
            case Relation.AT_MOST:
                return value <= limit
            case Relation.AT_LEAST:
                return value >= limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """
    One promise and how it came out.

    Attributes:
        name: key of its figure.
        sentence: the promise in words.
        value: the figure; None if there is nothing to judge.
        limit: bound of the figure.
        relation: of the figure to the limit.
        not_judged: why it is not judged; empty if it is.
        run: the run that has to keep it.
    """

    name: str
    sentence: str
    value: float | None
    limit: float
    relation: Relation = Relation.EQUAL
    not_judged: str = ""
    run: RunName = RunName.MAPPINGS

    @property
    def key(self) -> str:
        """Key of its figure in the report."""
        return self.run.key(self.name)

    @property
    def is_kept(self) -> bool:
        """Whether it was kept, or not judged."""
        if self.not_judged:
            return True
        return self.value is not None and self.relation.holds(self.value, self.limit)

    def unless(self, reason: str) -> Self:
        """Return the promise; one that was not kept is not judged if there is a reason."""
        return replace(self, not_judged=reason) if reason and not self.is_kept else self

    def broken_words(self) -> str:
        """Return the broken promise and its distance from the limit."""
        wanted = f"{self.relation.value} {_number(self.limit)}"
        if self.value is None:
            return f"{self.key}: there is no figure; {wanted} was promised"
        distance = _number(abs(self.value - self.limit))
        return (
            f"{self.key} is {_number(self.value)}, off by {distance}; promised is {wanted}. {self.sentence}"
        )


def _number(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def judge(
    runs: Mapping[RunName, RunFigures],
    *,
    rules: RunRules,
    customers: int,
    footprint: Footprint | None = None,
    busy: str = "",
) -> list[Promise]:
    """
    Judge a demo.

    Args:
        runs: figures of the runs, that with mappings among them.
        rules: of the configuration.
        customers: size of the backfill.
        footprint: of the function's code, if it was measured.
        busy: why times that are too long mean nothing; empty if they do.
    """
    without = runs.get(RunName.WITHOUT)
    engines = {name: run for name, run in runs.items() if name is not RunName.WITHOUT}
    return [
        *(promise for name, run in runs.items() for promise in _safety(name, run)),
        *(
            promise.unless(busy)
            for name, run in engines.items()
            for promise in _urgency(name, run, rules=rules)
        ),
        *(
            promise.unless(busy)
            for name, run in engines.items()
            for promise in _comparison(name, run, without, customers=customers)
        ),
        _economy(runs[RunName.MAPPINGS], rules, customers),
        *([] if footprint is None else _lightness(footprint)),
    ]


def busy_words(load_average: float, *, processors: int) -> str:
    """Return the reason not to judge times on a machine that other programs use as well; empty if they don't."""
    # A quiet demo keeps one processor at work, and waits in between.
    if load_average <= max(2, processors):
        return ""
    return (
        f"other programs kept the machine busy (a load average of {load_average:.1f} on {processors} processors), so "
        "long times mean nothing; run it again on a quiet one"
    )


def _safety(name: RunName, run: RunFigures) -> list[Promise]:
    def none(figure: str, value: int, sentence: str) -> Promise:
        return Promise(run=name, name=figure, sentence=sentence, value=value, limit=0)

    return [
        none("losses", run.losses, "Every accepted message is done or in a dead-letter queue."),
        none("left_in_queues", run.left_in_queues, "Nothing is left in a lane."),
        none("order_violations", run.order_violations, "Messages of a group are handled in the order sent."),
        none("healthy_dead_lettered", run.healthy_dead_lettered, "Only poison messages are given up."),
        none("unexplained_dead_letters", run.unexplained_dead_letters, "Each dead letter has its reason."),
        none("duplicates_handled", run.duplicates_handled, "No message is handled again once it is done."),
        Promise(
            run=name,
            name="poison_dead_lettered",
            sentence="Each poison message is given up, after exactly max_attempts failed attempts.",
            value=run.poison_dead_lettered,
            limit=run.poison_sent,
        ),
        Promise(
            run=name,
            name="least_backlog_at_live_send",
            sentence="The backfill had a backlog at each live send, or the figures would mean nothing.",
            value=run.least_backlog_at_live_send,
            limit=BACKLOG_AT_LEAST,
            relation=Relation.AT_LEAST,
        ),
    ]


def _urgency(name: RunName, run: RunFigures, *, rules: RunRules) -> list[Promise]:
    several = f"the promise is one of a single slot, and there are {rules.slots}" if rules.slots > 1 else ""
    return [
        Promise(
            run=name,
            name="inversions",
            sentence="No record starts when a more urgent message has waited for longer than the recheck "
            "interval and one record.",
            value=run.inversions,
            limit=0,
            not_judged=several,
        ),
        Promise(
            run=name,
            name="high_wait_p99_seconds",
            sentence=f"{run.top_lane} waits at most 1.5 times the longest record and 1 second (99 of 100 messages).",
            value=run.top_wait,
            limit=_RECORDS * run.longest_record_seconds + _SLACK_SECONDS,
            relation=Relation.AT_MOST,
            not_judged=_one_lane(run),
        ),
    ]


def _one_lane(run: RunFigures) -> str:
    """Why there is no wait of urgent work to judge; empty if there is one."""
    used = [name for name, lane in run.lanes.items() if lane.sent]
    return (
        f"all work goes through {used[0]}, so no work has priority over other work" if len(used) == 1 else ""
    )


def _comparison(
    name: RunName, run: RunFigures, without: RunFigures | None, *, customers: int
) -> list[Promise]:
    if without is None:
        reason = "the run without priority was left out"
    elif customers < DEFAULT_CUSTOMERS:
        reason = f"judged from {DEFAULT_CUSTOMERS} customers on: smaller backfills are over too soon"
    else:
        reason = ""
    faster = None
    ratio = None
    if without is not None:
        mine, other = run.top_wait, without.top_wait
        faster = other / mine if mine and other is not None else None
        ratio = run.drain_seconds / without.drain_seconds if without.drain_seconds else None
    return [
        Promise(
            run=name,
            name="high_wait_ratio",
            sentence=f"{run.top_lane} waits at least 10 times longer without priority (99 of 100 messages).",
            value=faster,
            limit=WAIT_RATIO,
            relation=Relation.AT_LEAST,
            not_judged=reason or _one_lane(run),
        ),
        Promise(
            run=name,
            name="total_drain_ratio",
            sentence="Priority costs at most 15 % of the time in which everything is done.",
            value=ratio,
            limit=DRAIN_RATIO,
            relation=Relation.AT_MOST,
            not_judged=reason,
        ),
    ]


def _economy(run: RunFigures, rules: RunRules, customers: int) -> Promise:
    reason = ""
    if rules.batch_size != _CALLS_BATCH_SIZE or rules.idempotency:
        reason = f"the promise is one of batches of {_CALLS_BATCH_SIZE} with idempotency off"
    elif customers < _CALLS_CUSTOMERS:
        reason = f"judged from {_CALLS_CUSTOMERS:,} customers on"
    return Promise(
        name="function_calls_per_message",
        sentence="The function makes at most one call to SQS and DynamoDB for two messages.",
        value=run.function_calls_per_message,
        limit=CALLS_A_MESSAGE,
        relation=Relation.AT_MOST,
        not_judged=reason,
    )


def _lightness(footprint: Footprint) -> list[Promise]:
    return [
        Promise(
            name="asset_megabytes",
            sentence="The function's unzipped code is smaller than 20 MB.",
            value=footprint.asset_megabytes,
            limit=ASSET_MEGABYTES,
            relation=Relation.AT_MOST,
        ),
        Promise(
            name="cold_import_milliseconds",
            sentence="A new process imports the handler in less than half a second.",
            value=footprint.cold_import_milliseconds,
            limit=IMPORT_MILLISECONDS,
            relation=Relation.AT_MOST,
        ),
    ]
