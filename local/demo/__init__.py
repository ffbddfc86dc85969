"""
The demo: a backfill drains while urgent work arrives, once with priority and once without, and is judged.

Sent messages come from their senders, handled ones from the handler's own lines, deliveries and messages
is left over from the queues. The consumer's claims are shown and decide nothing.
"""
