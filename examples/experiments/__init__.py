"""The first experiments as an app."""
