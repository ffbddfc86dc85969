"""The changes that operators make on the page: a preview first, then a job that carries it out."""
