"""`python -m lanes` is the `lanes` command."""

from lanes.cli.main import main

if __name__ == "__main__":
    main()
