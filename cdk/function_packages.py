"""
The packages in the consumer's asset: those of the library, pinned, and those that the function's folder asks for.

Owns ``install_packages()``. Only wheels for the function's runtime get in, whatever machine bundles them.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from lanes.config import Tracing

# What the library needs in the function, complete, so that nothing is resolved; the same as in requirements.txt.
# boto3 isn't among them: the Lambda runtime brings it.
LIBRARY_REQUIREMENTS = ("aws-lambda-powertools==3.37.0", "jmespath==1.1.0", "typing-extensions==4.16.0")

# What tracing by X-Ray needs as well. botocore, which the first requires, is the runtime's.
XRAY_REQUIREMENTS = ("aws-xray-sdk==2.15.0", "wrapt==2.5.2")

# Packages that run as plain Python too: their compiled part is left out, which serves one interpreter on one machine.
SPEEDUP_OPTIONAL = frozenset({"wrapt"})
COMPILED_SUFFIXES = frozenset({".so", ".pyd", ".c"})

WHEEL_OPTIONS = (
    "--platform=manylinux2014_aarch64",
    "--implementation=cp",
    "--python-version=3.14",
    "--only-binary=:all:",
)

INSTALLER_NOTES = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"})


def install_packages(target: Path, *, requirements_file: Path, tracing: Tracing = Tracing.OFF) -> None:
    """
    Put the packages into the asset.

    Pure Python packages that this environment has in the pinned version are copied, which needs no network; pip
    fetches the others.

    Args:
        target: The asset's folder.
        requirements_file: Further requirements; it need not exist.
        tracing: Who is to record traces, nobody by default.

    Raises:
        RuntimeError: pip failed; the message says how.

    """
    needed = (*LIBRARY_REQUIREMENTS, *(XRAY_REQUIREMENTS if tracing is Tracing.XRAY else ()))
    wanted = [requirement for requirement in needed if not _copied(requirement, target)]
    if requirements_file.is_file():
        wanted += ["--requirement", str(requirements_file)]
    if wanted:
        _fetch(wanted, target)
    for note in [path for path in target.glob("*.dist-info/*") if path.name in INSTALLER_NOTES]:
        note.unlink()


def _copied(requirement: str, target: Path) -> bool:
    name, _, version = requirement.partition("==")
    try:
        package = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    plain = "Tag: py3-none-any" in (package.read_text("WHEEL") or "")
    if package.version != version or not (plain or name in SPEEDUP_OPTIONAL):
        return False
    for file in package.files or ():
        # The notes of a package with compiled parts name the machine that they were compiled for.
        own = plain or (file.parts[0] == name and file.suffix not in COMPILED_SUFFIXES)
        if own and ".." not in file.parts and file.suffix != ".pyc":
            destination = target / file
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(package.locate_file(file)), destination)
    return True


def _fetch(wanted: Sequence[str], target: Path) -> None:
    options = [
        "--quiet",
        "--disable-pip-version-check",
        "--no-compile",
        *WHEEL_OPTIONS,
        "--target",
        str(target),
    ]
    command = [sys.executable, "-m", "pip", "install", *options, *wanted]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    if outcome.returncode:
        raise RuntimeError(
            f"pip could not install the function's packages: {' '.join(command)}\n{outcome.stderr}"
        )
    shutil.rmtree(target / "bin", ignore_errors=True)
