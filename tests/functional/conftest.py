"""Empty accounts of AWS as corrected moto plays it."""

import boto3
import pytest
from moto import mock_aws

from local import corrections
from tests.support.operating import create_table


@pytest.fixture
def aws_account():
    """Start with an empty account."""
    corrections.install()
    with mock_aws():
        yield


@pytest.fixture
def sqs(aws_account):
    """Return a client of an empty account."""
    return boto3.client("sqs")


@pytest.fixture
def dynamodb(aws_account):
    """Return a client of an empty account with the consumer's table."""
    create_table()
    return boto3.client("dynamodb")
