"""
Bulk work from Spark: the data source "lanes", and jobs that write with it.

Register the source once in your session, then write any table to the lanes of a deployment:

    spark.dataSource.register(LanesDataSource)
    table.write.format("lanes").option("stack", "MyStack").mode("append").save()

Spark 3.5 has no Python data sources: call `write_partitions(table, {"stack": "MyStack"})` instead.
"""

from __future__ import annotations

from importlib.util import find_spec

from .partitions import PartitionWriter, write_partitions

__all__ = ["PartitionWriter", "write_partitions"]

if find_spec("pyspark.sql.datasource") is not None:
    from .source import LanesDataSource

    __all__ += ["LanesDataSource"]
