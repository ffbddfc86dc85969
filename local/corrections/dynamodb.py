"""
Corrections of moto's DynamoDB, and of tables in its CloudFormation.

1. Calls are isolated. moto's server answers each connection in a thread of its own and guards no table, so
   conditional writes could both win, and a query could meet a table that changes under it. Here calls come one by one.
2. A transaction that fails changes nothing, and nothing else. moto copies the whole table once for every item of a
   transaction and puts the copy back on failure, which takes a second and a gigabyte at a few thousand items and
   undoes concurrent writes. Here all conditions are judged before the first write.

AWS: TransactWriteItems is all or nothing, and the reasons of a cancelled one come in the order of its actions (API
reference of DynamoDB, TransactWriteItems).
"""

import copy
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moto.cloudformation.exceptions import ValidationError
from moto.dynamodb import models
from moto.dynamodb.comparisons import get_filter_expression
from moto.dynamodb.exceptions import TransactionCanceledException
from moto.dynamodb.models import DynamoDBBackend, dynamodb_backends
from moto.dynamodb.models.table import GlobalSecondaryIndex, Table
from moto.dynamodb.responses import DynamoHandler

from .models import is_true, replace_method

_one_at_a_time = threading.RLock()


def correct() -> None:
    """Correct moto's DynamoDB in this process."""
    DynamoHandler.call_action = _isolated(DynamoHandler.call_action)
    DynamoDBBackend.transact_write_items = _judged_first(DynamoDBBackend.transact_write_items)
    models.copy = _CopyWithoutTables
    _correct_tables()


class _CopyWithoutTables:
    """Replaces the module `copy` in moto's DynamoDB: tables are not copied, since nothing is put back."""

    copy = staticmethod(copy.copy)

    @staticmethod
    def deepcopy(value: Any) -> Any:
        return value if isinstance(value, Table) else copy.deepcopy(value)


def _isolated(call_action: Callable[..., Any]) -> Callable[..., Any]:
    def isolated(self: Any, *arguments: Any, **named: Any) -> Any:
        with _one_at_a_time:
            return call_action(self, *arguments, **named)

    return isolated


def _judged_first(transact: Callable[..., None]) -> Callable[..., None]:
    def judged_first(self: Any, transact_items: Sequence[dict[str, Any]]) -> None:
        with _one_at_a_time:
            reasons = [_reason(self, *next(iter(item.items()))) for item in transact_items]
            if any(code is not None for code, _, _ in reasons):
                raise TransactionCanceledException(reasons)
            transact(self, transact_items)

    return judged_first


def _reason(backend: Any, operation: str, action: dict[str, Any]) -> tuple[str | None, str | None, Any]:
    """Return why an action's condition cancels its transaction: code, message and item; or nothing three times."""
    condition = action.get("ConditionExpression")
    if condition is None:
        return None, None, None
    table = backend.get_table(action["TableName"])
    source = action["Item"] if operation == "Put" else action["Key"]
    names = [name for name in (table.hash_key_attr, table.range_key_attr) if name is not None]
    current = backend.get_item(action["TableName"], {name: source[name] for name in names})
    judge = get_filter_expression(
        condition, action.get("ExpressionAttributeNames"), action.get("ExpressionAttributeValues")
    )
    if judge.expr(current):
        return None, None, None
    wanted = action.get("ReturnValuesOnConditionCheckFailure") == "ALL_OLD" and current is not None
    item = current.to_json()["Attributes"] if wanted else None
    return "ConditionalCheckFailed", "The conditional request failed", item


def _correct_tables() -> None:
    def complete(original: Any) -> Callable[..., Any]:
        def create(cls: Any, resource_name: str, cloudformation_json: Any, *args: Any, **kw: Any) -> Any:
            table = original(cls, resource_name, cloudformation_json, *args, **kw)
            _apply_table_features(table, cloudformation_json["Properties"])
            return table

        return create

    def update(_cls: Any, /, original_resource: Any, cloudformation_json: Any, **_kw: Any) -> Any:
        properties = cloudformation_json["Properties"]
        _refuse_other_indexes(original_resource, properties)
        original_resource.attr = properties["AttributeDefinitions"]
        original_resource.global_indexes = [
            GlobalSecondaryIndex.create(index, original_resource.table_key_attrs)
            for index in properties.get("GlobalSecondaryIndexes", [])
        ]
        protected = is_true(properties.get("DeletionProtectionEnabled"))
        original_resource.deletion_protection_enabled = protected
        _apply_table_features(original_resource, properties)
        return original_resource

    replace_method(Table, "create_from_cloudformation_json", complete)
    Table.update_from_cloudformation_json = classmethod(update)


def _refuse_other_indexes(table: Any, properties: dict[str, Any]) -> None:
    """
    Refuse what CloudFormation refuses of a table's indexes, and keys with which it would make another table.

    AWS: one index in an update, and no other keys or projection under a name (CloudFormation, AWS::DynamoDB::Table).
    """
    keys = (table.schema, [_parts(one.describe()) for one in table.indexes])
    if keys != (
        properties["KeySchema"],
        [_parts(one) for one in properties.get("LocalSecondaryIndexes", [])],
    ):
        raise ValidationError(
            message=f"the keys and local indexes of the table {table.name} can't be changed on this machine, where "
            "tables are not replaced; give the new table another logical id"
        )
    old = {one.name: _parts(one.describe()) for one in table.global_indexes}
    new = {one["IndexName"]: _parts(one) for one in properties.get("GlobalSecondaryIndexes", [])}
    if any(parts != old.get(name, parts) for name, parts in new.items()):
        raise ValidationError(
            message="Cannot update GSI's properties other than Provisioned Throughput and Contributor Insights "
            "Specification. You can create a new GSI with a different name."
        )
    if len(old.keys() ^ new.keys()) > 1:
        raise ValidationError(
            message="Cannot perform more than one GSI creation or deletion in a single update"
        )


def _parts(index: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return name, keys and projection of an index, which AWS compares."""
    projection = index["Projection"]
    return (
        index["IndexName"],
        [(key["AttributeName"], key["KeyType"]) for key in index["KeySchema"]],
        projection["ProjectionType"],
        {*projection.get("NonKeyAttributes", [])},
    )


def _apply_table_features(table: Any, properties: dict[str, Any]) -> None:
    """Time to live and point-in-time recovery, which moto drops from the template."""
    backend = dynamodb_backends[table.account_id][table.region_name]
    expiry = properties.get("TimeToLiveSpecification")
    if expiry:
        specification = {"Enabled": is_true(expiry.get("Enabled")), "AttributeName": expiry["AttributeName"]}
        backend.update_time_to_live(table.name, specification)
    else:
        table.ttl = {"TimeToLiveStatus": "DISABLED"}
    recovery = properties.get("PointInTimeRecoverySpecification", {})
    enabled = is_true(recovery.get("PointInTimeRecoveryEnabled"))
    backend.update_continuous_backups(table.name, {"PointInTimeRecoveryEnabled": enabled})
