"""List, redrive and purge dead letters."""
