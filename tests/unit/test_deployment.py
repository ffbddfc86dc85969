"""The document that says where the lanes of a deployment are."""

import json

import pytest

from lanes.config import LanesConfig
from lanes.deployment import Deployment, LaneQueues
from lanes.errors import ConfigurationError

URL = "https://sqs.eu-central-1.amazonaws.com/123456789012/PriorityLanes-demo-Lanes{}Queue1A2B3C4D-{}.fifo"


def make_deployment(config=None):
    """Give a deployment of these lanes."""
    config = config or LanesConfig()
    queues = {
        lane.name: LaneQueues(
            url=URL.format(lane.name, "AAAAAAAAAAAA"), dead_letter_url=URL.format(lane.name, "DDDDDDDDDDDD")
        )
        for lane in config.lanes
    }
    return Deployment(config=config, queues=queues, table="ledger")


def test_a_deployment_reads_back_as_it_was_written():
    """Function and producers see what was deployed."""
    deployment = make_deployment()

    assert deployment == Deployment.from_json(deployment.to_json())
    assert deployment == Deployment.from_env({"LANES_DEPLOYMENT": deployment.to_json()})


def test_seven_lanes_fit_into_the_environment_of_a_function():
    """A function's variables hold 4 KB in all, as does a standard parameter."""
    lanes = [{"name": f"LANE{place}", "threshold": -place, "max_wait": "15m"} for place in range(7)]

    text = make_deployment(LanesConfig.from_dict({"lanes": lanes})).to_json()

    assert len(text) < 3600


@pytest.mark.parametrize(
    "address",
    [
        URL.format("MAIN", "AAAAAAAAAAAA"),
        "PriorityLanes-demo-LanesMAINQueue1A2B3C4D-AAAAAAAAAAAA.fifo",
        "arn:aws:sqs:eu-central-1:123456789012:PriorityLanes-demo-LanesMAINQueue1A2B3C4D-AAAAAAAAAAAA.fifo",
    ],
)
def test_a_lane_is_found_by_any_form_of_its_queues_address(address):
    """Events name queues by ARN, people by name or URL."""
    assert make_deployment().lane_of_queue(address).name == "MAIN"


def test_a_strange_queue_is_no_lane():
    """A dead-letter queue is none of the lanes either."""
    with pytest.raises(KeyError, match="no lane of this deployment"):
        make_deployment().lane_of_queue(URL.format("MAIN", "DDDDDDDDDDDD"))


def test_a_missing_variable_is_named():
    """The error says what to set."""
    with pytest.raises(ConfigurationError, match="LANES_DEPLOYMENT"):
        Deployment.from_env({})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not a JSON document"),
        ("[]", "version"),
        ('{"version": 2}', "version 2 can't be read"),
        ('{"version": 1}', "HIGH has no url"),
        ('{"version": 1, "queues": []}', "table is missing"),
        ('{"version": 1, "config": {"lanes": 1}}', "list of tables"),
        ('{"version": 1, "config": 5}', "a table is needed"),
        ('{"version": 1, "queues": {"LOW": {}}}', "LOW is no lane"),
    ],
)
def test_a_document_that_is_incomplete_says_what_is_missing(text, problem):
    """All of it at once, as for the configuration."""
    with pytest.raises(ConfigurationError, match=problem):
        Deployment.from_json(text)


def test_the_document_is_plain_json():
    """Producers in other languages read it too."""
    document = json.loads(make_deployment().to_json())

    assert {"version", "config", "queues", "table"} == set(document)
    assert {"url", "dead_letter_url"} == set(document["queues"]["HIGH"])
