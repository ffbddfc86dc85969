"""The intake."""
