"""The first handler and the first producer."""
