"""The messages of the demo, and the journal that takes down the lines of functions."""

import json

import pytest

from lanes.config import LanesConfig
from local.demo import plan
from local.demo.flood import Journal
from local.deploy import ROOT

SIZES = [100, 500, plan.DEFAULT_CUSTOMERS, 20_000]


def live(customers):
    """Return the urgent messages of a demo."""
    return [message for episode in plan.episodes(customers) for message in episode.messages]


@pytest.mark.parametrize("customers", SIZES)
def test_every_episode_meets_a_backlog_and_has_its_share_of_faults(customers):
    """The last one is due while a fifth of the backfill waits; one message of each kind fails always, and one once."""
    due = [episode.due_after for episode in plan.episodes(customers)]
    faults = sorted((one.kind, one.data["fault"]) for one in live(customers) if one.data["fault"])

    assert due == sorted(due)
    assert due[-1] <= 0.8 * customers
    assert faults == [(kind, fault) for kind in (plan.ORDER, plan.PAYMENT) for fault in ("always", "once")]


def test_the_default_size_has_enough_payments_for_a_p99():
    """At least forty."""
    assert sum(one.kind == plan.PAYMENT for one in live(plan.DEFAULT_CUSTOMERS)) >= 40


def test_every_message_can_be_sent_and_reaches_the_lane_of_its_priority():
    """With the demo's own stage."""
    config = LanesConfig.load(ROOT / "lanes.toml", stage="demo")
    lanes = {config.lane_for(plan.PRIORITIES[plan.BACKFILL]).name}
    for one in live(100):
        one.to_body()
        lanes.add(config.lane_for(one.priority).name)

    assert lanes == {lane.name for lane in config.lanes}


def test_an_outage_has_a_backlog_and_then_more_urgent_groups_than_calls():
    """So each call after the first three is of an urgent message that has not found the resource away before."""
    backlog, urgent = plan.outage(12.0)

    assert [{one.kind for one in them} for them in (backlog, urgent)] == [{plan.BACKFILL}, {plan.PAYMENT}]
    assert len({one.group for one in urgent}) > plan.AWAY_TRIES
    assert {one.data["away_until"] for one in (*backlog, *urgent)} == {12.0}


@pytest.fixture
def journal():
    """A journal of a run."""
    return Journal()


def tell(journal, step, one, *, at, attempt=1):
    """Print what the sample's handler prints."""
    journal.take_line(json.dumps({"resource": step, "id": one, "attempt": attempt, "at": at}))


def test_a_start_and_its_end_make_one_work(journal):
    """With the handler's own times; a message that is done twice has ended once."""
    for at in (5.0, 7.0):
        tell(journal, "started", "bulk-1", at=at)
        tell(journal, "finished", "bulk-1", at=at + 1)

    assert [(one.started_at, one.ended_at, one.how) for one in journal.works] == [
        (5.0, 6.0, "done"),
        (7.0, 8.0, "done"),
    ]
    assert journal.ended == 1


def test_a_start_after_a_start_means_that_the_first_one_died(journal):
    """So does a start without an end."""
    tell(journal, "started", "bulk-1", at=5.0)
    tell(journal, "started", "bulk-1", at=50.0, attempt=2)
    tell(journal, "refused", "bulk-1", at=51.0, attempt=2)
    tell(journal, "started", "bulk-2", at=60.0)

    assert [one.how for one in journal.works] == ["died", "failed", "died"]


def test_calls_that_found_the_resource_away_are_counted(journal):
    """They end nothing."""
    tell(journal, "started", "pay-1", at=1.0)
    tell(journal, "away", "pay-1", at=1.0)

    assert [one.how for one in journal.works] == ["away"]
    assert (journal.away, journal.ended) == (1, 0)


def test_yields_and_dead_letters_are_counted_in_the_consumers_words(journal):
    """No promise rests on them."""
    journal.take_line(json.dumps({"event": "batch_yielded", "lane": "MAIN"}))
    journal.take_line(json.dumps({"event": "message_dead_lettered"}))

    assert (journal.yields, journal.ended) == ({"MAIN": 1}, 1)


@pytest.mark.parametrize(
    "line", ["", "START RequestId", "{half a li", '{"level": "INFO"}', "[1]", '{"resource": {"a": 1}}']
)
def test_other_lines_tell_nothing(journal, line):
    """Functions print whatever they like."""
    journal.take_line(line)

    assert journal.works == []
