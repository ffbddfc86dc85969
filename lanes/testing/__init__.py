"""Lanes without AWS, for the tests of applications: the real consumer over queues in memory."""
