"""Clients of boto3 as this library makes them."""

import pytest

from lanes import ConfigurationError, Producer


def test_a_missing_region_says_what_to_do(monkeypatch):
    """A producer without a region gets no bare error of botocore."""
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.delenv("AWS_DEFAULT_REGION")

    with pytest.raises(ConfigurationError, match=r"no AWS region is known.*AWS_REGION"):
        Producer.from_stack("PriorityLanes")
