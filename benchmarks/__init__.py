"""Measurements of what a message costs, each a program of its own."""
