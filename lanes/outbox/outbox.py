"""
The application's side of an outbox: writes entries into the application's own transactions.

Owns the word add. The priority of an entry is resolved when it is written, by the same rules as a producer's.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lanes.config import LanesConfig
from lanes.deployment import Deployment
from lanes.errors import ConfigurationError, InvalidMessageError
from lanes.message import Message
from lanes.outbox.entry import LARGEST_PRIORITY, Entry, Positions
from lanes.priority import PriorityRules, priority_to_send
from lanes.trace_context import current_traceparent

if TYPE_CHECKING:
    from collections.abc import Iterator

    import boto3
    from mypy_boto3_dynamodb import DynamoDBClient
    from sqlalchemy import Connection
    from sqlalchemy.orm import Session

    from lanes.aws.outbox_transaction import OutboxTransaction
    from lanes.outbox.sql_schema import OutboxTables


class Outbox:
    """
    Writes entries; one instance serves all threads of a process.

    With DynamoDB made by `from_stack`, `from_env` or `from_deployment`; for a SQL database by `Outbox(config=...)`.

    Args:
        config: the lanes; they say where a priority leads.
        rules: priorities by kind.
        source: CloudEvents source of the messages.
        table: name of the outbox's table in DynamoDB.
        dynamodb: client for `transaction`; `entry` needs none.
        sql: the tables of a SQL database, where they are not named as usual.
        positions: ages of the entries.

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
        source: str = "lanes",
        table: str | None = None,
        dynamodb: DynamoDBClient | None = None,
        sql: OutboxTables | None = None,
        positions: Positions | None = None,
    ) -> None:
        self.config = config or LanesConfig()
        self.table = table
        self._rules = rules
        self._source = source
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
        source: str = "lanes",
    ) -> Outbox:
        """
        Find the outbox of a deployed stack in the parameter `/lanes/<stack name>` of its account.

        Args:
            stack_name: name of the CloudFormation stack.
            region: AWS region; without it that of the session or of the environment.
            endpoint_url: where AWS is, for AWS on this machine.
            session: session of boto3 to make the clients with.
            rules: priorities by kind.
            source: CloudEvents source of the messages.

        Raises:
            ConfigurationError: there is no such parameter, or the stack has no outbox.
            AwsError: the call failed.
        """
        from lanes.aws.clients import Clients
        from lanes.aws.parameters import read_deployment

        clients = Clients(region=region, endpoint_url=endpoint_url, session=session)
        deployment = read_deployment(clients.ssm(), stack_name)
        return cls.from_deployment(deployment, dynamodb=clients.dynamodb(), rules=rules, source=source)

    @classmethod
    def from_env(cls, *, rules: PriorityRules | None = None, source: str = "lanes") -> Outbox:
        """
        Take the outbox from the variable LANES_DEPLOYMENT, as the functions of a stack have it.

        Raises:
            ConfigurationError: the variable is missing or wrong, or the stack has no outbox.
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
        source: str = "lanes",
    ) -> Outbox:
        """
        Write to the outbox of a known deployment.

        Raises:
            ConfigurationError: it has no outbox.
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
    ) -> Entry:
        """
        Make an entry without writing it; `entry` and `add` do both.

        Args:
            kind: stable name of what the data is.
            data: anything that JSON can hold.
            group: messages of one group in one lane are sent and handled in the order written.
            priority: goes before the priority block, the rules of the kind and NORMAL.
            id: identity of the event and its deduplication ID; without it a new one.
            traceparent: W3C trace context to pass on; without it the current one, if there is one.

        Raises:
            MessageError: the message breaks a rule.
        """
        message = Message(
            kind=kind,
            data=data,
            group=group,
            priority=priority,
            source=self._source,
            traceparent=current_traceparent() if traceparent is None else traceparent,
        )
        if id is not None:
            message = replace(message, id=id)
        resolved = priority_to_send(message, self._rules)
        if abs(resolved) > LARGEST_PRIORITY:
            raise InvalidMessageError([f"priority is {resolved}; an outbox takes up to {LARGEST_PRIORITY:,}"])
        return Entry(
            id=message.id,
            kind=kind,
            source=self._source,
            group=group,
            body=replace(message, priority=resolved).to_body(),
            priority=resolved,
            lane=self.config.lane_for(resolved).name,
            position=self._positions.next(),
        )

    def entry(
        self,
        kind: str,
        data: Any,
        *,
        group: str | None = None,
        priority: int | None = None,
        id: str | None = None,  # noqa: A002
        traceparent: str | None = None,
    ) -> dict[str, Any]:
        """
        Give an entry as one action for the caller's own `transact_write_items` (of a client of boto3).

        The arguments are those of `prepare`.

        Raises:
            MessageError: the message breaks a rule.
            EntryTooLargeError: the item would be larger than DynamoDB takes.
            ConfigurationError: this outbox has no DynamoDB table.
        """
        from lanes.aws.outbox_item import put_action

        entry = self.prepare(kind, data, group=group, priority=priority, id=id, traceparent=traceparent)
        return put_action(self._dynamodb_table(), entry)

    @contextmanager
    def transaction(self) -> Iterator[OutboxTransaction]:
        """
        Collect writes and entries, and commit them together when the block ends without an exception.

        Raises:
            TransactionTooLargeError: over 100 actions or 4 MB; nothing was written.
            AwsError: the call failed; nothing was written, unless no answer came.
            ConfigurationError: this outbox has no DynamoDB table or client.
        """
        from lanes.aws.outbox_transaction import OutboxTransaction

        if self._dynamodb is None:
            raise ConfigurationError(["no DynamoDB client was given"], source="outbox")
        collected = OutboxTransaction(outbox=self, table=self._dynamodb_table(), client=self._dynamodb)
        yield collected
        collected.commit()

    def add(
        self,
        session: Session | Connection,
        kind: str,
        data: Any,
        *,
        group: str | None = None,
        priority: int | None = None,
        id: str | None = None,  # noqa: A002
        traceparent: str | None = None,
    ) -> Entry:
        """
        Write an entry inside the caller's SQLAlchemy session or connection; it commits with the rest of it.

        The other arguments are those of `prepare`.

        Raises:
            MessageError: the message breaks a rule; nothing was written.
        """
        from lanes.outbox.sql_schema import OutboxTables, row_of

        entry = self.prepare(kind, data, group=group, priority=priority, id=id, traceparent=traceparent)
        self._sql = self._sql or OutboxTables()
        session.execute(self._sql.entries.insert().values(**row_of(entry)))
        return entry

    def _dynamodb_table(self) -> str:
        if self.table is None:
            raise ConfigurationError(["this outbox has no DynamoDB table"], source="outbox")
        return self.table
