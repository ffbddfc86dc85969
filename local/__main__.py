"""The command `python -m local`: AWS on this machine."""

import argparse
import logging
import sys

from local import up


def main(arguments: list[str]) -> int:
    """Run the named command."""
    parser = argparse.ArgumentParser(prog="python -m local", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    up.add_arguments(commands.add_parser("up", help=up.__doc__, description=up.__doc__))
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    return int(options.run(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
