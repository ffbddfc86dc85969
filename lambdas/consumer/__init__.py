"""The function behind all lanes."""
