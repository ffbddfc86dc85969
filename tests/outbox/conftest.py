"""The stores."""

from tests.support.outbox_stores import (  # noqa: F401 - fixtures
    clock,
    dynamodb_subject,
    postgres,
    postgresql_subject,
    sqlite_subject,
    subject,
)
