"""
The outbox: write entries in your application's own transactions.

Owns the word add. The priority of an entry is resolved when you write it, by the rules of a producer. `SqlOutbox` and
`DynamoOutbox` write entries; this is what they share.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from lanes.config import LanesConfig
from lanes.encoding import program_source
from lanes.errors import InvalidMessageError
from lanes.message import (
    LARGEST_BODY_BYTES,
    LONGEST_ID,
    Message,
    check_expiry,
    expiry_of,
    plain,
    size_bytes,
    time_of,
)
from lanes.outbox.entry import (
    LARGEST_PRIORITY,
    LATEST,
    MICROSECONDS,
    Entry,
    EntryOptions,
    Positions,
    UniqueOptions,
)
from lanes.priority import PriorityRules, priority_to_send
from lanes.producer.outgoing import check_messages
from lanes.trace_context import current_traceparent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime, timedelta

# A new priority and the trace of a relay, which it adds to a message without one, take up to 82 bytes more.
ROOM_BYTES = 100
# PostgreSQL has no NUL, and UTF-8 no half of a surrogate pair, after which pg8000's connection is out of step.
UNWRITABLE = re.compile("[\0\ud800-\udfff]")


class Outbox:
    """
    Prepares entries; you can share one instance between all threads of a process.

    Args:
        config: the lanes.
        rules: priorities by kind.
        source: CloudEvents source of the messages; by default the name of this program.
        positions: assigns the positions of the entries.
    """

    def __init__(
        self,
        *,
        config: LanesConfig | None = None,
        rules: PriorityRules | None = None,
        source: str | None = None,
        positions: Positions | None = None,
    ) -> None:
        self.config = config or LanesConfig()
        self._rules = rules
        self._source = source or program_source()
        self._positions = positions or Positions()

    def prepare(
        self,
        kind: str,
        data: Any,
        *,
        group: str | None = None,
        priority: int | None = None,
        id: str | None = None,  # noqa: A002 - the name that CloudEvents gives it
        traceparent: str | None = None,
        not_before: datetime | timedelta | None = None,
        expires: datetime | timedelta | None = None,
    ) -> Entry:
        """
        Create an entry without writing it; `add` and `entry` do both.

        Args:
            kind: stable name for this sort of message.
            data: any value that JSON can represent.
            group: messages of one group in one lane are sent and handled in the order written.
            priority: overrides the priority block, the rules of the kind and NORMAL.
            id: of the event; by default a new one. The same id of the same source and kind is the same message.
            traceparent: W3C trace context to pass on; by default the current one, if any.
            not_before: the entry is not sent before this time, or this long from now.
            expires: no handler gets the message after this time, or so long from now.

        Raises:
            MessageError: the message breaks a rule.
        """
        message = Message(
            kind=kind,
            data=data,
            group=group,
            priority=priority,
            source=self._source,
            traceparent=traceparent,
            expires=expiry_of(expires, now=self._positions.clock()),
        )
        return self._entry_of(message if id is None else replace(message, id=id), not_before)

    def prepare_unique(self, kind: str, data: Any, options: UniqueOptions) -> tuple[Entry, bool]:
        """Create an entry without writing it; return also whether a waiting one with its key is kept instead."""
        key, on_duplicate = options.pop("unique", None), options.pop("on_duplicate", "refuse")
        entry = self.prepare(kind, data, **cast("EntryOptions", options))
        return self._with_key(entry, key, expires=options.get("expires")), self._keeps(on_duplicate)

    def _with_key(self, entry: Entry, key: str | None, *, expires: object) -> Entry:
        problems = []
        is_short = isinstance(key, str) and 0 < len(key) <= LONGEST_ID
        if key is not None and not (is_short and UNWRITABLE.search(key) is None):
            problems.append(f"unique is {key!r}; must be a text of 1 to {LONGEST_ID} characters")
        if key is not None and expires is not None:
            # For a second writer, who may not know of it.
            problems.append("unique and expires are both given; an entry that others may keep can't expire")
        if problems:
            raise InvalidMessageError(problems)
        # Drivers write a member of an enum by its name.
        return entry if key is None else replace(entry, unique_key=plain(key))

    def _keeps(self, on_duplicate: str) -> bool:
        if on_duplicate not in ("refuse", "keep"):
            raise InvalidMessageError([f"on_duplicate is {on_duplicate!r}; must be 'refuse' or 'keep'"])
        return on_duplicate == "keep"

    def _entries_of(
        self,
        messages: Iterable[Message],
        not_before: datetime | timedelta | None,
        unique: Callable[[Message], str | None] | None = None,
    ) -> list[Entry]:
        messages = list(messages) if unique is not None else messages
        check_messages(messages, "add_many")
        return [
            self._entry_of(message, not_before)
            if unique is None
            else self._with_key(self._entry_of(message, not_before), unique(message), expires=message.expires)
            for message in messages
        ]

    def _entry_of(self, message: Message, not_before: datetime | timedelta | None = None) -> Entry:
        """Create the entry of a message, without its number."""
        if not isinstance(message, Message):
            raise TypeError(f"add_many accepts Message(kind=..., data=...), not {type(message).__name__}")
        if message.traceparent is None:
            message = replace(message, traceparent=current_traceparent())
        resolved = priority_to_send(message, self._rules)
        if abs(resolved) > LARGEST_PRIORITY:
            limits = f"between -{LARGEST_PRIORITY:,} and {LARGEST_PRIORITY:,}"
            raise InvalidMessageError([f"priority is {resolved}; must be {limits}"])
        # Checked now, in your transaction: an entry that no relay can send would fail long after its commit.
        body = replace(message, priority=resolved).to_body()
        if (size := size_bytes(body)) > LARGEST_BODY_BYTES - ROOM_BYTES:
            limit = f"{LARGEST_BODY_BYTES - ROOM_BYTES:,}, since a new priority or a trace makes it longer"
            raise InvalidMessageError([f"the message has {size:,} bytes; an outbox accepts at most {limit}"])
        for name, value in (("id", message.id), ("source", message.source)):
            if UNWRITABLE.search(value):
                raise InvalidMessageError([f"{name} is {value!r}; a database can't hold all its characters"])
        position = self._positions.next()
        written_at = position / MICROSECONDS
        due = None if not_before is None else time_of(not_before, written_at, latest=LATEST)
        check_expiry(message, due)
        return Entry(
            id=message.id,
            kind=message.kind,
            source=message.source,
            group=message.group,
            body=body,
            priority=resolved,
            lane=self.config.lane_for(resolved).name,
            position=position,
            created_at=written_at,
            not_before=due,
            # Also for a time in the past: only the relay's clock decides when it is due.
            is_scheduled=not_before is not None,
        )
