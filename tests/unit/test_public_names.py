"""What `import lanes` gives."""

import subprocess
import sys
from pathlib import Path

import pytest

import lanes

ROOT = Path(__file__).parents[2]


def test_every_public_name_is_there():
    """Each is found in the module that the table says."""
    for name in lanes.__all__:
        assert getattr(lanes, name).__name__ == name
    assert set(lanes.__all__) <= set(dir(lanes))


def test_a_name_that_is_not_there_fails_as_usual():
    """`hasattr` and `from lanes import` rely on it."""
    with pytest.raises(AttributeError, match="Tier"):
        lanes.Tier  # noqa: B018 - reading it is the point


def test_importing_the_producer_loads_no_aws_library():
    """boto3 costs a quarter of a second; it is loaded when a client is made."""
    code = "import sys; from lanes import *; sys.exit('boto3' in sys.modules or 'botocore' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
