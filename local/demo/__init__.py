"""
The demo: a backfill drains while urgent work arrives, without priority, with mappings and with the pull engine.

With either engine the resource is then away for a while, and comes back.
"""
