"""The demo: a backfill drains while urgent work arrives, without priority, with mappings and with the pull engine."""
