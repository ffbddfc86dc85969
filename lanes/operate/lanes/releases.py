"""The releases of a function: its published versions, the live one, and the choice of one to go back to."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Protocol

from lanes.config.deployment import VARIABLE
from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

ALIAS = "live"
"""The alias that the mappings invoke."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """
    A published version of a function.

    Attributes:
        version: its number.
        changed: time of its last change, in ISO 8601.
        code: digest of its code.
        timeout: its function timeout.
        variables: its environment variables.
    """

    version: int
    changed: str
    code: str
    timeout: timedelta
    variables: Mapping[str, str]


class Releases(Protocol):
    """The releases of one function; every method raises `AwsError`."""

    def live(self) -> int:
        """Return the live version."""

    def all(self) -> Sequence[Release]:
        """Return all releases in any order."""

    def make_live(self, version: int) -> None:
        """Make another version live; refused if the alias has changed since `live`."""


def release_to_return_to(releases: Sequence[Release], *, live: int, to: int | None = None) -> Release:
    """
    Choose the release to go back to: the one before the live one, or a version of your choice.

    Raises:
        ConfigurationError: there is no such version, it is live already, or it does not fit the deployed queues.
    """
    by_version = {release.version: release for release in releases}
    earlier = max((version for version in by_version if version < live), default=None)
    wanted = earlier if to is None else to
    if wanted is None:
        _refuse(f"version {live} is the first one, so there is none to go back to; deploy a correction")
    elif wanted not in by_version:
        known = ", ".join(str(version) for version in sorted(by_version))
        _refuse(f"there is no version {wanted}; versions are {known}")
    elif wanted == live:
        _refuse(f"version {wanted} is live already; nothing was changed")
    else:
        _refuse(*_obstacles(by_version[live], by_version[wanted]))
    return by_version[wanted or live]


def _obstacles(live: Release, wanted: Release) -> list[str]:
    """Return why a release can't serve the deployed queues, which stay as they are."""
    way_out = "deploy its source again instead"
    problems = [
        f"version {wanted.version} was deployed with other {name}; {way_out}"
        for name in ("queues", "bell", "table", "outbox")
        if _document(live).get(name) != _document(wanted).get(name)
    ]
    if wanted.timeout > live.timeout:
        seconds = wanted.timeout.total_seconds()
        problems.append(
            f"version {wanted.version} has a function timeout of {seconds:.0f} s, and the visibility timeouts of the "
            f"queues are made for {live.timeout.total_seconds():.0f} s; {way_out}"
        )
    return problems


def _document(release: Release) -> Mapping[str, object]:
    found: Mapping[str, object] = json.loads(release.variables.get(VARIABLE, "{}"))
    return found


def _refuse(*problems: str) -> None:
    if problems:
        raise ConfigurationError(list(problems), source="rollback")
