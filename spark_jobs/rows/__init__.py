"""Rows of a table as messages."""
