"""
The demo: a backfill drains while urgent work arrives, without priority, with mappings and with the pull engine.

Sent messages come from their senders, handled ones from the handler's own lines, deliveries and messages
is left over from the queues. The consumer's claims are shown and decide nothing.
"""
