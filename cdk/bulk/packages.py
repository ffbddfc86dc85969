"""
The files of a Spark job: its entry point, this library, the jobs, and boto3 in a pinned version.

All of it is pure Python, so it runs on any architecture and bundling needs no Docker. Of the EMR image a job needs only
Spark and Python 3.11 or newer.
"""

import importlib.util
import shutil
from importlib import metadata
from pathlib import Path

from aws_cdk import AssetHashType
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

import lanes

from ..function.code import bundled_by

EXCLUDED_SUFFIXES = frozenset({".pyc", ".pyo"})
# boto3 and its requirements, in the installed versions, which requirements.txt pins.
LIBRARIES = ("boto3", "botocore", "jmespath", "python-dateutil", "s3transfer", "six", "urllib3")
# Services that jobs call and that give credentials; botocore's data of all others is left out.
SERVICES = frozenset({"s3", "sqs", "ssm", "sso", "sso-oidc", "sts"})


def job_packages(scope: Construct, construct_id: str) -> assets.Asset:
    """
    Bundle the packages as an archive that Spark unpacks beside the job.

    Args:
        scope: The parent of the asset.
        construct_id: The id in the parent.

    """
    return assets.Asset(
        scope,
        construct_id,
        path=str(jobs_folder()),
        asset_hash_type=AssetHashType.OUTPUT,
        bundling=bundled_by(bundle),
    )


def entry_point(scope: Construct, construct_id: str) -> assets.Asset:
    """Upload the program that starts the job."""
    return assets.Asset(scope, construct_id, path=str(jobs_folder() / "submit.py"))


def jobs_folder() -> Path:
    """
    Find the package with the jobs beside this one, without importing it: it needs Spark.

    Raises:
        FileNotFoundError: It is not installed.

    """
    package = __package__.partition(".")[0]
    name = "spark_jobs" if package == "cdk" else f"{package.removesuffix('cdk')}spark"
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise FileNotFoundError(
            f"the package {name} with the Spark jobs is not installed; install it beside {package}"
        )
    return Path(found.origin).parent


def bundle(target: Path) -> None:
    """Write the content of the archive into an existing empty folder."""
    _copy_folder(Path(next(iter(lanes.__path__))), target / lanes.__name__)
    _copy_folder(jobs_folder(), target / jobs_folder().name)
    for library in LIBRARIES:
        _copy_library(library, target)


def _copy_folder(source: Path, target: Path) -> None:
    for file in sorted(source.rglob("*")):
        if file.is_file() and file.suffix not in EXCLUDED_SUFFIXES and "__pycache__" not in file.parts:
            _copy_file(file, target / file.relative_to(source))


def _copy_library(name: str, target: Path) -> None:
    package = metadata.distribution(name)
    for file in package.files or ():
        service = file.parts[2] if file.parts[:2] == ("botocore", "data") and len(file.parts) > 3 else None  # noqa: PLR2004
        needed = service is None or service in SERVICES
        if needed and ".." not in file.parts and file.suffix not in EXCLUDED_SUFFIXES:
            installer_file = file.parent.suffix == ".dist-info" and file.name not in ("METADATA", "LICENSE")
            if not installer_file:
                _copy_file(Path(str(package.locate_file(file))), target / file)


def _copy_file(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
