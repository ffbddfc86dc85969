"""
What a Spark job brings along: its entry point, this library, the jobs, and boto3 in a pinned version.

Owns ``job_packages()``. All of it is pure Python, so it runs on any architecture and needs no Docker. What an EMR image
has is not relied upon, but for Spark itself and a Python of at least 3.11.
"""

import importlib.util
import shutil
from importlib import metadata
from pathlib import Path

import jsii
from aws_cdk import AssetHashType, BundlingOptions, DockerImage, ILocalBundling
from aws_cdk import aws_s3_assets as assets
from constructs import Construct

import lanes

LEFT_OUT_SUFFIXES = frozenset({".pyc", ".pyo"})
# boto3 with all that it needs; the versions are those installed here, which requirements.txt pins.
LIBRARIES = ("boto3", "botocore", "jmespath", "python-dateutil", "s3transfer", "six", "urllib3")
# Services that jobs call, and those that credentials come from; botocore's data of all others stays at home.
SERVICES = frozenset({"s3", "sqs", "ssm", "sso", "sso-oidc", "sts"})


def job_packages(scope: Construct, construct_id: str) -> assets.Asset:
    """
    Bundle the packages, as an archive that Spark unpacks beside the job.

    Args:
        scope: The construct that holds the asset.
        construct_id: Its id there.

    """
    return assets.Asset(
        scope,
        construct_id,
        path=str(jobs_folder()),
        asset_hash_type=AssetHashType.OUTPUT,
        bundling=BundlingOptions(image=DockerImage.from_registry("not-used"), local=_LocalBundling()),
    )


def entry_point(scope: Construct, construct_id: str) -> assets.Asset:
    """Take the program that starts a job by its name."""
    return assets.Asset(scope, construct_id, path=str(jobs_folder() / "submit.py"))


def jobs_folder() -> Path:
    """
    Find the package with the jobs, which is beside this one and is not imported: it needs Spark.

    Raises:
        FileNotFoundError: It isn't installed.

    """
    name = f"{__package__.removesuffix('cdk')}spark" if __package__ != "cdk" else "spark_jobs"
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None:
        raise FileNotFoundError(
            f"the package {name} with the Spark jobs isn't installed beside {__package__}"
        )
    return Path(found.origin).parent


def bundle(target: Path) -> None:
    """Write the archive's content into an existing empty folder."""
    _copy_folder(Path(next(iter(lanes.__path__))), target / lanes.__name__)
    _copy_folder(jobs_folder(), target / jobs_folder().name)
    for library in LIBRARIES:
        _copy_library(library, target)


@jsii.implements(ILocalBundling)
class _LocalBundling:
    def try_bundle(self, output_dir: str, *_options: object, **_more_options: object) -> bool:
        bundle(Path(output_dir))
        return True


def _copy_folder(source: Path, target: Path) -> None:
    for file in sorted(source.rglob("*")):
        if file.is_file() and file.suffix not in LEFT_OUT_SUFFIXES and "__pycache__" not in file.parts:
            _copy_file(file, target / file.relative_to(source))


def _copy_library(name: str, target: Path) -> None:
    package = metadata.distribution(name)
    for file in package.files or ():
        service = file.parts[2] if file.parts[:2] == ("botocore", "data") and len(file.parts) > 3 else None  # noqa: PLR2004
        wanted = service is None or service in SERVICES
        if wanted and ".." not in file.parts and file.suffix not in LEFT_OUT_SUFFIXES:
            notes = file.parent.suffix == ".dist-info" and file.name not in ("METADATA", "LICENSE")
            if not notes:
                _copy_file(Path(str(package.locate_file(file))), target / file)


def _copy_file(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
