"""Clients of boto3 as this library makes them."""

import boto3
import pytest

from lanes import ConfigurationError, Producer
from lanes.aws.clients import Clients


def test_a_missing_region_says_what_to_do(monkeypatch):
    """A producer without a region gets one short error in place of botocore's, also if it is meant for this machine."""
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION")

    with pytest.raises(ConfigurationError, match=r"no AWS region is known.*`lanes local run`") as found:
        Producer.from_stack("PriorityLanes")
    assert found.value.__suppress_context__


def test_the_variable_that_other_sdks_read_names_the_region_too(monkeypatch):
    """boto3 itself knows AWS_DEFAULT_REGION only, and the advice names both."""
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    monkeypatch.delenv("AWS_DEFAULT_REGION")

    assert Clients().sqs().meta.region_name == "eu-west-3"


def test_a_region_that_was_given_goes_before_that_of_the_environment(monkeypatch):
    """As does that of a session."""
    monkeypatch.setenv("AWS_REGION", "eu-west-3")

    assert Clients(region="eu-west-1").sqs().meta.region_name == "eu-west-1"
    session = boto3.Session(region_name="eu-west-2")
    assert Clients(session=session).sqs().meta.region_name == "eu-west-2"


def test_an_endpoint_that_is_no_address_is_told_in_words():
    """The SDK raises a bare ValueError."""
    with pytest.raises(ConfigurationError, match=r"Invalid endpoint: nowhere; an address such as http://"):
        Clients(region="eu-west-1", endpoint_url="nowhere").sqs()


def test_a_missing_file_of_certificates_is_named(monkeypatch, tmp_path):
    """Before any call; an address without TLS needs none."""
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "none.pem"))

    with pytest.raises(ConfigurationError, match=r"certificates '.*none\.pem' is missing; AWS_CA_BUNDLE"):
        Clients(region="eu-central-1").sqs()
    assert Clients(region="eu-central-1", endpoint_url="http://127.0.0.1:1").sqs()
