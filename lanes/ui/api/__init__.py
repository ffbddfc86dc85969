"""The requests that the page's scripts send, and their answers."""
