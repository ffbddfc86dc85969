"""
The timeline of one message: every receive of it and its cause, and what nobody saw.

A message that is redriven, moved or sent again keeps its own id and gets a new one from SQS: it lives several times. A
receive that no event tells of did not reach the function, or ended without a word: Lambda held it while all slots were
taken until its visibility ended, or the process died.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from lanes.operate.event_words import seconds, words_of
from lanes.operate.trace_standing import standing_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lanes.consumer.ledger import Entry
    from lanes.operate.audit import AuditEntry
    from lanes.operate.events import LogLine, Tale
    from lanes.outbox.entry import Entry as OutboxEntry

WORTH_TELLING = 1.0
"""Seconds of waiting in a queue that are told."""
REDRIVE_REACH = 24 * 3600.0
"""Seconds after the beginning of a redrive within which a new life may come from it."""
ATTEMPT_ENDED = frozenset({"message_failed", "message_dead_lettered"})
CLOCKS_DIFFER = 5.0
"""Seconds by which the clocks of SQS, of the function and of the operator may differ."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """
    One line of a timeline.

    Attributes:
        at: epoch seconds.
        lane: the lane's name, empty before it has one.
        what: what happened, in a word or two.
        why: why or how.
        message_id: what SQS calls the message in this life.
        receive: which receive it was, or which ones; empty where it was none.
        is_seen: whether something was seen to happen at that time; else it is the earliest time possible.
    """

    at: float
    lane: str
    what: str
    why: str
    message_id: str = ""
    receive: str = ""
    is_seen: bool = True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """
    What is known of a message.

    Attributes:
        tales: what the log's events tell of it, in any order.
        entries: of the ledger.
        outbox: the entry of the outbox that it came from.
        audits: changes by operators.
        crashes: lines by which Lambda tells that an invocation ended without an answer.
        since: from when on the log was looked through, in epoch seconds.
        now: the time.
    """

    tales: Sequence[Tale] = ()
    entries: Sequence[Entry] = ()
    outbox: OutboxEntry | None = None
    audits: Sequence[AuditEntry] = ()
    crashes: Sequence[LogLine] = ()
    since: float
    now: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """
    What became of a message.

    Attributes:
        wanted: the id that was asked for.
        id: the message's own id.
        kind: its kind.
        group: its group.
        message_ids: what SQS called it, in order; several where it was redriven, moved or sent again.
        steps: the timeline.
        standing: where it is now.
        is_known: whether anything is known of it.
    """

    wanted: str
    id: str
    kind: str
    group: str
    message_ids: Sequence[str]
    steps: Sequence[Step]
    standing: str
    is_known: bool


def trace_of(wanted: str, sources: Sources) -> Trace:
    """Put together what is known of a message."""
    lives = {one: _without_repeats(tales) for one, tales in lives_of(sources.tales).items()}
    steps = _outbox_steps(sources.outbox)
    before: Tale | None = None
    for message_id, tales in lives.items():
        steps += _Life(message_id, tales, sources, before=before).steps()
        before = tales[-1]
    entries = [entry.message_id for entry in sources.entries]
    outbox = sources.outbox
    return Trace(
        wanted=wanted,
        id=_said(sources.tales, "id") or (outbox.id if outbox else ""),
        kind=_said(sources.tales, "kind") or (outbox.kind if outbox else ""),
        group=_said(sources.tales, "group") or ((outbox.group if outbox else None) or ""),
        message_ids=list(dict.fromkeys([*lives, *entries])),
        steps=sorted(steps, key=lambda step: step.at),
        standing=standing_of(lives, sources.entries, outbox, now=sources.now),
        is_known=bool(lives or sources.entries or outbox),
    )


def lives_of(tales: Iterable[Tale]) -> dict[str, list[Tale]]:
    """Return the tales by what SQS called the message, each life's in order, the lives by their beginning."""
    lives: dict[str, list[Tale]] = {}
    for tale in sorted(tales, key=lambda tale: (tale.at, tale.receive or 0)):
        lives.setdefault(tale.message_id, []).append(tale)
    return lives


def _without_repeats(tales: Sequence[Tale]) -> list[Tale]:
    """Leave out the report of an exception where the end of its attempt, which repeats it, is told as well."""
    ended_at = max((tale.at for tale in tales if tale.event in ATTEMPT_ENDED), default=float("-inf"))
    return [tale for tale in tales if tale.event != "handler_failed" or tale.at > ended_at]


def _said(tales: Iterable[Tale], name: str) -> str:
    """Return what the events call it, those before all that have opened it."""
    ordered = sorted(tales, key=lambda tale: "messages" in tale.fields)
    return next((str(found) for tale in ordered if (found := getattr(tale, name))), "")


