"""Record handlers with a tracing library of your choice."""
