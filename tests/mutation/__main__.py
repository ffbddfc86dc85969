"""Print the mutants of a package that no test notices: `python -m tests.mutation outbox --sample 40`."""

import argparse
import functools

from tests.mutation.nets import NETS
from tests.support.mutation import survivors


def main():
    """Print each mutant when its tests have run, and the number of survivors."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__.split(":")[0])
    parser.add_argument("package", choices=list(NETS))
    parser.add_argument("--only", default="", help="a part of the modules' paths")
    parser.add_argument("--sample", type=int, default=0, help="number of mutants (default: all)")
    options = parser.parse_args()
    found, number = survivors(
        options.package, options.sample, only=options.only, say=functools.partial(print, flush=True)
    )
    print(f"{len(found)} of {number} mutants survived")


if __name__ == "__main__":
    main()