def _outbox_steps(entry: OutboxEntry | None) -> list[Step]:
    if entry is None:
        return []
    written = Step(
        at=entry.created_at,
        lane=entry.lane,
        what="written",
        why=f"to the outbox with priority {entry.priority}",
    )
    if entry.published_at is None:
        return [written]
    why = f"by the outbox's relay, {seconds(entry.published_at - entry.created_at)} after it was written"
    return [written, Step(at=entry.published_at, lane=entry.lane, what="published", why=why)]


class _Life:
    """One life of a message, from its sending to its last receive."""

    def __init__(
        self, message_id: str, tales: Sequence[Tale], sources: Sources, *, before: Tale | None
    ) -> None:
        self._message_id = message_id
        self._tales = tales
        self._sources = sources
        self._before = before
        self._told = {tale.receive for tale in tales if tale.receive is not None}
        sent = [float(tale.fields["sent_at"]) for tale in tales if "sent_at" in tale.fields]
        self._sent_at = min(sent, default=None)
        self._free_at, self._free_since = self._sent_at, "it was sent"
        self._receive = 0
        self._seen_at = self._sent_at if self._sent_at is not None else sources.since

    def steps(self) -> list[Step]:
        """Return its steps in order."""
        steps = [] if self._sent_at is None else [self._sending(self._sent_at)]
        for tale in self._tales:
            steps += self._unseen(tale)
            steps.append(self._told_step(tale))
            self._go_on(tale)
        return steps

    def _sending(self, at: float) -> Step:
        lane = self._tales[0].lane
        return self._step(at=at, lane=lane, what="sent", why=f"to {lane}{self._origin(at)}")

    def _origin(self, at: float) -> str:
        """Say where a later life comes from."""
        if self._before is None:
            return ""
        if self._before.event == "message_moved":
            return ", by the override"
        if self._before.event == "message_sent_behind":
            return ", behind the others of its group"
        for entry in self._sources.audits:
            begun = entry.at - CLOCKS_DIFFER <= at <= entry.at + REDRIVE_REACH
            if begun and entry.action == "dead-letters redrive" and entry.target == self._tales[0].lane:
                return f" again, while {entry.who} redrove dead letters"
        return " again: redriven by other means, or sent anew with the same id"

    def _unseen(self, tale: Tale) -> list[Step]:
        """Return a step for the receives before this one that nothing tells of."""
        if tale.receive is None:
            return []
        missing = [number for number in range(self._receive + 1, tale.receive) if number not in self._told]
        if not missing:
            return []
        at = self._free_at if self._free_at is not None else self._sources.since
        numbers = str(missing[0]) if len(missing) == 1 else f"{missing[0]} to {missing[-1]}"
        what, why = self._why_unseen(tale)
        return [
            self._step(
                at=min(at, tale.at), lane=tale.lane, what=what, why=why, receive=numbers, is_seen=False
            )
        ]

    def _why_unseen(self, tale: Tale) -> tuple[str, str]:
        if self._receive == 0 and (self._sent_at is None or self._sent_at < self._sources.since):
            return "not seen", "before the time that was looked through (--since), or never by the function"
        crashes = [line for line in self._sources.crashes if self._seen_at <= line.at <= tale.at]
        if crashes:
            ended = " ".join(crashes[-1].text.split())[-80:]
            return "crashed?", f'an invocation ended in this time without an answer: "...{ended}"'
        return (
            "throttled",
            "never reached the function: Lambda held it while all slots were taken, until its visibility ended",
        )

    def _told_step(self, tale: Tale) -> Step:
        what, why = words_of(tale.event, tale.fields)
        if tale.receive is not None:
            why += self._waited(tale)
        receive = "" if tale.receive is None else str(tale.receive)
        return self._step(at=tale.at, lane=tale.lane, what=what, why=why, receive=receive)

    def _waited(self, tale: Tale) -> str:
        begun = float(tale.fields.get("started_at") or tale.at)
        waited = None if self._free_at is None else begun - self._free_at
        if waited is None or waited < WORTH_TELLING:
            return ""
        return f"; it had waited {seconds(waited)} for its turn since {self._free_since}"

    def _go_on(self, tale: Tale) -> None:
        if tale.receive is not None:
            self._receive = max(self._receive, tale.receive)
        self._seen_at = max(self._seen_at, tale.at)
        delay = tale.fields.get("delay")
        if tale.event == "batch_woken":
            self._free_at, self._free_since = tale.at, "it was woken"
        elif isinstance(delay, int | float):
            self._free_at, self._free_since = tale.at + delay, _pause_of(tale)

    def _step(
        self, *, at: float, lane: str, what: str, why: str, receive: str = "", is_seen: bool = True
    ) -> Step:
        return Step(
            at=at,
            lane=lane,
            what=what,
            why=why,
            message_id=self._message_id,
            receive=receive,
            is_seen=is_seen,
        )


def _pause_of(tale: Tale) -> str:
    pauses = {"message_failed": "its backoff ended", "batch_yielded": "its parking ended"}
    return pauses.get(tale.event, "it was to be back")
