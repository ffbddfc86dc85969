"""
The `lanes` command.

Each verb or group of verbs is a module; `lanes.cli.main` adds them to the command. Data is printed on standard output,
messages and progress on standard error. `--output json` prints one JSON document and nothing else.
"""
