"""The code of the probe's functions."""
