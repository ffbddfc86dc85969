"""The command `python -m local`: the demo; `lanes local` runs an app on this machine."""

import argparse
import logging
import os
import sys

from local.account import without_aws_settings
from local.demo import command as demo


def main(arguments: list[str]) -> int:
    """Run the named command."""
    parser = argparse.ArgumentParser(prog="python -m local", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    demo.add_arguments(commands.add_parser("demo", help=demo.__doc__, description=demo.__doc__))
    options = parser.parse_args(arguments)
    # A user's own profile and keys play no part here: no call may reach a real account.
    for name in os.environ.keys() - without_aws_settings(os.environ).keys():
        del os.environ[name]
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    return int(options.run(options))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
