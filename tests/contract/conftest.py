"""The stores of the outbox."""

import pytest

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
