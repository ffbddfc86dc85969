"""The engines, and the stores of the outbox."""

import pytest

from tests.support.memory import IN_PLACE
from tests.support.outbox import (  # noqa: F401 - fixtures
    bench,
    clock,
    dynamodb_subject,
    postgresql_subject,
    sqlite_subject,
    subject,
)


@pytest.fixture(scope="session", params=["mappings", "pull", IN_PLACE])
def engine(request):
    """Give the name of each engine: these promises are the same for both."""
    return request.param
