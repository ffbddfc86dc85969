"""
Corrections of moto 5.2.5's DynamoDB.

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
from collections.abc import Callable, Sequence
from typing import Any

from moto.dynamodb import models
from moto.dynamodb.comparisons import get_filter_expression
from moto.dynamodb.exceptions import TransactionCanceledException
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.table import Table
from moto.dynamodb.responses import DynamoHandler

from .moto_version import check_moto_version

_MARK = "_lanes_corrected"
_one_at_a_time = threading.RLock()


def install() -> None:
    """
    Correct moto's DynamoDB in this process; calling it again changes nothing.

    Raises:
        MotoVersionError: another moto is installed than the one this correction was written for.
    """
    check_moto_version()
    if getattr(DynamoHandler, _MARK, False):
        return
    DynamoHandler.call_action = _isolated(DynamoHandler.call_action)
    DynamoDBBackend.transact_write_items = _judged_first(DynamoDBBackend.transact_write_items)
    models.copy = _CopyWithoutTables
    setattr(DynamoHandler, _MARK, True)


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
