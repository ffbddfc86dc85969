"""Every store of the outbox in turn."""

import itertools

import pytest
from moto import mock_aws

from lanes.testing.clock import FakeClock
from tests.support.outbox import DynamoDBSubject, SqlSubject
from tests.support.postgres import PostgresServer

STORES = ("sqlite", "postgresql", "dynamodb")
_numbers = itertools.count()


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL server of the tests' own."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def sqlite_subject(tmp_path):
    """A file of SQLite."""
    subject = SqlSubject(f"sqlite:///{tmp_path / 'outbox.db'}")
    yield subject
    subject.close()


@pytest.fixture
def postgresql_subject(postgres):
    """Tables of their own in the PostgreSQL server."""
    subject = SqlSubject(postgres.url, f"outbox_{next(_numbers)}")
    yield subject
    subject.close()


@pytest.fixture
def dynamodb_subject():
    """A table in moto's DynamoDB."""
    with mock_aws():
        yield DynamoDBSubject()


@pytest.fixture(params=STORES)
def subject(request):
    """Each store in turn."""
    return request.getfixturevalue(f"{request.param}_subject")


@pytest.fixture
def clock():
    """A clock that the test moves."""
    return FakeClock()
