"""The outbox in DynamoDB: entries in your own transactions."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Unpack

from lanes.aws.clients import Clients, deployment_from_env, read_deployment
from lanes.errors import ConfigurationError
from lanes.outbox.dynamodb.transaction import OutboxTransaction, actions_of
from lanes.outbox.outbox import Outbox

if TYPE_CHECKING:
    from collections.abc import Iterator

    import boto3
    from mypy_boto3_dynamodb import DynamoDBClient

    from lanes.config import LanesConfig
    from lanes.config.deployment import Deployment
    from lanes.outbox.entry import Positions, UniqueOptions
    from lanes.priority import PriorityRules


class DynamoOutbox(Outbox):
    """
    Writes entries to DynamoDB; you can share one instance between all threads of a process.

    Args:
        table: name of the table.
        client: for `transaction`; `entry` does not use it.
        config: the lanes.
        rules: priorities by kind.
        source: CloudEvents source of the messages; by default the name of this program.
        positions: assigns the positions of the entries.

    Example:
        >>> outbox = DynamoOutbox("orders-outbox")
        >>> (action,) = outbox.entry("order.placed", {"order": 7}, group="customer-1", priority=50)
        >>> action["Put"]["TableName"], action["Put"]["Item"]["lane"]
        ('orders-outbox', {'S': 'HIGH'})
    """

    def __init__(
        self,
        table: str,
        *,
        client: DynamoDBClient | None = None,
        config: LanesConfig | None = None,
        rules: PriorityRules | None = None,
        source: str | None = None,
        positions: Positions | None = None,
    ) -> None:
        super().__init__(config=config, rules=rules, source=source, positions=positions)
        self.table = table
        self._client = client

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
    ) -> DynamoOutbox:
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
        clients = Clients(region=region, endpoint_url=endpoint_url, session=session)
        deployment = read_deployment(clients.ssm(), stack_name)
        # One set of clients for both calls, so that they have the same credentials.
        return cls.from_deployment(deployment, client=clients.dynamodb(), rules=rules, source=source)

    @classmethod
    def from_env(cls, *, rules: PriorityRules | None = None, source: str | None = None) -> DynamoOutbox:
        """
        Read the outbox from the variable LANES_DEPLOYMENT, which a stack sets on its functions.

        Raises:
            ConfigurationError: the variable is missing or invalid, or the stack has no outbox.
        """
        deployment = deployment_from_env()
        return cls.from_deployment(deployment, client=Clients().dynamodb(), rules=rules, source=source)

    @classmethod
    def from_deployment(
        cls,
        deployment: Deployment,
        *,
        client: DynamoDBClient | None = None,
        rules: PriorityRules | None = None,
        source: str | None = None,
    ) -> DynamoOutbox:
        """
        Write to the outbox of a deployment.

        Raises:
            ConfigurationError: the deployment has no outbox.
        """
        if deployment.outbox is None:
            problem = "the stack has no outbox; set `enabled = true` in [outbox] of lanes.toml and deploy"
            raise ConfigurationError([problem], source="outbox")
        return cls(deployment.outbox, client=client, config=deployment.config, rules=rules, source=source)

    def entry(self, kind: str, data: Any, **options: Unpack[UniqueOptions]) -> list[dict[str, Any]]:
        """
        Return an entry as actions for your own `transact_write_items` (of a boto3 client).

        It is one action, and with `unique` a second one, whose condition fails if an entry with this key waits.

        Raises:
            MessageError: the message breaks a rule.
            EntryTooLargeError: the item would exceed DynamoDB's limit.
            ConfigurationError: `on_duplicate` is "keep", which needs `transaction`.
        """
        entry, keeps = self.prepare_unique(kind, data, options)
        if keeps:
            problem = (
                "on_duplicate is 'keep'; use `transaction`, which knows whether an entry with the key waits"
            )
            raise ConfigurationError([problem], source="outbox")
        return actions_of(self.table, entry)

    @contextmanager
    def transaction(self) -> Iterator[OutboxTransaction]:
        """
        Collect writes and entries, and commit them together if the block ends without an exception.

        Raises:
            TransactionTooLargeError: over 100 actions or 4 MB; nothing was written.
            AwsError: the call failed; nothing was written, unless the error is not `answered`.
            ConfigurationError: this outbox has no client.
        """
        if not hasattr(self._client, "transact_write_items"):
            problem = f"client is {self._client!r}; pass a client, as boto3.client('dynamodb') makes it"
            raise ConfigurationError([problem], source="outbox")
        assert self._client is not None  # noqa: S101 - it has the method
        collected = OutboxTransaction(prepare=self.prepare_unique, table=self.table, client=self._client)
        # Not in a `finally`: after an exception nothing is written, neither business data nor messages.
        yield collected
        collected.commit()
