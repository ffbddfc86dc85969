"""`lanes dead-letters`: list, redrive and delete dead letters, and release the groups they hold."""
