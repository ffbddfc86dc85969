"""The plain pattern is that of its author: when it yields, and that it gives up no message."""

import pytest

from lanes.config import LanesConfig
from lanes.depth import LaneDepth
from simulator.plain import PlainConsumer
from simulator.simulated_lanes import Pattern, SimulatedLanes


class Depths:
    """The same counts for each lane."""

    def __init__(self, backlog, in_flight):
        self.found = LaneDepth(backlog=backlog, in_flight=in_flight)

    def depth(self, _lane):
        return self.found


def event(lane, *groups):
    """Give the event of a batch."""
    return {
        "Records": [
            {
                "eventSourceARN": lane,
                "messageId": f"{lane}-{group}",
                "attributes": {"MessageGroupId": group},
                "body": "",
            }
            for group in groups
        ]
    }


@pytest.mark.parametrize(
    ("slots", "backlog", "in_flight", "yields"),
    [
        (1, 0, 0, False),
        (1, 1, 0, True),
        (1, 0, 1, True),
        (3, 3, 3, False),
        (3, 4, 0, True),
        (3, 0, 4, True),
    ],
)
def test_it_yields_to_one_count_above_the_slots(slots, backlog, in_flight, yields):
    """With one slot to any message; it returns the whole batch then, of which the highest lane has never any."""
    handled = []
    consumer = PlainConsumer(
        config=LanesConfig.from_dict({"consumer": {"reserved_concurrency": slots}}),
        depths=Depths(backlog, in_flight),
        lane_of=lambda arn: arn,
        work=lambda _lane, group, _body: handled.append(group),
        yields=True,
    )

    assert not consumer.handle(event("HIGH", "u"), None)["batchItemFailures"]
    returned = consumer.handle(event("MAIN", "a", "b"), None)["batchItemFailures"]

    assert handled == (["u"] if yields else ["u", "a", "b"])
    assert [one["itemIdentifier"] for one in returned] == (["MAIN-a", "MAIN-b"] if yields else [])


def test_a_message_that_always_fails_has_no_end():
    """It has no dead-letter queue: the message comes again each time that its visibility ends."""
    lanes = SimulatedLanes(LanesConfig(), pattern=Pattern.PLAIN)
    lanes.send("MAIN", group="a", seconds=0.1, fault="always")
    lanes.run(seconds=600)

    assert (lanes.dead, lanes.left, lanes.done) == (0, 1, 0)
    assert lanes.history.times_begun(lanes.sent) == 600 // 30
