"""Measurements of the price, wait and safety of messages; each is its own program."""
