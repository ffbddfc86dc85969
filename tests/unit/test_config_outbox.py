"""The table `[outbox]` of lanes.toml."""

from datetime import timedelta

import pytest

from lanes.config import LanesConfig, OutboxSettings
from lanes.errors import ConfigurationError


def test_without_the_table_there_are_the_defaults_and_no_outbox():
    """And what functions get stays as small as it was."""
    config = LanesConfig.from_dict({})

    assert config.outbox == OutboxSettings()
    assert not config.outbox.enabled
    assert "outbox" not in config.to_dict()


def test_a_stage_goes_over_the_general_settings():
    """Key by key."""
    raw = {"outbox": {"batch": 5, "tick": 2}, "stages": {"test": {"outbox": {"enabled": True, "batch": 6}}}}
    outbox = LanesConfig.from_dict(raw, stage="test").outbox

    assert (outbox.enabled, outbox.batch, outbox.tick) == (True, 6, timedelta(seconds=2))


def test_one_window_serves_all_lanes():
    """Or each has its own."""
    assert LanesConfig.from_dict({"outbox": {"lane_window": 9}}).outbox.lane_window == {
        "HIGH": 9,
        "MEDIUM": 9,
        "MAIN": 9,
    }


@pytest.mark.parametrize(
    ("outbox", "problem"),
    [
        ({"bach": 3}, "did you mean 'batch'"),
        ({"batch": 101}, "at most 100"),
        ({"enabled": 1}, "true or false"),
        ({"lock": "1s"}, "at least 2s"),
        ({"lock": "5m"}, "at most 150s"),
        ({"on_abandoned": "stop"}, "continue, hold"),
        ({"retry_base": "2h"}, "longer than retry_cap"),
        ({"retry_factor": 0.5}, "at least 1.0"),
        ({"lane_window": {"MIAN": 3}}, "did you mean 'MAIN'"),
        ({"lane_window": {"MAIN": 0}}, "at least 1"),
        ({"lane_window": 0}, "at least 1"),
        ({"lane_window": True}, "a number, or a table"),
        (True, "must be a table"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said(outbox, problem):
    """With the key, the value and what is allowed."""
    with pytest.raises(ConfigurationError, match="outbox") as caught:
        LanesConfig.from_dict({"outbox": outbox})

    assert problem in str(caught.value)
