"""
The consumer's asset: the user's function folder, this library and its pinned packages.

Owns ``consumer_code()``. The asset is put together from copies, without Docker.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import jsii
from aws_cdk import AssetHashType, BundlingOptions, DockerImage, ILocalBundling
from aws_cdk import aws_lambda as lambda_

import lanes
from lanes.config import Tracing

from .function_packages import install_packages

RUNTIME = lambda_.Runtime.PYTHON_3_14
ARCHITECTURE = lambda_.Architecture.ARM_64

# Bytecode of this machine's Python is of no use to the runtime's, and tests are never run there.
LEFT_OUT_NAMES = frozenset(
    {"__pycache__", "tests", ".venv", ".git", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
)
LEFT_OUT_SUFFIXES = frozenset({".pyc", ".pyo"})
# Parts of the library that no function runs: for the tests of applications, and for operators' browsers.
ELSEWHERE = frozenset({"testing", "ui"})


def consumer_code(folder: str | Path, *, tracing: Tracing = Tracing.OFF) -> lambda_.Code:
    """
    Bundle a function folder with this library.

    The folder's files land at the top of the asset. Packages that its ``requirements.txt`` lists, if there's
    one, are installed as wheels for the function's runtime (Python 3.14 on arm64). The same content gives the
    same asset, so nothing is deployed again until something changes: pin the requirements.

    Args:
        folder: The folder of the function, with the module that holds the Lambda handler.
        tracing: Who is to record traces, as in the configuration's ``consumer.tracing``; the packages for it are added.
            Nobody by default.

    Returns:
        Code for :class:`PriorityConsumer`.

    Raises:
        FileNotFoundError: There's no such folder.

    """
    source = Path(folder).resolve()
    if not source.is_dir():
        raise FileNotFoundError(
            f"the function folder {source} doesn't exist; give the folder that holds handler.py"
        )
    return lambda_.Code.from_asset(
        str(source),
        # What is bundled decides, so that neither times nor folders of this machine make a new deployment.
        asset_hash_type=AssetHashType.OUTPUT,
        bundling=BundlingOptions(
            # A required option; never pulled, since the bundling below succeeds or raises.
            image=DockerImage.from_registry("not-used"),
            local=_LocalBundling(source, tracing),
        ),
    )


def bundle(source: Path, target: Path, *, tracing: Tracing = Tracing.OFF) -> None:
    """
    Write the asset's content.

    Args:
        source: The function folder.
        target: An existing empty folder.
        tracing: Who is to record traces, nobody by default.

    """
    install_packages(target, requirements_file=source / "requirements.txt", tracing=tracing)
    _copy(_library_folder(), target / lanes.__name__, without=ELSEWHERE)
    _copy(source, target)


@jsii.implements(ILocalBundling)
class _LocalBundling:
    def __init__(self, source: Path, tracing: Tracing) -> None:
        self._source = source
        self._tracing = tracing

    def try_bundle(self, output_dir: str, *_options: object, **_more_options: object) -> bool:
        bundle(self._source, Path(output_dir), tracing=self._tracing)
        return True


def _copy(source: Path, target: Path, *, without: frozenset[str] = frozenset()) -> None:
    for file in _files(source):
        if file.relative_to(source).parts[0] in without:
            continue
        destination = target / file.relative_to(source)
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, destination)


def _files(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        inner = path.relative_to(root)
        if path.is_file() and LEFT_OUT_NAMES.isdisjoint(inner.parts) and path.suffix not in LEFT_OUT_SUFFIXES:
            yield path


def _library_folder() -> Path:
    return Path(next(iter(lanes.__path__)))
