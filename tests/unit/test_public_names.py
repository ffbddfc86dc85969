"""What `import lanes` gives."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import lanes

ROOT = Path(__file__).parents[2]


def test_every_public_name_is_there():
    """Each is found in the module that the table says."""
    for name in lanes.__all__:
        assert getattr(lanes, name).__name__ == name
    assert set(lanes.__all__) <= set(dir(lanes))


def test_the_version_has_one_source():
    """The built package has the version that it states itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())

    assert re.fullmatch(r"\d+\.\d+\.\d+", lanes.__version__)
    assert "version" not in project["project"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "lanes.__version__"}


def test_every_package_is_typed_for_its_users():
    """Without its marker, a type checker takes an installed package for untyped."""
    built = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    packages = {name for name in built["packages"] if "." not in name}

    assert packages == {"lanes", "lanes_cdk", "lanes_local", "lanes_simulator", "lanes_spark"}
    for name in packages:
        assert (ROOT / built["package-dir"].get(name, name) / "py.typed").exists(), name


def test_a_name_that_is_not_there_fails_as_usual():
    """`hasattr` and `from lanes import` rely on it."""
    with pytest.raises(AttributeError, match="Tier"):
        lanes.Tier  # noqa: B018 - reading it is the point


def test_importing_the_producer_loads_no_aws_library():
    """boto3 costs a quarter of a second; it is loaded when a client is made."""
    code = "import sys; from lanes import *; sys.exit('boto3' in sys.modules or 'botocore' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
