"""Estimate what a deployment costs."""
