"""
The packages in a function's asset: the pinned ones of the library, and the requirements of your folder.

Only pure Python and wheels for the function's runtime are installed, on any machine.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import metadata, util
from pathlib import Path

# All requirements of the library in the function, as in requirements.txt, so that nothing is resolved where your folder
# has no requirements. The Lambda runtime brings boto3.
LIBRARY_REQUIREMENTS = ("aws-lambda-powertools==3.37.0", "jmespath==1.1.0", "typing-extensions==4.16.0")
LIBRARY_RANGES = (
    "aws-lambda-powertools>=3.20,<4",
    "jmespath>=1.0.1,<2",
    "typing-extensions>=4.11,<5",
    "msgspec>=0.20,<1",
)
"""The versions that the library works with; your requirements may ask for another one within them."""
READER = "msgspec==0.22.0"
"""Reads the data of handlers that name its type; the only package with native code."""
HASHES = {
    "aws-lambda-powertools==3.37.0": "92df3f790851a30cfb5ed45ff8e11f2de9b74e60aed0169d2a6b6da2362b45fb",
    "jmespath==1.1.0": "a5663118de4908c91729bea0acadca56526eb2698e83de10cd116ae0f4e97c64",
    "typing-extensions==4.16.0": "481caa481374e813c1b176ada14e97f1f67a4539ce9cfeb3f350d78d6370c2e8",
    "msgspec==0.22.0": "f039ef5207b847f075a0a43020ee6140cd47505f890e47e157f2deb485c2dc96",
}
"""SHA-256 of the wheels of these, as in requirements.txt: another file of an index is refused."""

PYTHON = "3.14"
MACHINE = "aarch64"
# AWS: the runtime is based on Amazon Linux 2023 (Lambda developer guide, "Lambda runtimes"), which has glibc 2.34. pip
# takes each platform literally, so that all older ones have to be named.
PLATFORMS = tuple(
    f"{name}_{MACHINE}"
    for name in (*(f"manylinux_2_{minor}" for minor in range(34, 16, -1)), "manylinux2014")
)
INSTALLER_FILES = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json"})
# Where packages come from is the business of a machine; how they are installed is ours. PIP_USER, PIP_TARGET and their
# like would put them elsewhere.
SOURCES = frozenset(
    {
        "PIP_CERT",
        "PIP_CLIENT_CERT",
        "PIP_CONFIG_FILE",
        "PIP_CACHE_DIR",
        "PIP_DEFAULT_TIMEOUT",
        "PIP_EXTRA_INDEX_URL",
        "PIP_FIND_LINKS",
        "PIP_INDEX_URL",
        "PIP_KEYRING_PROVIDER",
        "PIP_NO_INDEX",
        "PIP_PROXY",
        "PIP_RETRIES",
        "PIP_TIMEOUT",
        "PIP_TRUSTED_HOST",
    }
)


def install_packages(target: Path, *, requirements_file: Path | None = None) -> None:
    """
    Install the packages into the asset, in one resolution with the requirements of your folder.

    Pure Python packages that this environment has in the pinned version are copied, which needs no network; pip, or uv
    in an environment without pip, fetches the others.

    Args:
        target: The folder of the asset.
        requirements_file: More requirements, none by default; the file may be missing. Paths in it are relative to its
            folder.

    Raises:
        RuntimeError: The packages can't be installed; the message has the installer's output.

    """
    here = [one for one in LIBRARY_REQUIREMENTS if _is_here(one)]
    wanted = [one for one in LIBRARY_REQUIREMENTS if one not in here]
    if requirements_file is not None and requirements_file.is_file():
        ranges = [_range_of(one) for one in wanted]
        _fetch([*ranges, "--requirement", str(requirements_file)], target, folder=requirements_file.parent)
    elif wanted:
        _fetch_pinned(wanted, target)
    installed = {_key(one.name) for one in metadata.distributions(path=[str(target)])}
    for requirement in here:
        if _key(requirement.partition("==")[0]) not in installed:
            _copy(requirement, target)
    _check_platforms(target)
    for file in [path for path in target.glob("*.dist-info/*") if path.name in INSTALLER_FILES]:
        file.unlink()


def install_reader(target: Path) -> None:
    """
    Install the reader of typed data into the asset, if your requirements have not.

    It is fetched once for each user of this machine and then copied, so that only the first synthesis needs a network.

    Raises:
        RuntimeError: It can't be installed.

    """
    if any(target.glob(f"{READER.partition('==')[0]}-*.dist-info")):
        return
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "priority-lanes")
    kept = source = caches / f"{READER}-cp{PYTHON}-{MACHINE}"
    with tempfile.TemporaryDirectory() as scratch:
        if not kept.is_dir():
            source = Path(scratch, "fetched")
            _fetch_pinned([READER], source)
            _check_platforms(source)
            # Another synthesis may have been faster, and in many a container the home folder can't be written.
            with contextlib.suppress(OSError):
                caches.mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryDirectory(dir=caches) as beside:
                    shutil.copytree(source, Path(beside, "fetched")).rename(kept)
        shutil.copytree(
            source, target, dirs_exist_ok=True, ignore=lambda _, names: INSTALLER_FILES & {*names}
        )


def _key(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _range_of(requirement: str) -> str:
    name = requirement.partition("==")[0]
    return next((one for one in LIBRARY_RANGES if one.startswith(f"{name}>")), requirement)


def _is_here(requirement: str) -> bool:
    """Whether this environment has a requirement, in pure Python."""
    name, _, version = requirement.partition("==")
    try:
        package = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return package.version == version and "Tag: py3-none-any" in (package.read_text("WHEEL") or "")


def _copy(requirement: str, target: Path) -> None:
    package = metadata.distribution(requirement.partition("==")[0])
    for file in package.files or ():
        if ".." not in file.parts and file.suffix != ".pyc":
            destination = target / file
            destination.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(str(package.locate_file(file)), destination)


def _fetch_pinned(requirements: Sequence[str], target: Path) -> None:
    """Fetch packages of ours by their hashes, and none that they need."""
    with tempfile.TemporaryDirectory() as scratch:
        lock = Path(scratch, "lock.txt")
        lock.write_text("\n".join(f"{one} --hash=sha256:{HASHES[one]}" for one in requirements))
        arguments = ["--no-deps", "--require-hashes", "--requirement", str(lock)]
        _install(arguments, target, folder=Path(scratch), named=requirements)


def _fetch(requirements: Sequence[str], target: Path, *, folder: Path) -> None:
    """Fetch packages with those that they need, in the versions that lanes works with."""
    with tempfile.TemporaryDirectory() as scratch:
        ranges = Path(scratch, "versions-that-lanes-works-with.txt")
        ranges.write_text("\n".join(LIBRARY_RANGES))
        arguments = [f"--constraint={ranges}", *requirements]
        _install(arguments, target, folder=folder, named=requirements)


def _install(arguments: Sequence[str], target: Path, *, folder: Path, named: Sequence[str]) -> None:
    options = ["--only-binary=:all:", f"--python-version={PYTHON}", f"--target={target}"]
    outcome = subprocess.run(
        # Paths in a requirements file count from the current folder.
        [*_installer(), *options, *arguments],
        cwd=folder,
        env=_environment(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    if outcome.returncode:
        raise RuntimeError(
            f"the packages of the function could not be installed: {' '.join(named)}\n"
            f"{outcome.stdout}{outcome.stderr}\n"
            f"Only wheels for Python {PYTHON} on Linux {MACHINE} and pure Python can be installed, in the versions "
            f"that lanes works with: {', '.join(LIBRARY_RANGES)}. If your requirements have hashes, they need these "
            "packages too."
        )
    shutil.rmtree(target / "bin", ignore_errors=True)


def _installer() -> list[str]:
    """Return the command that installs packages for the function's platform."""
    if util.find_spec("pip") is not None:
        platforms = [f"--platform={platform}" for platform in PLATFORMS]
        # Conflicts with packages of this environment, for which pip would read all of them, mean nothing in the asset.
        quick = ["--disable-pip-version-check", "--no-compile", "--no-warn-conflicts"]
        return [sys.executable, "-m", "pip", "install", *quick, "--implementation=cp", *platforms]
    if (uv := shutil.which("uv")) is not None:
        return [
            uv,
            "pip",
            "install",
            f"--python-platform={MACHINE}-{PLATFORMS[0].removesuffix(f'_{MACHINE}')}",
        ]
    raise RuntimeError(
        f"{sys.executable} has no pip, and there is no uv: install one of them to bundle the function's packages, "
        "for example by 'python -m ensurepip'"
    )


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the installer: without options that put packages elsewhere, also from pip.conf."""
    kept = {
        name: value for name, value in variables.items() if not name.startswith("PIP_") or name in SOURCES
    }
    return kept | {"PIP_USER": "0", "PIP_REQUIRE_VIRTUALENV": "0"}


def _check_platforms(target: Path) -> None:
    """
    Refuse a package that was built on this machine, from a folder in your requirements, for this machine.

    Raises:
        RuntimeError: The function could not load it.

    """
    for wheel in target.glob("*.dist-info/WHEEL"):
        tags = [
            line.partition(":")[2].strip()
            for line in wheel.read_text().splitlines()
            if line.startswith("Tag:")
        ]
        if tags and not any(
            platform in ("any", *PLATFORMS) for tag in tags for platform in _platforms_of(tag)
        ):
            package = wheel.parent.name.removesuffix(".dist-info")
            raise RuntimeError(
                f"{package} is built for {', '.join(tags)}, and the function runs on Linux {MACHINE} with Python "
                f"{PYTHON}: put a wheel for {PLATFORMS[0]} into your requirements"
            )


def _platforms_of(tag: str) -> list[str]:
    return tag.rpartition("-")[2].split(".")
