"""A consumer with all features of handlers."""
