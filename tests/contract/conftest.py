"""The engines, and the stores of the outbox."""

import pytest

from tests.support.memory import IN_PLACE
from tests.support.outbox_bench import Bench
from tests.support.outbox_stores import (  # noqa: F401 - fixtures
    clock,
    dynamodb_subject,
    postgres,
    postgresql_subject,
    sqlite_subject,
    subject,
)


@pytest.fixture
def bench(subject, clock):  # noqa: F811 - the fixtures above
    """A store to work on."""
    return Bench(subject, clock)


@pytest.fixture(scope="session", params=["mappings", "pull", IN_PLACE])
def engine(request):
    """Give the name of each engine: these promises are the same for both."""
    return request.param
