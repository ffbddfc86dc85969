"""C6: strict priority by default; with `max_wait` a small reserve for what has waited longer."""

import pytest

from lanes.consumer.ledger import Park
from tests.support.memory import World
from tests.support.single_slot import SingleSlot
from tests.support.story import Story

WORK = 0.2


class Flood:
    """One slot under more HIGH traffic than it can bear, with a backlog of MAIN behind it."""

    def __init__(self, *, seconds, seed=1, main=400, work=WORK, **raw):
        max_wait = raw.pop("max_wait", None)
        lanes = [{"name": "HIGH", "threshold": 50}, {"name": "MAIN"}]
        if max_wait is not None:
            lanes[1]["max_wait"] = max_wait
        self.world = World({"lanes": lanes, "consumer": raw}, seed=seed)
        self.slot = SingleSlot(self.world, seed=seed)
        self.spent = {"HIGH": 0.0, "MAIN": 0.0}
        self.began = self.world.clock.now
        self.first_main = None
        self.priorities = []
        self.world.consumer.handler("work")(self._work)
        self.work = work
        for number in range(main):
            self.world.send("MAIN", group=f"m{number}")
        self._flood()
        self.slot.run(seconds)

    @property
    def share(self):
        """Share of all handlers' time that MAIN had."""
        return self.spent["MAIN"] / sum(self.spent.values())

    def _flood(self):
        while self.world.queues.live["HIGH"].counts().visible < 40:
            self.world.send("HIGH", group=f"h{self.world.calls.counts['x']}")
            self.world.calls.counts["x"] += 1
        self.slot.at(1, self._flood)

    def _work(self, message, context):
        if context.lane == "MAIN" and self.first_main is None:
            self.first_main = self.world.clock.now - self.began
        self.slot.work(self.work)
        self.spent[context.lane] += self.work


def test_strict_priority_serves_nothing_below_an_endless_flood():
    """It is called strict: the lower lane starves, by choice."""
    flood = Flood(seconds=400)

    assert flood.spent["MAIN"] == 0
    assert flood.spent["HIGH"] > 300


@pytest.mark.parametrize("seed", [1, 2])
def test_with_max_wait_the_flood_lets_overdue_messages_through(seed):
    """Once they have waited so long, and never more than the share of the reserve."""
    flood = Flood(seconds=600, seed=seed, max_wait=60)

    assert 60 <= flood.first_main <= 120
    assert 0.01 <= flood.share <= 0.055


@pytest.mark.parametrize("reserve", [0.1, 0.5])
def test_the_share_is_that_of_the_configuration(reserve):
    """An upper bound, of the capacity used."""
    flood = Flood(seconds=600, max_wait=30, reserve=reserve)

    assert 0.01 <= flood.share <= reserve * 1.15


@pytest.mark.parametrize(("work", "seconds"), [(0.02, 120), (5.0, 3000)])
def test_the_share_holds_for_short_and_for_long_records(work, seconds):
    """A long one overdraws the account, which is paid back before the next; no flood is without a gap of a recheck."""
    flood = Flood(seconds=seconds, max_wait=30, work=work, main=1000)

    assert 0 < flood.spent["MAIN"] <= 0.05 * seconds + work + 0.25


def test_nothing_overdue_nothing_served():
    """The reserve acts only where there is such a wait."""
    flood = Flood(seconds=300, max_wait=3600)

    assert flood.spent["MAIN"] == 0


def test_a_reserve_of_nothing_is_strict():
    """As if there were no `max_wait`."""
    flood = Flood(seconds=300, max_wait=10, reserve=0)

    assert flood.spent["MAIN"] == 0


def test_an_overdue_message_keeps_its_priority_and_its_lane():
    """It is served from its own lane, and what it sends inherits what it had."""
    story = Story({"lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "max_wait": 60}]})
    story.send("MAIN", "overdue")
    story.environments[0]._prepared()
    story.world.clock.advance(120)
    story.send("HIGH", "high")
    story.world.receive("HIGH")

    story.step("MAIN")

    assert story.done == ["overdue"]
    assert story.starts[0].lane == "MAIN"
    assert story.world.recorder.named("message_handled")[0]["priority"] is None
    assert story.world.recorder.counts["ReserveMessages"] == 1


def test_what_fails_from_the_reserve_is_noted_as_waiting():
    """Though it was known beforehand that a higher lane waits: only a batch that makes way as a whole needs no note."""
    story = Story({"lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "max_wait": 60}]})
    overdue = story.send("MAIN", "overdue", "fail", group="a")
    story.environments[0]._prepared()
    story.world.clock.advance(120)
    story.send("HIGH", "high")
    story.world.receive("HIGH")
    story.send("MAIN", "young", group="b")
    first, second = story.world.receive("MAIN", 1), story.world.receive("MAIN", 1)
    story.invoke("MAIN", second)

    story.invoke("MAIN", first)

    assert [start.id for start in story.starts] == ["overdue"]
    assert story.world.ledger.entries["MAIN", overdue].park is Park.REST


def test_what_is_saved_up_is_bounded():
    """An hour of quiet doesn't let an hour's share through at once."""
    story = Story({"lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "max_wait": 60}]})
    for number in range(100):
        story.send("MAIN", f"m{number}", group=f"g{number}")
    story.environments[0]._prepared()
    story.world.clock.advance(3600)
    story.send("HIGH", "high")
    story.world.receive("HIGH")
    story.takes = 1.0

    while (ready := story.world.receive("MAIN")) and len(story.starts) < 50:
        story.invoke("MAIN", ready)

    assert len(story.starts) <= 0.05 * 60 + 2
