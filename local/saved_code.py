"""
Saved files of an app: code runs in place at once, all else is deployed.

A function runs from its folder of the app, with the library as it is installed. A save restarts its process.
"""

import contextlib
import json
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePath
from typing import Any, Self

from lanes.cli.printing import say

from .deploy import INSTALLED, IS_CHECKOUT, CdkApp, DeployError, installed_names
from .function import SAVED_AGAIN, DeployedFunction, Place
from .platform import Platform
from .terminal import Terminal

_DEPLOYED = frozenset({"requirements.txt", "lanes.toml", "app.py", "cdk.json"})
"""Files that need a deploy, also in the folder of a function."""
_KIND = re.compile(rb"""handler\(\s*["']([^"']+)["']""")
_ENDING_SECONDS = 1.0
"""The time that invocations of earlier code get to end before a change is reported without them."""
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


class CodeFolder:
    """
    The folder of a function in its app, as it runs.

    Args:
        function: as deployed.
        folder: has the module of its handler at the top.
        kept: a folder for the last good code, which runs while the saved code can't be imported.
    """

    def __init__(self, function: DeployedFunction, folder: Path, *, kept: Path) -> None:
        self.function = function
        self.folder = folder
        self._kept = kept
        self._packages: tuple[Path, ...] = ()
        self._seen: Files | None = None
        self._good: dict[str, bytes] | None = None
        self._runs_here = False

    def take_packages(self, deployed: Path) -> None:
        """Run with the packages of a deploy; those of the library are the installed ones."""
        packages = self._kept.with_name(f"packages-{deployed.name}")
        packages.mkdir(parents=True, exist_ok=True)
        own = {path.name for path in self.folder.iterdir()} | {"lanes"}
        for path in deployed.iterdir():
            if path.name not in own:
                with contextlib.suppress(FileExistsError):
                    (packages / path.name).symlink_to(path)
        library = [installed_names(INSTALLED)] if IS_CHECKOUT else []
        found = (*library, packages)
        if found != self._packages:
            self._packages, self._seen, self._good = found, None, None

    def look(self) -> str | None:
        """Run what was saved since the last look; return the report, None if there is nothing to say."""
        files, before = Files.of(self.folder), self._seen
        if files == before:
            return None
        content = self._read()
        if content != self._good or not self._runs_here:
            place = Place(self.folder, self._packages, is_edited=True)
            fault = self.function.run_code(place, is_current=lambda: self._read() == content)
            if self._read() != content or fault == SAVED_AGAIN:
                # The next look is at what was saved meanwhile.
                return None
            self._seen = files
            changed = files.changed_since(before) if before else []
            return self._taken(content, changed) if fault is None else self._refused(fault, changed)
        self._seen = files
        return None

    def _taken(self, content: dict[str, bytes], changed: list[str]) -> str | None:
        self._good, self._runs_here = content, True
        if not changed:
            return None
        until = time.monotonic() + _ENDING_SECONDS
        while self.function.is_leaving and time.monotonic() < until:
            time.sleep(0.01)
        late = "; an invocation of its earlier code still runs" if self.function.is_leaving else ""
        return f"{', '.join(changed)}: live in {self.function.name} {self._since(changed):.1f} s after you saved{late}"

    def _since(self, changed: list[str]) -> float:
        """Return the seconds since the latest of these files was saved; one that is gone has no time."""
        stamps = Files.of(self.folder).stamps
        saved = [stamps[name][-1] / 1e9 for name in changed if name in stamps]
        return max(0.0, time.time() - max(saved, default=time.time()))

    def _refused(self, fault: str, changed: list[str]) -> str:
        self._go_on()
        names = ", ".join(changed) or str(self.folder)
        return f"{names}: not live, {self.function.name} runs its earlier code: {fault}"

    def _go_on(self) -> None:
        """Run the last good code from a folder of its own, since that of the app has other code."""
        if self._runs_here and self._good is not None:
            shutil.rmtree(self._kept, ignore_errors=True)
            for name, content in self._good.items():
                (self._kept / name).parent.mkdir(parents=True, exist_ok=True)
                (self._kept / name).write_bytes(content)
            self.function.run_code(Place(self._kept, self._packages, is_edited=True))
            self._runs_here = False

    def _read(self) -> dict[str, bytes]:
        found = {}
        for name in Files.of(self.folder).stamps:
            with contextlib.suppress(OSError):
                found[name] = (self.folder / name).read_bytes()
        return found

    @property
    def kinds(self) -> set[str]:
        """The kinds that its code names for handlers."""
        return {kind.decode() for content in (self._good or {}).values() for kind in _KIND.findall(content)}


