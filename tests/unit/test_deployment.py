"""The document that says where the lanes of a deployment are."""

from dataclasses import replace

import pytest

from lanes.config import LanesConfig
from lanes.config.deployment import Deployment, LaneQueues
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
    return Deployment(config=config, queues=queues, table="ledger", bell=URL.format("Bell", "BBBBBBBBBBBB"))


@pytest.mark.parametrize(
    "raw",
    [
        {},
        {"enabled": False},
        {"consumer": {"reserved_concurrency": 12}},
        {"consumer": {"reserved_concurrency": 12, "recheck_interval": 0.5}},
        {"consumer": {"function_timeout": 60, "record_time": 1.5, "on_exhausted": {"pay.*": "block"}}},
        {"lanes": [{"name": "ONLY", "threshold": 7, "visibility_timeout": 181, "max_wait": 60}]},
        {
            "consumer": {"engine": "pull"},
            "lanes": [{"name": "A", "threshold": -1, "tenant_share": 0.5}, {"name": "B"}],
        },
        {"lanes": [{"name": "A", "maximum_concurrency": 9, "batch_size": 1, "yield_delay_max": 20}]},
        {"outbox": {"enabled": True, "lane_window": 5}},
        {"consumer": {"engine": "pull", "linger": 2, "max_rate": "90/min", "max_rates": {"mail": 3}}},
        {
            "consumer": {"engine": "pull", "policy": "weighted"},
            "lanes": [{"name": "A", "threshold": 0, "weight": 2.5}, {"name": "B"}],
        },
    ],
    ids=str,
)
def test_a_deployment_reads_back_as_it_was_written(raw):
    """Function and producers see what was deployed, also what the document leaves out because it is as usual."""
    deployment = make_deployment(LanesConfig.from_dict(raw))

    assert deployment == Deployment.from_json(deployment.to_json())
    assert deployment == Deployment.from_env({"LANES_DEPLOYMENT": deployment.to_json()})


def test_seven_lanes_fit_into_the_environment_of_a_function():
    """A function's variables hold 4 KB in all, as does a standard parameter: most of it is addresses."""
    lanes = [{"name": f"LANE{place}", "threshold": -place, "max_wait": "15m"} for place in range(7)]

    text = make_deployment(LanesConfig.from_dict({"lanes": lanes})).to_json()

    assert len(text) < 2600


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


@pytest.mark.parametrize(
    "address",
    [
        URL.format("Bell", "BBBBBBBBBBBB"),
        "PriorityLanes-demo-LanesBellQueue1A2B3C4D-BBBBBBBBBBBB.fifo",
        "arn:aws:sqs:eu-central-1:123456789012:PriorityLanes-demo-LanesBellQueue1A2B3C4D-BBBBBBBBBBBB.fifo",
    ],
)
def test_the_bell_is_found_by_any_form_of_its_address(address):
    """An event of the bell is no batch of a lane."""
    deployment = make_deployment()

    assert deployment.is_bell(address)
    assert not replace(deployment, bell=None).is_bell(address)
    with pytest.raises(ConfigurationError):
        deployment.lane_of_queue(address)


def test_the_pull_engine_needs_a_bell():
    """Nothing else would start an invocation."""
    silent = replace(make_deployment(LanesConfig.from_dict({"consumer": {"engine": "pull"}})), bell=None)

    with pytest.raises(ConfigurationError, match=r'bell is missing: with engine = "pull"'):
        Deployment.from_json(silent.to_json())


def test_a_missing_variable_is_named():
    """The error says what to set."""
    with pytest.raises(ConfigurationError, match="LANES_DEPLOYMENT"):
        Deployment.from_env({})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not a JSON document"),
        ("[]", "version"),
        ('{"version": 2}', "version 2 is not supported"),
        ('{"version": 1}', "HIGH has no url"),
        ('{"version": 1, "queues": []}', "table is missing"),
        ('{"version": 1, "config": {"lanes": 1}}', "list of tables"),
        ('{"version": 1, "config": 5}', "must be a table"),
        ('{"version": 1, "bell": ""}', "bell must be the URL of a queue"),
        ('{"version": 1, "bell": 5}', "bell must be the URL of a queue"),
    ],
)
def test_a_document_that_is_incomplete_says_what_is_missing(text, problem):
    """All of it at once, as for the configuration."""
    with pytest.raises(ConfigurationError, match=problem):
        Deployment.from_json(text)
