"""`lanes dead-letters`: list, redrive and delete dead letters."""
