"""
Documented corrections over moto, installed once per process before any AWS call.

They are written against one version of moto, and a correction falls away when moto is right.
"""

from importlib.metadata import version

import moto

from . import cloudformation, dynamodb, resources, server, sqs

__all__ = ["CORRECTED_VERSION", "MotoVersionError", "check_moto_version", "install"]

CORRECTED_VERSION = "5.2.5"
# On moto itself: an installed process may know this package under two names.
_MARK = "_lanes_corrected"


class MotoVersionError(RuntimeError):
    """The installed moto is not the one that the corrections were written and tested against."""


def install() -> None:
    """
    Correct moto in this process; calling it again changes nothing.

    Raises:
        MotoVersionError: The installed version is not `CORRECTED_VERSION`.
    """
    check_moto_version()
    if getattr(moto, _MARK, False):
        return
    for part in (cloudformation, resources, dynamodb, sqs, server):
        part.correct()
    setattr(moto, _MARK, True)


def check_moto_version(installed: str | None = None) -> None:
    """
    Refuse to correct another version of moto than the tested one.

    Raises:
        MotoVersionError: The installed version is not `CORRECTED_VERSION`.
    """
    found = installed if installed is not None else version("moto")
    if found != CORRECTED_VERSION:
        raise MotoVersionError(
            f"moto {found} is installed, but local/corrections corrects moto {CORRECTED_VERSION}; "
            f"install that version, or check every correction against {found} and change CORRECTED_VERSION"
        )
