"""
The consumer's asset: the user's function folder, this library and its pinned packages.

Owns ``consumer_code()``. Put together by pip and copies, without Docker. boto3 is left out, since the Lambda
runtime brings it.
"""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import jsii
from aws_cdk import AssetHashType, BundlingOptions, DockerImage, ILocalBundling
from aws_cdk import aws_lambda as lambda_

import lanes

RUNTIME = lambda_.Runtime.PYTHON_3_14
ARCHITECTURE = lambda_.Architecture.ARM_64

# The packages of the library in the function, complete, so that pip resolves nothing; equal to
# requirements.txt.
LIBRARY_REQUIREMENTS = ("aws-lambda-powertools==3.37.0", "jmespath==1.1.0", "typing-extensions==4.16.0")

# Wheels for the function's runtime, whatever machine bundles them.
WHEEL_OPTIONS = (
    "--platform=manylinux2014_aarch64",
    "--implementation=cp",
    "--python-version=3.14",
    "--only-binary=:all:",
)

# Bytecode of this machine's Python is of no use to the runtime's, and tests are never run there.
LEFT_OUT_NAMES = frozenset(
    {"__pycache__", "tests", ".venv", ".git", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
)
LEFT_OUT_SUFFIXES = frozenset({".pyc", ".pyo"})
INSTALLER_NOTES = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})


def consumer_code(folder: str | Path) -> lambda_.Code:
    """
    Bundle a function folder with this library.

    The folder's files land at the top of the asset. Packages that its ``requirements.txt`` lists, if there's
    one, are installed as wheels for the function's runtime (Python 3.14 on arm64). The same content gives the
    same asset, so nothing is deployed again until something changes: pin the requirements.

    Args:
        folder: The folder of the function, with the module that holds the Lambda handler.

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
        asset_hash=_content_hash(source),
        asset_hash_type=AssetHashType.CUSTOM,
        bundling=BundlingOptions(
            # Named because the option is required; never pulled, since the bundling below always succeeds or
            # raises.
            image=DockerImage.from_registry("not-used"),
            local=_LocalBundling(source),
        ),
    )


def bundle(source: Path, target: Path) -> None:
    """
    Write the asset's content.

    Args:
        source: The function folder.
        target: An existing empty folder.

    """
    _install(source, target)
    _copy(_library_folder(), target / lanes.__name__)
    _copy(source, target)


@jsii.implements(ILocalBundling)
class _LocalBundling:
    def __init__(self, source: Path) -> None:
        self._source = source

    def try_bundle(self, output_dir: str, *_options: object, **_more_options: object) -> bool:
        bundle(self._source, Path(output_dir))
        return True


def _install(source: Path, target: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-compile",
    ]
    command += [*WHEEL_OPTIONS, "--target", str(target), *LIBRARY_REQUIREMENTS]
    if (source / "requirements.txt").is_file():
        command += ["--requirement", str(source / "requirements.txt")]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode:
        raise RuntimeError(
            f"pip could not install the function's packages: {' '.join(command)}\n{outcome.stderr}"
        )
    shutil.rmtree(target / "bin", ignore_errors=True)
    for path in [*target.rglob("*.dist-info/*")]:
        if path.name in INSTALLER_NOTES:
            path.unlink()


def _copy(source: Path, target: Path) -> None:
    for file in _files(source):
        destination = target / file.relative_to(source)
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, destination)


def _content_hash(source: Path) -> str:
    digest = hashlib.sha256()
    for part in _parts(source):
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


def _parts(source: Path) -> Iterator[bytes]:
    """Give everything that decides the asset's content, in an order of its own."""
    yield from (text.encode() for text in (*LIBRARY_REQUIREMENTS, *WHEEL_OPTIONS))
    yield Path(__file__).read_bytes()
    for root in (_library_folder(), source):
        for file in _files(root):
            yield file.relative_to(root).as_posix().encode()
            yield file.read_bytes()


def _files(root: Path) -> Iterable[Path]:
    for path in sorted(root.rglob("*")):
        inner = path.relative_to(root)
        if path.is_file() and LEFT_OUT_NAMES.isdisjoint(inner.parts) and path.suffix not in LEFT_OUT_SUFFIXES:
            yield path


def _library_folder() -> Path:
    return Path(next(iter(lanes.__path__)))
