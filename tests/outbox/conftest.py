"""The stores of the outbox."""

from tests.support.outbox import (  # noqa: F401 - fixtures
    bench,
    clock,
    dynamodb_subject,
    postgresql_subject,
    sqlite_subject,
    subject,
)
