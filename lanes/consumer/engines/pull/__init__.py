"""The pull engine: an invocation holds a slot, and receives the most urgent messages itself."""
