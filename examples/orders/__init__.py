"""A consumer with everything that a handler can do."""
