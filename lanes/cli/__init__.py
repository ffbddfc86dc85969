"""
The `lanes` command.

Each group of verbs is a module of its own with a Typer app, added in `lanes.cli.main`. Data goes to standard output,
talk to standard error; `--output json` prints one JSON document and nothing else. Exit codes: 0 done, 1 something is
wrong that the message explains, 2 wrong usage, 3 the answer is "no" (a check failed), 130 interrupted.
"""
