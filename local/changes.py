"""Changes of an app's files: those that `cdk watch` would see."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePath
from typing import Any, Self

# Results of deploys and of tools, none of which an app is made of.
_NEVER = ("build", "cdk.out", "__pycache__", "node_modules", "*.egg-info")


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """
    The files of a folder as they are on the disk: size, number and time of their last change, by their path in it.

    `cdk.json` chooses them by `include` and `exclude` in `watch`; without them all files count, except hidden ones
    and results.
    """

    stamps: dict[str, tuple[int, int, int]]

    @classmethod
    def of(cls, app: Path) -> Self:
        """Read the state of the files now."""
        include, exclude = _chosen(app)
        found: dict[str, tuple[int, int, int]] = {}
        for path in _walk(app, exclude):
            name = path.relative_to(app).as_posix()
            if any(fnmatch(name, pattern) for pattern in include):
                try:
                    state = path.stat()
                except FileNotFoundError:
                    continue  # an editor replaces files
                found[name] = state.st_size, state.st_ino, state.st_mtime_ns
        return cls(stamps=found)

    def changed_since(self, earlier: Self) -> list[str]:
        """Return the names of files that are new, changed or gone."""
        return sorted(
            name
            for name in self.stamps.keys() | earlier.stamps.keys()
            if self.stamps.get(name) != earlier.stamps.get(name)
        )


def _chosen(app: Path) -> tuple[list[str], list[str]]:
    try:
        watch: dict[str, Any] = json.loads((app / "cdk.json").read_text()).get("watch", {})
    except (OSError, ValueError):
        return ["*"], []  # someone writes it just now; the deploy will explain the mistake
    return _patterns(watch.get("include", "*")), _patterns(watch.get("exclude", []))


def _patterns(value: str | list[str]) -> list[str]:
    # "**/name" means any depth, which includes the top.
    given = [value] if isinstance(value, str) else value
    return [*given, *(pattern.removeprefix("**/") for pattern in given if pattern.startswith("**/"))]


def _walk(app: Path, exclude: list[str]) -> Iterator[Path]:
    for folder, folders, files in os.walk(app):
        here = PurePath(folder).relative_to(app)
        folders[:] = [name for name in folders if not _left_out(here, name, exclude)]
        yield from (Path(folder, name) for name in files if not _left_out(here, name, exclude))


def _left_out(folder: PurePath, name: str, exclude: list[str]) -> bool:
    path = (folder / name).as_posix()
    return (
        name.startswith(".")
        or any(fnmatch(name, pattern) for pattern in _NEVER)
        or any(fnmatch(path, pattern) for pattern in exclude)
    )
