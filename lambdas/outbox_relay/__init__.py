"""The relay of the outbox."""
