"""`lanes outbox`: set up an outbox, run its relay, and look after its entries."""
