"""
Changed code of a function, run before its deploy is through.

A deploy takes seconds, most of them for the synthesis. Until it ends the function runs its deployed code with the
changed files of its folder; then it runs the deployed code again, which is the same.
"""

import itertools
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from .function import DeployedFunction

_PACKAGES = "requirements.txt"


class LiveCode:
    """
    Runs changed files of the functions of one app.

    Args:
        app: the folder of the app.
        directory: where the code lies.
    """

    def __init__(self, app: Path, directory: Path) -> None:
        self._app = app
        self._directory = directory
        self._numbers = itertools.count()
        self._folders: list[tuple[DeployedFunction, Path, Path]] = []

    def find(self, functions: Mapping[str, DeployedFunction], files: Iterable[str]) -> None:
        """Find the folder of each function after a deploy: the one with the module of its handler, as deployed."""
        names = list(files)
        self._folders = []
        for function in functions.values():
            module = f"{function.settings.handler.rpartition('.')[0].replace('.', '/')}.py"
            deployed = function.task_root / module
            for name in names:
                path = self._app / name
                if f"/{name}".endswith(f"/{module}") and _same(path, deployed):
                    folder = Path(str(path).removesuffix(module))
                    self._folders.append((function, folder, function.task_root))
                    break

    def run(self, changed: Sequence[str]) -> dict[str, str | None]:
        """
        Run the changed files in the functions of their folders.

        A change of its requirements needs pip, so its function waits for the deploy.

        Returns:
            Why the code can't be imported, None if it runs, by the name of each function.
        """
        faults = {}
        for function, folder, task_root in self._folders:
            inside = [self._app / name for name in changed if (self._app / name).is_relative_to(folder)]
            if inside and not any(path.name == _PACKAGES for path in inside):
                faults[function.name] = function.run_code(self._copy(task_root, folder))
        return faults

    def is_all(self, changed: Iterable[str]) -> bool:
        """Whether the changed files are all in folders of functions, so that a deploy has nothing else to change."""
        folders = [folder for _, folder, _ in self._folders]
        return all(any((self._app / name).is_relative_to(folder) for folder in folders) for name in changed)

    def _copy(self, task_root: Path, folder: Path) -> Path:
        """Return a new folder with the deployed code and the files of the function's folder as they are now."""
        target = self._directory / f"live-{os.getpid()}-{next(self._numbers)}"
        shutil.copytree(task_root, target, copy_function=os.link)
        for path in folder.rglob("*"):
            inside = path.relative_to(folder)
            if path.is_file() and "__pycache__" not in inside.parts:
                copy = target / inside
                copy.parent.mkdir(parents=True, exist_ok=True)
                # Linked, it is the deployed file as well.
                copy.unlink(missing_ok=True)
                shutil.copyfile(path, copy)
        return target


def _same(one: Path, other: Path) -> bool:
    try:
        return one.read_bytes() == other.read_bytes()
    except OSError:
        return False
