"""Calls to SQS: sending, and the lanes' queues with their dead-letter queues."""
