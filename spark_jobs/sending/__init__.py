"""Sending the rows of a partition: order, batches, retries, rate and backlog."""
