"""The function behind lanes."""
