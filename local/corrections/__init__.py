"""
Documented corrections over moto, installed once per process before any AWS call.

Each module names the moto version that it corrects and refuses another one; a correction falls away when
moto is right.
"""

from . import cloudformation, dynamodb, keep_alive, lookups, sqs, sqs_shortcut, unimplemented

__all__ = ["install"]


def install() -> None:
    """Correct moto in this process; calling it again changes nothing."""
    cloudformation.install()
    dynamodb.install()
    sqs.install()
    sqs_shortcut.install()
    keep_alive.install()
    lookups.install()
    unimplemented.install()
