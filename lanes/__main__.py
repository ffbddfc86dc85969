"""The `lanes` command, also as `python -m lanes`; says what to install where the command's packages are not."""

import sys

_PACKAGES = ("typer", "rich")


def main() -> None:
    """Run the command."""
    try:
        from lanes.cli.main import main as run
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package not in _PACKAGES:
            raise
        sys.exit(f"error: {package} is not installed: pip install 'priority-lanes[cli]'")
    run()


if __name__ == "__main__":
    main()
