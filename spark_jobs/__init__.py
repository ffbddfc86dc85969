"""
Bulk work from Spark: the "lanes" data source and the jobs that write with it.

Register the source once a session, then write any table to the lanes of a deployment:

    spark.dataSource.register(LanesDataSource)
    table.write.format("lanes").option("stack", "MyStack").mode("append").save()
"""

from __future__ import annotations

from .source import LanesDataSource

__all__ = ["LanesDataSource"]
