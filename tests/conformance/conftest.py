"""The subjects of the conformance suite."""

import boto3
import pytest
from moto import mock_aws

from lanes.testing.clock import FakeClock
from lanes.testing.fifo.message import GroupOrder
from local.corrections import install
from local.corrections.sqs_queue import set_clock
from tests.conformance.subjects import BotoSubject, ModelSubject


@pytest.fixture
def clock():
    """A test clock that the corrected queues go by."""
    install()
    clock = FakeClock()
    set_clock(clock)
    yield clock
    set_clock(None)


@pytest.fixture
def corrected(clock):
    """A FIFO queue of corrected moto, in this process."""
    with mock_aws():
        yield BotoSubject(boto3.client("sqs"), clock)


@pytest.fixture
def high_throughput(clock):
    """A FIFO queue of corrected moto in high-throughput mode."""
    mode = {"DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}
    with mock_aws():
        yield BotoSubject(boto3.client("sqs"), clock, **mode)


@pytest.fixture(params=["model", "moto"])
def queue(request):
    """Each subject in turn."""
    if request.param == "moto":
        return request.getfixturevalue("corrected")
    return ModelSubject()


@pytest.fixture(params=["model-oldest", "model-back", "moto-oldest", "moto-back"])
def queue_of_order(request):
    """Each subject with each order of groups that has been observed or is the default."""
    subject, _, order = request.param.partition("-")
    if subject == "moto":
        return order, request.getfixturevalue("corrected" if order == "back" else "high_throughput")
    return order, ModelSubject(GroupOrder(order))
