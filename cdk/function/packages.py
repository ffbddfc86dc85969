"""
The packages in a function's asset: the pinned ones of the library, and the requirements of your folder.

Only pure Python and wheels for the function's runtime are installed, on any machine.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

# All requirements of the library in the function, as in requirements.txt, so that pip resolves nothing. The Lambda
# runtime brings boto3.
LIBRARY_REQUIREMENTS = ("aws-lambda-powertools==3.37.0", "jmespath==1.1.0", "typing-extensions==4.16.0")

WHEEL_OPTIONS = (
    "--platform=manylinux2014_aarch64",
    "--implementation=cp",
    "--python-version=3.14",
    "--only-binary=:all:",
)

INSTALLER_FILES = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})


def install_packages(target: Path, *, requirements_file: Path) -> None:
    """
    Install the packages into the asset.

    Pure Python packages that this environment has in the pinned version are copied, which needs no network; pip
    fetches the others.

    Args:
        target: The folder of the asset.
        requirements_file: More requirements; the file may be missing.

    Raises:
        RuntimeError: pip failed; the message has its output.

    """
    missing = [requirement for requirement in LIBRARY_REQUIREMENTS if not _copied(requirement, target)]
    if requirements_file.is_file():
        missing += ["--requirement", str(requirements_file)]
    if missing:
        _fetch(missing, target)
    for file in [path for path in target.glob("*.dist-info/*") if path.name in INSTALLER_FILES]:
        file.unlink()


def _copied(requirement: str, target: Path) -> bool:
    name, _, version = requirement.partition("==")
    try:
        package = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    is_pure = "Tag: py3-none-any" in (package.read_text("WHEEL") or "")
    if package.version != version or not is_pure:
        return False
    for file in package.files or ():
        if ".." not in file.parts and file.suffix != ".pyc":
            destination = target / file
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(package.locate_file(file)), destination)
    return True


def _fetch(requirements: Sequence[str], target: Path) -> None:
    options = [
        "--quiet",
        "--disable-pip-version-check",
        "--no-compile",
        *WHEEL_OPTIONS,
        "--target",
        str(target),
    ]
    command = [sys.executable, "-m", "pip", "install", *options, *requirements]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode:
        raise RuntimeError(
            f"pip could not install the packages of the function: {' '.join(command)}\n{outcome.stderr}"
        )
    shutil.rmtree(target / "bin", ignore_errors=True)