class Changes:
    """
    Runs saved code in place, and deploys the app again when other files change; prints how long it took.

    Args:
        app: the app.
        platform: where it is deployed.
        terminal: shows the lines of its functions.
        directory: a folder for packages and earlier code.
    """

    def __init__(self, app: CdkApp, platform: Platform, terminal: Terminal, directory: Path) -> None:
        self._app = app
        self._platform = platform
        self._terminal = terminal
        self._directory = directory
        self._folders: dict[str, CodeFolder] = {}
        self._generations: dict[str, int] = {}
        self._deployed = Files(stamps={})
        self._deploy: threading.Thread | None = None

    def begin(self, deployed: Files) -> None:
        """Run the functions in place after the first deploy, of these files."""
        self._deployed = deployed
        self._take_deploy()

    def look(self) -> None:
        """Run and deploy what was saved since the last look; a deploy goes on meanwhile."""
        for code in self._folders.values():
            if report := code.look():
                say(report)
                self._take_code(code.function)
        if self._deploy is not None and self._deploy.is_alive():
            return
        if self._deploy is not None:
            self._deploy = None
            self._take_deploy()
        now = Files.of(self._app.directory)
        if changed := [name for name in now.changed_since(self._deployed) if not self._is_code(name)]:
            self._deploy = threading.Thread(target=self._run_deploy, args=(changed,), daemon=True)
            self._deploy.start()
        self._deployed = now

    def _is_code(self, name: str) -> bool:
        path = self._app.directory / name
        inside = any(path.is_relative_to(code.folder) for code in self._folders.values())
        return inside and path.name not in _DEPLOYED

    def _run_deploy(self, changed: list[str]) -> None:
        names, began = ", ".join(changed), time.monotonic()
        say(f"{names}: deploying ...")
        try:
            self._platform.deploy(self._app)
        except DeployError as error:
            say(f"{error}\nnot deployed: {names}; save a file to try again")
        else:
            say(f"{names}: deployed in {time.monotonic() - began:.1f} s")

    def _take_deploy(self) -> None:
        """Run each function in place, and start the others: one that can't start shows it now, not with a message."""
        functions, earlier = self._platform.functions, self._folders
        self._folders = {}
        for name, function in functions.items():
            code = earlier.get(name)
            if code is None or code.function is not function:
                code = self._find(function)
            generation = function.generation
            if code is not None:
                self._folders[name] = code
                code.take_packages(function.deployed_root)
                if report := code.look():
                    say(report)
            if generation == function.generation != self._generations.get(name):
                self._terminal.forget(name)
                if not function.start():
                    self._generations[name] = generation
            self._take_code(function)

    def _take_code(self, function: DeployedFunction) -> None:
        """Return the messages that earlier code of a function has failed on."""
        self._terminal.kinds = {kind for code in self._folders.values() for kind in code.kinds}
        if self._generations.get(function.name) != function.generation:
            self._generations[function.name] = function.generation
            self._terminal.forget(function.name)
            if given_back := self._platform.give_back_failed(function):
                say(f"{function.name}: messages of failed invocations that are visible again: {given_back}")

    def _find(self, function: DeployedFunction) -> CodeFolder | None:
        """Find the folder of a function: the one with the module of its handler and only files that it has deployed."""
        module = f"{function.settings.app_handler.rpartition('.')[0].replace('.', '/')}.py"
        if module.startswith("lanes/"):
            return None  # the relay: no app has its code
        deployed, found = function.task_root, []
        for name in Files.of(self._app.directory).stamps:
            path = self._app.directory / name
            if f"/{name}".endswith(f"/{module}"):
                folder = Path(str(path).removesuffix(module))
                modules = [one for one in Files.of(folder).stamps if one.endswith(".py")]
                missing = sum(not (deployed / one).exists() for one in modules)
                found.append((missing, not _same(path, deployed / module), folder))
        if not found:
            return None
        missing, differs, folder = min(found)
        # A file may have been saved since the deploy began; those of another function differ in more.
        if differs and (missing or len(found) > 1):
            return None
        return CodeFolder(function, folder, kept=self._directory / f"last-good-{function.name}")


def _same(one: Path, other: Path) -> bool:
    try:
        return one.read_bytes() == other.read_bytes()
    except OSError:
        return False
