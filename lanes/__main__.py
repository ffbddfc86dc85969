"""The `lanes` command, also as `python -m lanes`; names the extra to install if its packages are missing."""

import sys

_PACKAGES = ("typer", "rich")
_INTERRUPTED = 130


def main() -> None:
    """Run the command; Ctrl-C exits with 130, even while packages are loading."""
    try:
        from lanes.cli.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except ModuleNotFoundError as error:
        package = str(error.name).partition(".")[0]
        if package not in _PACKAGES:
            raise
        from lanes.installing import install_hint

        sys.exit(f"error: {package} is not installed: {install_hint('cli')}")


if __name__ == "__main__":
    main()
