"""Findings of a check: one line each, with advice."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, TypeVar

from lanes.errors import AwsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lanes.operate.lanes.check_rules import Problem

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
        code: name of the finding for programs, which stays the same.
        subject: the checked part.
        found: its state.
        advice: the next step; empty if there is none.

    """

    verdict: Verdict
    code: str
    subject: str
    found: str
    advice: str = ""


class Findings:
    """Collects findings in order."""

    def __init__(self) -> None:
        self.all: list[Finding] = []

    def ok(self, subject: str, found: str) -> None:
        """Add a correct part."""
        self._add(Verdict.OK, "as_expected", subject, found)

    def wrong(self, code: str, subject: str, found: str, advice: str) -> None:
        """Add a problem."""
        self._add(Verdict.WRONG, code, subject, found, advice)

    def unknown(self, code: str, subject: str, found: str, advice: str) -> None:
        """Add a part that could not be read."""
        self._add(Verdict.UNKNOWN, code, subject, found, advice)

    def note(self, code: str, subject: str, found: str) -> None:
        """Add a consequence that is easy to miss."""
        self._add(Verdict.NOTE, code, subject, found)

    def expect(self, subject: str, found: str, problems: list[Problem]) -> None:
        """Add each problem with its advice; without problems, add the state as correct."""
        for problem in problems:
            self.wrong(problem.code, subject, problem.text, problem.advice)
        if not problems:
            self.ok(subject, found)

    def ask(
        self,
        subject: str,
        read: Callable[[], T],
        *,
        right: str,
        if_gone: str = "deploy the stack again: lanes cdk deploy",
    ) -> T | None:
        """
        Read a part; if that fails, add a finding and return None.

        Args:
            subject: the part.
            read: reads it.
            right: the required IAM action.
            if_gone: the next step if it does not exist.
        """
        try:
            return read()
        except AwsError as error:
            # A missing resource is a finding; any other error leaves the question open.
            if any(word in error.code for word in GONE):
                self.wrong("missing", subject, f"does not exist ({error.code})", if_gone)
            else:
                denied = any(word in error.code for word in DENIED)
                advice = f"the caller needs {right}" if denied else f"try again; it needs {right}"
                code = "not_allowed" if denied else "unreadable"
                self.unknown(code, subject, f"could not be read: {_first_line(error)}", advice)
            return None

    def _add(self, verdict: Verdict, code: str, subject: str, found: str, advice: str = "") -> None:
        self.all.append(Finding(verdict=verdict, code=code, subject=subject, found=found, advice=advice))


def _first_line(error: AwsError) -> str:
    line = str(error).splitlines()[0]
    return line if len(line) <= 160 else f"{line[:157]}..."  # noqa: PLR2004 - a line that fits a screen
