"""
Bulk work: the data source "lanes" of Spark, and jobs that write with it.

Register the source once in your session, then write any table to the lanes of a deployment:

    spark.dataSource.register(LanesDataSource)
    table.write.format("lanes").option("stack", "MyStack").mode("append").save()

Spark 3.5 has no Python data sources: call `write_partitions(table, {"stack": "MyStack"})` instead.

Each name is imported when it is first used, so that the arguments of the jobs can be read without Spark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .partitions import write_partitions as write_partitions
    from .source import LanesDataSource as LanesDataSource

HOMES = {"LanesDataSource": "source", "write_partitions": "partitions"}

__all__ = [  # noqa: PLE0604 - the names are the keys of the table above
    *HOMES,
]


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{HOMES[name]}"), name)
    # The next use finds it without this function.
    globals()[name] = value
    return value
