"""The manifest of a run: the ids that were sent, and the storage that keeps them."""
