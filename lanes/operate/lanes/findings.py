"""Findings of a check: one line each, with advice."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, TypeVar

from lanes.errors import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
DENIED = ("AccessDenied", "Unauthorized", "Forbidden")
GONE = ("NotFound", "NonExistentQueue", "DoesNotExist")


class Verdict(enum.StrEnum):
    """The verdict of a finding."""

    OK = "ok"
    WRONG = "wrong"
    UNKNOWN = "unknown"  # it could not be read
    NOTE = "note"  # it is allowed, and its consequences are easy to miss


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """
    One finding.

    Attributes:
        subject: the checked part.
        found: its state.
        advice: the next step; empty if there is none.

    """

    verdict: Verdict
    subject: str
    found: str
    advice: str = ""


class Findings:
    """Collects findings in order."""

    def __init__(self) -> None:
        self.all: list[Finding] = []

    def ok(self, subject: str, found: str) -> None:
        """Add a correct part."""
        self.all.append(Finding(verdict=Verdict.OK, subject=subject, found=found))

    def wrong(self, subject: str, found: str, advice: str) -> None:
        """Add a problem."""
        self.all.append(Finding(verdict=Verdict.WRONG, subject=subject, found=found, advice=advice))

    def unknown(self, subject: str, found: str, advice: str) -> None:
        """Add a part that could not be read."""
        self.all.append(Finding(verdict=Verdict.UNKNOWN, subject=subject, found=found, advice=advice))

    def note(self, subject: str, found: str) -> None:
        """Add a consequence that is easy to miss."""
        self.all.append(Finding(verdict=Verdict.NOTE, subject=subject, found=found))

    def expect(self, subject: str, found: str, problems: list[tuple[str, str]]) -> None:
        """Add each problem with its advice; without problems, add the state as correct."""
        for problem, advice in problems:
            self.wrong(subject, problem, advice)
        if not problems:
            self.ok(subject, found)

    def ask(self, subject: str, read: Callable[[], T], *, right: str) -> T | None:
        """
        Read a part; if that fails, add a finding and return None.

        Args:
            subject: the part.
            read: reads it.
            right: the required IAM action.
        """
        try:
            return read()
        except AwsError as error:
            # A missing resource is a finding; any other error leaves the question open.
            if any(word in error.code for word in GONE):
                self.wrong(subject, f"does not exist ({error.code})", "deploy the stack again")
            else:
                denied = any(word in error.code for word in DENIED)
                advice = f"the caller needs {right}" if denied else f"try again; it needs {right}"
                self.unknown(subject, f"could not be read: {_first_line(error)}", advice)
            return None


def _first_line(error: AwsError) -> str:
    line = str(error).splitlines()[0]
    return line if len(line) <= 160 else f"{line[:157]}..."  # noqa: PLR2004 - a line that fits a screen
