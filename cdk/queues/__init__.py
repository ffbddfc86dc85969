"""The queues of the lanes, and the checks of their settings."""
