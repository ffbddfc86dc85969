"""
The demo: a backfill drains while urgent work arrives, once with priority and once without, and is judged.

What was sent comes from those who sent it, what was done from the handler's own lines, deliveries and what
is left over from the queues. The consumer's claims are shown and decide nothing.
"""
