"""The `lanes` command where nothing answers for AWS."""

import pytest

from tests.support.command import Typed


@pytest.fixture(scope="session")
def typed():
    """The command within this process."""
    return Typed()
