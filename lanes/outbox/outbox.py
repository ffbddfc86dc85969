"""
The outbox: write entries in your application's own transactions.

Owns the word add. The priority of an entry is resolved when you write it, by the rules of a producer.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack, cast

from lanes.config import LanesConfig
from lanes.config.deployment import Deployment
from lanes.errors import ConfigurationError, InvalidMessageError
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
from lanes.source import program_source
from lanes.trace_context import current_traceparent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime, timedelta

    import boto3
    from mypy_boto3_dynamodb import DynamoDBClient
    from sqlalchemy import Connection, Table
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session
    from sqlalchemy.orm import Session, scoped_session

    from lanes.outbox.dynamodb.transaction import OutboxTransaction
    from lanes.outbox.sql.bridges import Bridge
    from lanes.outbox.sql.schema import OutboxTables


# A new priority and the trace of a relay, which it adds to a message without one, take up to 82 bytes more.
ROOM_BYTES = 100
# PostgreSQL has no NUL, and UTF-8 no half of a surrogate pair, after which pg8000's connection is out of step.
UNWRITABLE = re.compile("[\0\ud800-\udfff]")


class Outbox:
    """
    Writes entries; you can share one instance between all threads of a process.

    For DynamoDB create it with `from_stack`, `from_env` or `from_deployment`; for SQL with `Outbox(config=...)`.

    Args:
        config: the lanes.
        rules: priorities by kind.
        source: CloudEvents source of the messages; by default the name of this program.
        table: name of the outbox's table in DynamoDB.
        dynamodb: client for `transaction`; `entry` does not use it.
        sql: the tables of a SQL database, if their names are not the default.
        positions: assigns the positions of the entries.

    Example:
        >>> outbox = Outbox(table="orders-outbox")
        >>> action = outbox.entry("order.placed", {"order": 7}, group="customer-1", priority=50)
        >>> action["Put"]["TableName"], action["Put"]["Item"]["lane"]
        ('orders-outbox', {'S': 'HIGH'})
    """

    def __init__(
        self,
        *,
        config: LanesConfig | None = None,
        rules: PriorityRules | None = None,
        source: str | None = None,
        table: str | None = None,
        dynamodb: DynamoDBClient | None = None,
        sql: OutboxTables | None = None,
        positions: Positions | None = None,
    ) -> None:
        self.config = config or LanesConfig()
        self.table = table
        self._rules = rules
        self._source = source or program_source()
        self._dynamodb = dynamodb
        self._sql = sql
        self._positions = positions or Positions()

    @classmethod
    def from_stack(
        cls,
        stack_name: str,
        *,
        region: str | None = None,
        endpoint_url: str | None = None,
        session: boto3.Session | None = None,
        rules: PriorityRules | None = None,
        source: str | None = None,
    ) -> Outbox:
        """
        Find the outbox of a deployed stack in the parameter `/lanes/<stack name>` of its account.

        Args:
            stack_name: name of the CloudFormation stack.
            region: AWS region; by default that of the session or of the environment.
            endpoint_url: URL of AWS, for an emulator.
            session: boto3 session for the clients.
            rules: priorities by kind.
            source: CloudEvents source of the messages; by default the name of this program.

        Raises:
            ConfigurationError: the parameter does not exist, or the stack has no outbox.
            AwsError: the call failed.
        """
        from lanes.aws.clients import Clients
        from lanes.aws.parameters import read_deployment

        clients = Clients(region=region, endpoint_url=endpoint_url, session=session)
        deployment = read_deployment(clients.ssm(), stack_name)
        # One set of clients for both calls, so that they have the same credentials.
        return cls.from_deployment(deployment, dynamodb=clients.dynamodb(), rules=rules, source=source)

    @classmethod
    def from_env(cls, *, rules: PriorityRules | None = None, source: str | None = None) -> Outbox:
        """
        Read the outbox from the variable LANES_DEPLOYMENT, which a stack sets on its functions.

        Raises:
            ConfigurationError: the variable is missing or invalid, or the stack has no outbox.
        """
        from lanes.aws.clients import Clients

        deployment = Deployment.from_env()
        return cls.from_deployment(deployment, dynamodb=Clients().dynamodb(), rules=rules, source=source)

    @classmethod
    def from_deployment(
        cls,
        deployment: Deployment,
        *,
        dynamodb: DynamoDBClient | None = None,
        rules: PriorityRules | None = None,
        source: str | None = None,
    ) -> Outbox:
        """
        Write to the outbox of a deployment.

        Raises:
            ConfigurationError: the deployment has no outbox.
        """
        if deployment.outbox is None:
            problem = "the stack has no outbox; set `enabled = true` in [outbox] of lanes.toml and deploy"
            raise ConfigurationError([problem], source="outbox")
        return cls(
            config=deployment.config, rules=rules, source=source, table=deployment.outbox, dynamodb=dynamodb
        )

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
        Create an entry without writing it; `entry` and `add` do both.

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
        problems = []
        is_short = isinstance(key, str) and 0 < len(key) <= LONGEST_ID
        if key is not None and not (is_short and UNWRITABLE.search(key) is None):
            problems.append(f"unique is {key!r}; must be a text of 1 to {LONGEST_ID} characters")
        if on_duplicate not in ("refuse", "keep"):
            problems.append(f"on_duplicate is {on_duplicate!r}; must be 'refuse' or 'keep'")
        if problems:
            raise InvalidMessageError(problems)
        entry = self.prepare(kind, data, **cast("EntryOptions", options))
        # Drivers write a member of an enum by its name.
        return replace(entry, unique_key=None if key is None else plain(key)), on_duplicate == "keep"

    def _entries_of(
        self, messages: Iterable[Message], not_before: datetime | timedelta | None
    ) -> list[Entry]:
        check_messages(messages, "add_many")
        return [self._entry_of(message, not_before) for message in messages]

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

    def entry(
        self,
        kind: str,
        data: Any,
        **options: Unpack[EntryOptions],
    ) -> dict[str, Any]:
        """
        Return an entry as one action for your own `transact_write_items` (of a boto3 client).

        The arguments are those of `prepare`.

        Raises:
            MessageError: the message breaks a rule.
            EntryTooLargeError: the item would exceed DynamoDB's limit.
            ConfigurationError: this outbox has no DynamoDB table.
        """
        from lanes.outbox.dynamodb.item import put_action

        return put_action(self._dynamodb_table(), self.prepare(kind, data, **options))

    @contextmanager
    def transaction(self) -> Iterator[OutboxTransaction]:
        """
        Collect writes and entries, and commit them together if the block ends without an exception.

        Raises:
            TransactionTooLargeError: over 100 actions or 4 MB; nothing was written.
            AwsError: the call failed; nothing was written, unless the error is not `answered`.
            ConfigurationError: this outbox has no DynamoDB table or client.
        """
        from lanes.outbox.dynamodb.transaction import OutboxTransaction

        if not hasattr(self._dynamodb, "transact_write_items"):
            problem = f"dynamodb is {self._dynamodb!r}; pass a client, as boto3.client('dynamodb') makes it"
            raise ConfigurationError([problem], source="outbox")
        assert self._dynamodb is not None  # noqa: S101 - it has the method
        collected = OutboxTransaction(
            prepare=self.prepare_unique, table=self._dynamodb_table(), client=self._dynamodb
        )
        # Not in a `finally`: after an exception nothing is written, neither business data nor messages.
        yield collected
        collected.commit()

    def add(
        self,
        session: Session | scoped_session[Any] | Connection | Bridge,
        kind: str,
        data: Any,
        **options: Unpack[UniqueOptions],
    ) -> Entry:
        """
        Write an entry in your transaction; it is committed with your own writes.

        Args:
            session: a session or a connection of SQLAlchemy, or a bridge of `lanes.outbox.sql.bridges`.
            kind: stable name for this sort of message.
            data: any value that JSON can represent.
            options: those of the entry, see `UniqueOptions`.

        Returns:
            The entry with its number; with `on_duplicate="keep"` the one that waits, if there is one.

        Raises:
            MessageError: the message breaks a rule; nothing was written.
            OutboxTransactionError: the entry can't join a transaction of `session`; nothing was written.
            DuplicateEntryError: an entry with this key waits; nothing was written.
        """
        from lanes.outbox.sql.writing import write_one

        return write_one(session, self._sql_table(), *self.prepare_unique(kind, data, options))

    async def add_async(
        self,
        session: AsyncSession | async_scoped_session[Any] | AsyncConnection | Bridge,
        kind: str,
        data: Any,
        **options: Unpack[UniqueOptions],
    ) -> Entry:
        """Write an entry as `add` does, in the transaction of an asynchronous session or connection."""
        from lanes.outbox.sql.writing import write_one_async

        return await write_one_async(session, self._sql_table(), *self.prepare_unique(kind, data, options))

    def add_many(
        self,
        session: Session | scoped_session[Any] | Connection | Bridge,
        messages: Iterable[Message],
        *,
        not_before: datetime | timedelta | None = None,
    ) -> list[Entry]:
        """
        Write an entry for each message, a thousand with one statement, in your transaction.

        Args:
            session: as for `add`.
            messages: the messages.
            not_before: they are not sent before this time, or this long from now.

        Raises:
            MessageError: a message breaks a rule; nothing was written.
            OutboxTransactionError: the entries can't join a transaction of `session`; nothing was written.
        """
        from lanes.outbox.sql.writing import write

        return write(session, self._sql_table(), self._entries_of(messages, not_before))

    async def add_many_async(
        self,
        session: AsyncSession | async_scoped_session[Any] | AsyncConnection | Bridge,
        messages: Iterable[Message],
        *,
        not_before: datetime | timedelta | None = None,
    ) -> list[Entry]:
        """Write entries as `add_many` does, in the transaction of an asynchronous session or connection."""
        from lanes.outbox.sql.writing import write_async

        return await write_async(session, self._sql_table(), self._entries_of(messages, not_before))

    def lock_group(self, session: Session | scoped_session[Any] | Connection | Bridge, *groups: str) -> None:
        """
        Wait for other transactions that have locked one of these groups, until they end, before you add to the groups.

        Entries of transactions that overlap and lock their group have the order of their commits. Lock all groups of
        a transaction with one call.

        Raises:
            OutboxTransactionError: `session` has no transaction to join.
        """
        from lanes.outbox.sql.writing import lock_groups

        lock_groups(session, self._sql_table(), groups)

    async def lock_group_async(
        self, session: AsyncSession | async_scoped_session[Any] | AsyncConnection | Bridge, *groups: str
    ) -> None:
        """Lock groups as `lock_group` does, in the transaction of an asynchronous session or connection."""
        from lanes.outbox.sql.writing import lock_groups_async

        await lock_groups_async(session, self._sql_table(), groups)

    def _sql_table(self) -> Table:
        # Imported here, since SQLAlchemy is an extra that users of DynamoDB need not install.
        from lanes.outbox.sql.schema import OutboxTables

        self._sql = self._sql or OutboxTables()
        return self._sql.entries

    def _dynamodb_table(self) -> str:
        if self.table is None:
            raise ConfigurationError(["this outbox has no DynamoDB table"], source="outbox")
        return self.table
