"""Metrics, log events and costs, read from CloudWatch."""
