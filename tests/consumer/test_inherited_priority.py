"""A handler sends with the priority of its message, as far as the message's lane admits it."""

import pytest

from lanes import current_priority, processing_priority
from lanes.config import LanesConfig
from tests.support.scenario import Scenario

CLOSING = {
    "lanes": [
        {"name": "HIGH", "threshold": 50},
        {"name": "MEDIUM", "threshold": 0, "closing": True},
        {"name": "MAIN"},
    ]
}


def inherited(lane, priority, raw=None, engine="mappings"):
    """Give the priority inside the handler of a message in a lane, and the scenario."""
    scenario, found = Scenario(raw or {}, engine=engine), []
    scenario.in_handler = lambda _message: found.append(current_priority())
    scenario.send(lane, "a", priority=priority)
    scenario.drain()
    return found[0], scenario


@pytest.mark.parametrize("engine", ["mappings", "pull"])
@pytest.mark.parametrize(
    ("lane", "priority", "expected"),
    [
        ("MAIN", 100, -1),
        ("MAIN", -1, -1),
        ("MAIN", -50, -50),
        ("MEDIUM", 50, 49),
        ("MEDIUM", 49, 49),
        ("HIGH", 10**9, 10**9),
    ],
)
def test_a_right_to_one_lane_reaches_no_higher_one(lane, priority, expected, engine):
    """A sender with that right writes any priority into the body."""
    found, scenario = inherited(lane, priority, engine=engine)

    assert found == expected
    lowered = scenario.world.recorder.named("priority_lowered")
    assert [(one["priority"], one["to"]) for one in lowered] == (
        [(priority, expected)] if found != priority else []
    )
    assert scenario.world.recorder.counts["LoweredPriorities"] == len(lowered)


def test_the_lane_below_a_closing_one_admits_its_messages():
    """They are sent there meanwhile."""
    assert inherited("MAIN", 20, CLOSING)[0] == 20
    assert inherited("MAIN", 60, CLOSING)[0] == 49


def test_without_priority_lanes_the_last_one_admits_all():
    """It has the messages of all."""
    assert inherited("MAIN", 60, {"enabled": False})[0] == 60


@pytest.mark.parametrize("raw", [{}, CLOSING, {"enabled": False}])
@pytest.mark.parametrize("priority", [-100, -1, 0, 49, 50, 100])
def test_no_message_that_was_sent_by_its_priority_is_lowered(raw, priority):
    """The limit is that of the choice of the lane."""
    config = LanesConfig.from_dict(raw)
    highest = config.highest_priority(config.lane_for(priority))

    assert highest is None or priority <= highest


def test_a_block_that_one_message_leaves_open_is_not_that_of_the_next():
    """A generator that is not run to its end closes its block while the next message is handled."""
    scenario, left, found = Scenario({}), [], []

    def block():
        with processing_priority(-100):
            yield

    def handle(_message):
        if left:
            left.pop().close()
        else:
            left.append(block())
            next(left[0])
        found.append(current_priority())

    scenario.in_handler = handle
    scenario.send("MEDIUM", "a", priority=1)
    scenario.send("MEDIUM", "b", priority=2)
    scenario.drain()

    assert found == [-100, 2]
