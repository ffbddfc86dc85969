"""The one moto version that the corrections are written against."""

from importlib.metadata import version

CORRECTED_VERSION = "5.2.5"


class MotoVersionError(RuntimeError):
    """The installed moto is not the one that the corrections were written and tested against."""


def check_moto_version(installed: str | None = None) -> None:
    """
    Refuse to correct another version of moto than the tested one.

    Raises:
        MotoVersionError: the installed version is not `CORRECTED_VERSION`.
    """
    found = installed if installed is not None else version("moto")
    if found != CORRECTED_VERSION:
        raise MotoVersionError(
            f"moto {found} is installed, but local/corrections corrects moto {CORRECTED_VERSION}; "
            f"install that version, or check every correction against {found} and change CORRECTED_VERSION"
        )
