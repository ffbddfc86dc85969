"""The plan of a demo follows from its seed and size."""

import pytest

from lanes.config import LanesConfig
from local.demo.plan import (
    ALWAYS,
    BACKFILL,
    DEFAULT_CUSTOMERS,
    ONCE,
    PAYMENT,
    PRIORITIES,
    DemoPlan,
    outage,
    tries_while_away,
)
from local.installed import ROOT

SIZES = [100, 500, DEFAULT_CUSTOMERS, 20_000]


def draw(customers=DEFAULT_CUSTOMERS, seed=1, shards=4):
    """Draw a plan."""
    return DemoPlan.draw(customers=customers, seed=seed, shards=shards)


def test_a_seed_draws_the_same_plan_again():
    """And another one another plan."""

    def content(plan):
        live = [(one.id, one.kind, one.group, one.data) for one in plan.live]
        return [episode.due_after for episode in plan.episodes], live

    assert content(draw(seed=7)) == content(draw(seed=7))
    assert content(draw(seed=7)) != content(draw(seed=8))


def test_the_default_size_has_enough_urgent_messages_for_a_p99():
    """At least forty, those behind a failing one left out."""
    urgent = [one for one in draw().live if one.kind == "payment.captured"]

    assert len(urgent) - 1 >= 40


@pytest.mark.parametrize("customers", SIZES)
def test_every_episode_meets_a_backlog(customers):
    """The last one is due while a fifth of the backfill waits; they come one after the other."""
    due = [episode.due_after for episode in draw(customers).episodes]

    assert due == sorted(due)
    assert due[-1] <= 0.8 * customers


@pytest.mark.parametrize("customers", SIZES)
def test_a_few_of_every_lane_fail(customers):
    """Some always, some once."""
    plan = draw(customers)

    faults = sorted((one.kind, one.data["fault"]) for one in plan.live if "fault" in one.data)

    assert faults == [
        (kind, fault) for kind in ("order.placed", "payment.captured") for fault in (ALWAYS, ONCE)
    ]
    assert plan.poison >= 1
    assert plan.flaky >= 1


def test_the_poison_payment_has_another_message_behind_it():
    """The group has to go on once it is given up."""
    live = draw().live
    [poison] = [one for one in live if one.kind == "payment.captured" and one.data.get("fault") == ALWAYS]

    assert sum(1 for one in live if one.group == poison.group) == 2


def test_every_message_can_be_sent_and_reaches_the_lane_of_its_priority():
    """With the demo's own stage."""
    config = LanesConfig.load(ROOT / "lanes.toml", stage="demo")
    plan = draw(100)
    lanes = {config.lane_for(PRIORITIES[BACKFILL]).name}
    for one in plan.live:
        one.to_body()
        lanes.add(config.lane_for(one.priority).name)

    assert lanes == {lane.name for lane in config.lanes}


def test_an_outage_has_a_backlog_and_then_more_urgent_groups_than_calls():
    """So each call after the first three is of an urgent message that has not said so just before."""
    backlog, urgent = outage(until=12.0)
    calls, pause = tries_while_away()

    assert (calls, pause) == (6, 8.0)
    for episode, kind in ((backlog, BACKFILL), (urgent, PAYMENT)):
        assert {one.priority for one in episode.messages} == {PRIORITIES[kind]}
    assert len({one.group for one in urgent.messages}) > calls
    assert {one.data["away_until"] for one in (*backlog.messages, *urgent.messages)} == {12.0}
