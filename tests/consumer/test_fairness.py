"""A tenant holds at most its share of a lane's slots while messages of others may wait behind its own."""

import pytest

from lanes.config import LanesConfig
from lanes.consumer.engines.presence import Peers, Presence
from lanes.consumer.interceptors.tenant_share import leaves_share
from lanes.consumer.ledger import Ending, Park
from lanes.consumer.records import Batch
from lanes.errors import ConfigurationError
from tests.support.memory import record_with
from tests.support.scenario import Scenario

FLOOD = 60


def shared(share=0.5, *, slots=4):
    """Tell a scenario in which one tenant sends many messages and, a while later, another sends two."""
    lanes = [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "tenant_share": share}]
    consumer = {"reserved_concurrency": slots, "engine": "pull"}
    scenario = Scenario({"lanes": lanes, "consumer": consumer}, environments=slots)
    for number in range(FLOOD):
        scenario.send("MAIN", f"a{number}", group=f"acme:{number}")
    scenario.world.clock.advance(5)
    for number in range(2):
        scenario.send("MAIN", f"b{number}", group=f"small:{number}")
    return scenario


def hold_slots(scenario, count):
    """Let so many other environments work on the flood at this moment; return what they have."""
    for number in range(count):
        messages = scenario.world.receive("MAIN")
        scenario.world.slots.records[f"other{number}"] = scenario_line(
            scenario, f"other{number}", len(messages)
        )


def scenario_line(scenario, environment, records):
    """Give the line of an environment that works on the flood."""
    return Presence(
        environment=environment,
        lane="MAIN",
        records=records,
        busy=True,
        until=scenario.world.clock.now + 30,
        tenant="acme",
    )


def test_within_its_share_a_tenant_is_handled():
    """One other slot works for it, and two are its share."""
    scenario = shared()
    hold_slots(scenario, 1)

    scenario.step("MAIN")

    assert len(scenario.done) == FLOOD - 10 + 2


def test_beyond_its_share_its_records_are_parked_and_others_come_to_the_front():
    """Not one of them counts as an attempt; when the others are handled, the slot wakes them."""
    scenario = shared()
    hold_slots(scenario, 2)

    scenario.step("MAIN")

    assert scenario.done[:2] == ["b0", "b1"]
    events = scenario.world.recorder.named("tenant_yielded")
    assert {event["tenant"] for event in events} == {"acme"}
    assert sum(event["records"] for event in events) == FLOOD - 20
    assert {entry.attempts for entry in scenario.world.ledger.entries.values()} == {0}
    assert all(60 <= event["delay"] <= 90 for event in events)


def test_what_is_new_waits_behind_nothing_that_is_not():
    """A message sent a moment ago proves that the mapping has handed out all that is older."""
    scenario = shared()
    scenario.drain()
    for number in range(10):
        scenario.send("MAIN", f"c{number}", group=f"acme:c{number}")
    hold = [scenario_line(scenario, name, 1) for name in ("x", "y", "z")]
    scenario.world.slots.records |= {line.environment: line for line in hold}

    scenario.step("MAIN")

    assert {f"c{number}" for number in range(10)} <= set(scenario.done)


def test_beyond_its_share_all_records_of_a_group_yield_and_may_be_woken():
    """Those behind the first of their group too, else all of them would rest until their parking ends."""
    scenario = shared()
    hold_slots(scenario, 6)  # the whole flood is elsewhere
    for number in range(6):
        scenario.send("MAIN", f"c{number}", group=f"acme:c{number % 2}")
    scenario.world.clock.advance(5)

    scenario.step("MAIN")

    entries = scenario.world.ledger.entries.values()
    assert {(entry.yields, entry.returns, entry.ending) for entry in entries} == {(1, 0, Ending.YIELDED)}
    assert {entry.park for entry in entries} <= {Park.YIELD, None}  # None: woken by then
    assert len(entries) == 6
    assert scenario.world.recorder.counts["YieldedMessages"] == 6
    assert scenario.world.recorder.named("batch_returned") == []


@pytest.mark.parametrize("slots", [2, 4])
def test_all_is_handled_in_the_end(slots):
    """With the order of groups kept and no attempt counted."""
    scenario = shared(slots=slots)

    scenario.drain()

    scenario.check_kept()
    assert len(scenario.done) == FLOOD + 2


@pytest.mark.parametrize(("share", "slots"), [(None, 4), (0.5, 1)])
def test_without_a_share_or_with_one_slot_nothing_is_parked(share, slots):
    """It is off by default, and alone there is nothing to share."""
    lanes = [{"name": "MAIN", **({"tenant_share": share} if share else {})}]
    consumer = {"reserved_concurrency": slots, "engine": "pull"}
    scenario = Scenario({"lanes": lanes, "consumer": consumer}, environments=slots)
    for number in range(30):
        scenario.send("MAIN", f"a{number}", group=f"acme:{number}")
    scenario.world.clock.advance(5)

    scenario.drain()

    assert scenario.world.recorder.named("tenant_yielded") == []


def test_a_groups_tenant_is_its_part_before_the_first_colon():
    """A group without one is a tenant by itself."""
    (lane,) = LanesConfig.from_dict({"lanes": [{"name": "MAIN"}]}).lanes

    assert [lane.tenant_of(group) for group in ("acme:1:2", "acme", "a/b:c")] == ["acme", "acme", "a/b"]


def test_a_share_without_effect_is_explained():
    """With one slot."""
    raw = {"lanes": [{"name": "MAIN", "tenant_share": 0.5}], "consumer": {"engine": "pull"}}

    assert any("tenant_share has no effect" in note for note in LanesConfig.from_dict(raw).notes())
    several = LanesConfig.from_dict({**raw, "consumer": {"reserved_concurrency": 2, "engine": "pull"}})
    assert not any("tenant_share" in note for note in several.notes())


@pytest.mark.parametrize("consumer", [{}, {"engine": "mappings"}, {"reserved_concurrency": 4}])
def test_the_mapped_engine_refuses_a_share(consumer):
    """A mapping decides what a slot gets; a switch to it says which setting to remove."""
    lanes = [{"name": "HIGH", "threshold": 50}, {"name": "MAIN", "tenant_share": 0.5}]

    with pytest.raises(
        ConfigurationError, match=r"lane MAIN: tenant_share takes effect with engine = \"pull\""
    ):
        LanesConfig.from_dict({"lanes": lanes, "consumer": consumer})


@pytest.mark.parametrize(("share", "slots", "leaves"), [(0.5, 4, True), (0.5, 1, False), (None, 4, False)])
def test_only_a_share_of_several_slots_can_be_left(share, slots, leaves):
    """A batch that was parked before may have others of its tenant behind it; without a share nothing is parked."""
    main = {"name": "MAIN"} if share is None else {"name": "MAIN", "tenant_share": share}
    consumer = {"reserved_concurrency": slots, "engine": "pull"}
    config = LanesConfig.from_dict({"lanes": [main], "consumer": consumer})
    batch = Batch(
        lane=config.lane("MAIN"),
        records=[record_with("m", group="acme:1", receive_count=2)],
        name="request",
        milliseconds_left=lambda: 1_000.0,
        began_at=0.0,
    )
    peers = Peers(slots=slots, table=None, environment="e", clock=lambda: 0.0)

    assert leaves_share(batch, peers) is leaves
