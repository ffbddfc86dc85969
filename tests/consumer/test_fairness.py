"""A tenant holds at most its share of a lane's slots while messages of others may wait behind its own."""

import pytest

from lanes.config import LanesConfig
from lanes.consumer.slots import Occupation
from tests.support.story import Story

FLOOD = 60


def shared(share=0.5, *, slots=4):
    """Tell a story in which one tenant sends many messages and, a while later, another sends two."""
    lanes = [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "tenant_share": share}]
    story = Story({"lanes": lanes, "consumer": {"reserved_concurrency": slots}}, environments=slots)
    for number in range(FLOOD):
        story.send("MAIN", f"a{number}", group=f"acme:{number}")
    story.world.clock.advance(5)
    for number in range(2):
        story.send("MAIN", f"b{number}", group=f"small:{number}")
    return story


def hold_slots(story, count):
    """Let so many other environments work on the flood at this moment; return what they have."""
    for number in range(count):
        messages = story.world.receive("MAIN")
        story.world.register.lines[f"other{number}"] = story_line(story, f"other{number}", len(messages))


def story_line(story, environment, records):
    """Give the line of an environment that works on the flood."""
    return Occupation(
        environment=environment,
        lane="MAIN",
        records=records,
        busy=True,
        until=story.world.clock.now + 30,
        tenant="acme",
    )


def test_within_its_share_a_tenant_is_handled():
    """One other slot works for it, and two are its share."""
    story = shared()
    hold_slots(story, 1)

    story.step("MAIN")

    assert len(story.done) == 10


def test_beyond_its_share_its_records_are_parked_and_others_come_to_the_front():
    """Not one of them counts as an attempt; those of the others are handled."""
    story = shared()
    hold_slots(story, 2)

    for _ in range(5):
        story.step("MAIN")

    assert story.done == ["b0", "b1"]
    events = story.world.recorder.named("tenant_yielded")
    assert [(event["tenant"], event["records"]) for event in events] == [("acme", 10)] * 4
    assert {entry.attempts for entry in story.world.ledger.entries.values()} == {0}
    assert all(60 <= event["delay"] <= 90 for event in events)


def test_what_is_new_waits_behind_nothing_that_is_not():
    """A message sent a moment ago proves that the mapping has handed out all that is older."""
    story = shared()
    story.drain()
    for number in range(10):
        story.send("MAIN", f"c{number}", group=f"acme:c{number}")
    hold = [story_line(story, name, 1) for name in ("x", "y", "z")]
    story.world.register.lines |= {line.environment: line for line in hold}

    story.step("MAIN")

    assert {f"c{number}" for number in range(10)} <= set(story.done)


@pytest.mark.parametrize("slots", [2, 4])
def test_all_is_handled_in_the_end(slots):
    """With the order of groups kept and no attempt counted."""
    story = shared(slots=slots)

    story.drain()

    story.check_kept()
    assert len(story.done) == FLOOD + 2


@pytest.mark.parametrize(("share", "slots"), [(None, 4), (0.5, 1)])
def test_without_a_share_or_with_one_slot_nothing_is_parked(share, slots):
    """It is off by default, and alone there is nothing to share."""
    lanes = [{"name": "MAIN", **({"tenant_share": share} if share else {})}]
    story = Story({"lanes": lanes, "consumer": {"reserved_concurrency": slots}}, environments=slots)
    for number in range(30):
        story.send("MAIN", f"a{number}", group=f"acme:{number}")
    story.world.clock.advance(5)

    story.drain()

    assert story.world.recorder.named("tenant_yielded") == []


def test_a_groups_tenant_is_what_stands_before_the_separator():
    """A group without one is a tenant by itself."""
    lanes = LanesConfig.from_dict({"lanes": [{"name": "MAIN", "tenant_separator": "/"}]}).lanes

    assert [lanes[0].tenant_of(group) for group in ("acme/1/2", "acme", "a:b/c")] == ["acme", "acme", "a:b"]


def test_a_share_without_effect_is_explained():
    """With one slot."""
    raw = {"lanes": [{"name": "MAIN", "tenant_share": 0.5}]}

    assert any("tenant_share has no effect" in note for note in LanesConfig.from_dict(raw).notes())
    several = LanesConfig.from_dict({**raw, "consumer": {"reserved_concurrency": 2}})
    assert not any("tenant_share" in note for note in several.notes())
