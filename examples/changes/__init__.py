"""One change of a message: the code before it, and after it."""
