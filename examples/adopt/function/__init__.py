"""The function that takes over."""
