"""
The assets of functions: your function folder, this library and its pinned packages.

An asset is assembled from copies, so bundling needs no Docker.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import jsii
from aws_cdk import AssetHashType, BundlingOptions, DockerImage, ILocalBundling
from aws_cdk import aws_lambda as lambda_

import lanes

from .packages import install_packages

# The runtime cannot use the bytecode of this machine's Python, and never runs tests.
EXCLUDED_NAMES = frozenset(
    {"__pycache__", "tests", ".venv", ".git", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
)
EXCLUDED_SUFFIXES = frozenset({".pyc", ".pyo"})
# Parts of the library that no function runs: for the tests of applications, operators' browsers, and measurements.
NOT_IN_FUNCTIONS = frozenset({"probe", "testing", "ui"})


def consumer_code(folder: str | Path) -> lambda_.Code:
    """
    Bundle a function folder with this library.

    The files of your folder are at the top of the asset. Packages in its ``requirements.txt``, if there is one, are
    installed as wheels for the function's runtime (Python 3.14 on arm64). The same content gives the same asset, so
    Lambda gets a new version only when something changed: pin your requirements.

    Args:
        folder: The folder with the module of your Lambda handler.

    Returns:
        Code for :class:`PriorityConsumer`.

    Raises:
        FileNotFoundError: There is no such folder.

    """
    source = Path(folder).resolve()
    if not source.is_dir():
        raise FileNotFoundError(
            f"the function folder {source} doesn't exist; give the folder that holds handler.py"
        )
    return lambda_.Code.from_asset(
        str(source),
        # The hash of the output, so that file times and paths of this machine do not cause a deployment.
        asset_hash_type=AssetHashType.OUTPUT,
        bundling=BundlingOptions(
            # A required option; never pulled, since the local bundling succeeds or raises.
            image=DockerImage.from_registry("not-used"),
            local=_LocalBundling(source),
        ),
    )


def bundle(source: Path, target: Path) -> None:
    """
    Write the content of the asset.

    Args:
        source: The function folder.
        target: An existing empty folder.

    """
    install_packages(target, requirements_file=source / "requirements.txt")
    _copy(Path(next(iter(lanes.__path__))), target / lanes.__name__, without=NOT_IN_FUNCTIONS)
    _copy(source, target)


@jsii.implements(ILocalBundling)
class _LocalBundling:
    def __init__(self, source: Path) -> None:
        self._source = source

    def try_bundle(self, output_dir: str, *_options: object, **_more_options: object) -> bool:
        bundle(self._source, Path(output_dir))
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
        if path.is_file() and EXCLUDED_NAMES.isdisjoint(inner.parts) and path.suffix not in EXCLUDED_SUFFIXES:
            yield path
