"""
Finding what is known of a message: first the log, from id to id, then the ledger, the outbox and the audit trail.

What is not indispensable may be out of reach: the trace then does without, and a note says so.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol, TypeVar

from lanes.errors import AwsError
from lanes.operate.events import event_of
from lanes.operate.trace import Sources, Trace, lives_of, trace_of
from lanes.operate.traced_messages import messages_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lanes.config import LanesConfig
    from lanes.consumer.ledger import Entry
    from lanes.operate.audit import AuditEntry
    from lanes.operate.events import LogLine, Logs, Tale
    from lanes.operate.traced_messages import TracedMessage
    from lanes.outbox.entry import Entry as OutboxEntry

    T = TypeVar("T")

MOST_IDS = 20
"""Ids that are looked for: its own, and what SQS called the message in each of its lives."""
MOST_AUDITS = 1000
# AWS: how Lambda's log tells of an invocation without an answer (Lambda developer guide, "Troubleshoot execution").
ENDED_BADLY = ("Task timed out", "Runtime exited")


class LedgerReader(Protocol):
    """Reads the ledger."""

    def read(self, lane: str, message_ids: Sequence[str]) -> Mapping[str, Entry]:
        """Return the entries that exist, by message id; raises `AwsError`."""


class AuditReader(Protocol):
    """Reads the audit trail."""

    def entries(self, *, since: float, limit: int) -> Sequence[AuditEntry]:
        """Return entries, the latest first; raises `AwsError`."""


class OutboxReader(Protocol):
    """Finds entries of an outbox."""

    def find(self, entry_id: str, *, group: str) -> OutboxEntry | None:
        """Return an entry by its id and, if it has one, its group; raises `AwsError`."""


class NothingElse:
    """Stands for ledger and audit trail where there is a log alone."""

    def read(self, _lane: str, _message_ids: Sequence[str]) -> Mapping[str, Entry]:
        """Know of no entry."""
        return {}

    def entries(self, *, since: float, limit: int) -> Sequence[AuditEntry]:  # noqa: ARG002 - a protocol's names
        """Know of no change."""
        return ()


class Tracer:
    """
    Finds out what became of messages.

    Args:
        config: the lanes.
        logs: the function's log.
        ledger: the attempts' table.
        audit: the audit trail.
        outbox: of the stack, if it has one.
        note: gets what could not be looked at.
        clock: epoch seconds.
    """

    def __init__(
        self,
        *,
        config: LanesConfig,
        logs: Logs,
        ledger: LedgerReader,
        audit: AuditReader,
        outbox: OutboxReader | None,
        note: Callable[[str], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._config = config
        self._logs = logs
        self._ledger = ledger
        self._audit = audit
        self._outbox = outbox
        self._note = note
        self._clock = clock

    def trace(self, wanted: str, *, since: float) -> Trace:
        """
        Return what is known of a message.

        Args:
            wanted: its own id, or what SQS called it in one of its lives.
            since: from when on the log is looked through, in epoch seconds.

        Raises:
            AwsError: the log can't be read.
        """
        tales = self._tales(wanted, since=since)
        message_ids = list(dict.fromkeys([*lives_of(tales), wanted]))
        own_id = next((tale.id for tale in tales if tale.id), wanted)
        group = next((tale.group for tale in tales if tale.group), "")
        lived_again = len(lives_of(tales)) > 1
        sources = Sources(
            tales=tales,
            entries=self._entries(message_ids),
            outbox=self._or_none(lambda: self._outbox_entry(own_id, group), "the outbox"),
            audits=(self._or_none(lambda: self._audits(since), "the audit trail") or ())
            if lived_again
            else (),
            crashes=self._crashes(tales, since=since),
            since=since,
            now=self._clock(),
        )
        return trace_of(wanted, sources)

    def messages_of(self, trace_id: str, *, since: float) -> list[TracedMessage]:
        """
        Return the messages of a trace that handlers have seen, the first ones first.

        Args:
            trace_id: 32 hexadecimal digits.
            since: from when on the log is looked through, in epoch seconds.

        Raises:
            AwsError: the log can't be read.
        """
        return messages_of(trace_id, self._logs, since=since)

    def _tales(self, wanted: str, *, since: float) -> list[Tale]:
        """Look for the id, and then for the other ids under which what was found goes."""
        found: dict[tuple[str, str], Tale] = {}
        looked_for: set[str] = set()
        pending = [wanted]
        while pending and len(looked_for) < MOST_IDS:
            one = pending.pop(0)
            looked_for.add(one)
            for tale, line_id in self._naming(one, since=since):
                found[line_id, tale.message_id] = tale
                pending += [other for other in _ids(tale) if other not in looked_for and other not in pending]
        return list(found.values())

    def _naming(self, one: str, *, since: float) -> list[tuple[Tale, str]]:
        events = (event_of(line) for line in self._logs.lines(since=since, containing=one))
        return [
            (tale, event.line.id) for event in events if event for tale in event.tales() if one in _ids(tale)
        ]

    def _entries(self, message_ids: Sequence[str]) -> list[Entry]:
        def read() -> list[Entry]:
            return [
                entry
                for lane in self._config.lanes
                for entry in self._ledger.read(lane.name, message_ids).values()
            ]

        return self._or_none(read, "the ledger") or []

    def _outbox_entry(self, own_id: str, group: str) -> OutboxEntry | None:
        return None if self._outbox is None else self._outbox.find(own_id, group=group)

    def _audits(self, since: float) -> Sequence[AuditEntry]:
        return self._audit.entries(since=since, limit=MOST_AUDITS)

    def _crashes(self, tales: Sequence[Tale], *, since: float) -> list[LogLine]:
        """Look for invocations without an answer, if a receive of the message was not told of."""
        lives = lives_of(tales).values()
        told = [{tale.receive for tale in life if tale.receive is not None} for life in lives]
        if not any(receives and max(receives) > len(receives) for receives in told):
            return []
        until = max(tale.at for tale in tales)
        lines = [
            line
            for words in ENDED_BADLY
            for line in self._logs.lines(since=since, until=until, containing=words)
            if words in line.text
        ]
        return sorted(lines, key=lambda line: line.at)

    def _or_none(self, read: Callable[[], T], what: str) -> T | None:
        try:
            return read()
        except AwsError as error:
            self._note(f"{what} could not be read: {error}")
            return None


def _ids(tale: Tale) -> tuple[str, ...]:
    return tuple(one for one in (tale.message_id, tale.id) if one)
