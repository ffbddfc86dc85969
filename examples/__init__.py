"""Small programs that the documentation quotes and the tests run."""
