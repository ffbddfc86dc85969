"""Names of this project that docstrings write in full exist."""

import pkgutil
import re

import pytest

from tests.docs.pages import ROOT

PACKAGES = ("lanes", "cdk", "local", "simulator", "spark_jobs")
NAME = re.compile(rf"`((?:{'|'.join(PACKAGES)})(?:\.\w+)+)`")
FILE = re.compile(r".*\.(toml|json)")


def named():
    """Give the full names with a file that has each."""
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    found = {name: path for path in files for name in NAME.findall(path.read_text(encoding="utf-8"))}
    return {name: path for name, path in found.items() if not FILE.fullmatch(name)}


def test_a_name_written_in_full_exists():
    """A reader who looks for it finds it."""
    for name, path in sorted(named().items()):
        try:
            pkgutil.resolve_name(name)
        except (ImportError, AttributeError) as error:
            pytest.fail(f"{path}: {error}")
