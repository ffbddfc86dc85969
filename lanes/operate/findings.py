"""Findings of a check: one line each, with what to do about it."""

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
    """What a finding says."""

    OK = "ok"
    WRONG = "wrong"
    UNKNOWN = "unknown"  # it could not be asked
    NOTE = "note"  # it is allowed, and its consequences are easily missed


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """
    One finding.

    Attributes:
        subject: what was looked at.
        found: what is the case.
        advice: what to do, empty where nothing is to be done.

    """

    verdict: Verdict
    subject: str
    found: str
    advice: str = ""


class Findings:
    """Collects findings in the order in which they come."""

    def __init__(self) -> None:
        self.all: list[Finding] = []

    def ok(self, subject: str, found: str) -> None:
        """Note that something is as it should be."""
        self.all.append(Finding(verdict=Verdict.OK, subject=subject, found=found))

    def wrong(self, subject: str, found: str, advice: str) -> None:
        """Note that something is wrong."""
        self.all.append(Finding(verdict=Verdict.WRONG, subject=subject, found=found, advice=advice))

    def unknown(self, subject: str, found: str, advice: str) -> None:
        """Note that something could not be asked."""
        self.all.append(Finding(verdict=Verdict.UNKNOWN, subject=subject, found=found, advice=advice))

    def note(self, subject: str, found: str) -> None:
        """Note something that is easily missed."""
        self.all.append(Finding(verdict=Verdict.NOTE, subject=subject, found=found))

    def expect(self, subject: str, found: str, problems: list[tuple[str, str]]) -> None:
        """Note each problem with its advice, or, where there is none, what was found."""
        for problem, advice in problems:
            self.wrong(subject, problem, advice)
        if not problems:
            self.ok(subject, found)

    def ask(self, subject: str, read: Callable[[], T], *, right: str) -> T | None:
        """
        Read something; where that fails, note it and return None.

        Args:
            subject: what is read.
            read: reads it.
            right: the IAM action that reading needs.
        """
        try:
            return read()
        except AwsError as error:
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
