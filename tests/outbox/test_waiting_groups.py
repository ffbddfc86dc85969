"""A group that waits for its first entry costs nothing but its own place."""

import json
from dataclasses import replace
from random import Random
from threading import Barrier
from types import SimpleNamespace

import pytest

from lanes.errors import UnwrittenMarksError
from lanes.outbox import EntryFilter, EntryState, Operator
from lanes.outbox.dynamodb.store import DynamoDBOutboxStore
from lanes.outbox.relay import Relay
from tests.support.outbox import SHARES, Run, published
from tests.support.sending import ACCEPT, REFUSE

HALF_AN_HOUR = 1800


@pytest.fixture(params=["sqlite", "postgresql", "dynamodb"])
def stores(request):
    """Each store, and how many entries its group has: an entry of DynamoDB takes calls of its own."""
    subject = request.getfixturevalue(f"{request.param}_subject")
    subject.many = 30 if request.param == "dynamodb" else 1000
    return subject


class Waiting(Run):
    """A large group with a first entry that SQS refuses, and another group behind it."""

    def __init__(self, stores, clock):
        self.fails = {"big-0"}
        plan = lambda one: REFUSE if one in self.fails else ACCEPT  # noqa: E731
        super().__init__(stores, clock, plan=plan, max_attempts=100)
        self.write(*(f"big-{number}" for number in range(stores.many)), group="big")
        self.write("other-0", "other-1", group="other")


def test_a_failing_first_entry_of_a_large_group_costs_other_groups_no_round(stores, clock):
    """The round after its failure sends the other group, also if a claim takes fewer entries than the group has."""
    run = Waiting(stores, clock)
    run.relay._limit = 20
    run.relay.run_once()
    run.relay.run_once()

    assert run.sent() == ["other-0", "other-1"]
    for _ in range(3):
        run.relay.run_once()
    assert run.relay.run_once().is_idle


def test_a_waiting_group_costs_a_round_for_each_timer_and_no_more(stores, clock):
    """Not one for each batch of its entries: its first one fails again and again for half an hour."""
    run = Waiting(stores, clock)
    rounds = 0
    ends = clock() + HALF_AN_HOUR
    while clock() < ends:
        while not run.relay.run_once().is_idle:
            rounds += 1
        clock.advance(60)

    assert rounds < 40
    assert run.state(f"big-{stores.many - 1}") is EntryState.PENDING


def test_a_group_that_has_waited_goes_out_whole_and_in_order(stores, clock):
    """As soon as its first entry is accepted; also entries that were written meanwhile."""
    run = Waiting(stores, clock)
    run.relay.run_until(clock() + 1)
    run.write("big-late", group="big")
    run.relay.run_until(clock() + 1)
    run.fails.clear()
    clock.advance(100)
    while not run.relay.run_once().is_idle:
        pass

    expected = [f"big-{number}" for number in range(stores.many)] + ["big-late"]
    assert [one for one in run.sent() if one.startswith("big")] == expected


@pytest.fixture
def dynamodb(dynamodb_subject):
    """The store that wakes a group after the marks; in SQL it is one transaction."""
    dynamodb_subject.many = 30
    return dynamodb_subject


def test_a_claim_reads_on_behind_a_large_group_from_where_the_last_one_stopped(dynamodb, clock, monkeypatch):
    """Each reads as many items, whatever the size of the group, and the others go out before it is parked."""
    monkeypatch.setattr("lanes.outbox.dynamodb.store.PASSED_AT_ONCE", 20)
    dynamodb.many = 100
    run = Waiting(dynamodb, clock)
    run.relay._limit = 10
    groups = [f"g{number}" for number in range(16)]
    for group in groups:
        run.write(group, group=group)
    reads: list[int] = []
    dynamodb.client.meta.events.register(
        "after-call.dynamodb.Query", lambda parsed, **_: reads.append(parsed["ScannedCount"])
    )
    sizes = []
    for _ in range(9):
        reads.clear()
        run.relay.run_once()
        sizes.append(sum(reads))

    assert set(groups) < set(run.sent())
    assert len(run.sent()) == len(groups) + 2
    assert max(sizes) < 120
    assert run.state("big-99") is EntryState.PENDING


def test_what_is_written_behind_a_large_group_is_sent_although_claims_have_read_past_it(
    dynamodb, clock, monkeypatch
):
    """A claim that has read all begins at the front; what is more urgent is always read first."""
    monkeypatch.setattr("lanes.outbox.dynamodb.store.PASSED_AT_ONCE", 20)
    dynamodb.many = 100
    run = Waiting(dynamodb, clock)
    run.relay._limit = 10
    late = run.outbox.prepare("k", 1, id="late", group="other-too")
    for _ in range(4):
        run.relay.run_once()
    dynamodb.write(late)
    run.write("urgent", priority=60)
    run.relay.run_once()
    assert run.sent("HIGH") == ["urgent"]
    for _ in range(7):
        run.relay.run_once()

    assert "late" in run.sent()


def test_a_relay_that_dies_before_it_wakes_a_group_leaves_it_a_timer(dynamodb, clock):
    """Also if an operator has cancelled the first one that waits, and another one."""
    run = Waiting(dynamodb, clock)
    run.relay.run_until(clock() + 1)
    operator = Operator(store=dynamodb.operations, config=run.config, who="ops", clock=clock)
    gone = ("big-1", "big-25")
    assert operator.cancel(EntryFilter(ids=gone)) == len(gone)
    run.relay.run_until(clock() + 1)
    run.fails.clear()
    clock.advance(100)
    wake, dynamodb.store.wake = dynamodb.store.wake, lambda *_args, **_options: None
    run.relay.run_once()
    dynamodb.store.wake = wake

    clock.advance(400)
    while not run.relay.run_once().is_idle:
        clock.advance(1)
    assert len(run.sent()) == dynamodb.many + 2 - len(gone)


@pytest.mark.deep
def test_relays_that_die_again_and_again_before_they_wake_a_group_leave_it_a_timer(dynamodb, clock):
    """Each of them after it has published one more entry."""
    run = Run(dynamodb, clock)
    run.write(*(f"big-{number}" for number in range(5)), group="big")
    run.relay._settings = replace(run.config.outbox, batch=1)
    held = dynamodb.store.claim(SHARES, owner="slow", now=clock(), locked_until=clock() + 60, limit=1)
    while not run.relay.run_once().is_idle:
        pass
    wake = dynamodb.store.wake
    dynamodb.store.wake = lambda *_args, **_options: None
    dynamodb.store.settle([published(one) for one in held.entries], owner="slow", now=clock())
    for _ in range(10):
        clock.advance(400)
        run.relay.run_once()
    dynamodb.store.wake = wake

    assert run.sent() == [f"big-{number}" for number in range(1, 5)]


def test_groups_are_looked_at_side_by_side_after_their_marks(dynamodb, clock):
    """A call for each after the other would take most of a round of many groups."""
    run = Run(dynamodb, clock)
    store = DynamoDBOutboxStore(table=dynamodb.name, client=dynamodb.client, concurrency=2)
    run.write("a", group="g")
    run.write("b", group="h")
    held = store.claim(SHARES, owner="relay", now=clock(), locked_until=clock() + 60, limit=2)
    # A call that is made alone waits for the other one in vain.
    both = Barrier(2, timeout=20)
    dynamodb.client.meta.events.register("before-call.dynamodb.Query", lambda **_: [both.wait()].clear())

    marks = [published(one) for one in held.entries]
    assert store.settle(marks, owner="relay", now=clock()) == {"a", "b"}


def test_the_timer_of_a_group_is_no_entry_and_ends_with_its_group(dynamodb, clock):
    """Nobody lists or counts it, and time to live removes it."""
    run = Run(dynamodb, clock)
    run.write("a", "b", group="g")
    held = dynamodb.store.claim(SHARES, owner="slow", now=clock(), locked_until=clock() + 60, limit=1)
    run.relay.run_once()
    timer = {"pk": {"S": "group#g"}, "sk": {"S": "timer#MEDIUM"}}

    def read():
        return dynamodb.client.get_item(TableName=dynamodb.name, Key=timer)["Item"].keys()

    assert read() == {"pk", "sk", "timer", "due_at"}
    assert [one.id for one in dynamodb.operations.entries(set(EntryState))] == ["a", "b"]
    assert sum(dynamodb.store.status().counts.values()) == 2
    dynamodb.store.settle([published(one) for one in held.entries], owner="slow", now=clock())
    while not run.relay.run_once().is_idle:
        pass
    clock.advance(400)
    run.relay.run_once()
    assert read() == {"pk", "sk", "expires_at"}
    assert run.relay.run_once().is_idle


def test_an_operator_who_dies_after_a_change_leaves_a_waiting_group_a_timer(dynamodb, clock):
    """The entry that had the timer is in another lane, and nobody has woken the others."""
    run = Run(dynamodb, clock)
    run.write("big-0", "big-1", "big-2", group="big")
    held = dynamodb.store.claim(SHARES, owner="slow", now=clock(), locked_until=clock() + 60, limit=1)
    while not run.relay.run_once().is_idle:
        pass
    operator = Operator(store=dynamodb.operations, config=run.config, who="ops", clock=clock)
    wake, dynamodb.store.wake = dynamodb.store.wake, _die
    with pytest.raises(KeyboardInterrupt):
        operator.prioritize(EntryFilter(ids=("big-1",)), 60)
    with pytest.raises(KeyboardInterrupt):
        dynamodb.store.settle([published(one) for one in held.entries], owner="slow", now=clock())
    dynamodb.store.wake = wake
    clock.advance(400)
    while not run.relay.run_once().is_idle:
        pass

    assert run.sent("HIGH") == ["big-1"]
    assert run.sent() == ["big-2"]


def test_a_mark_that_is_not_written_leaves_no_other_group_waiting(dynamodb, clock):
    """The group whose first entry was marked in the same round goes on at once, and not at its timer."""
    run = Run(dynamodb, clock)
    run.write("a", group="g")
    run.write("other")
    held = dynamodb.store.claim(SHARES, owner="slow", now=clock(), locked_until=clock() + 60, limit=2)
    run.write("b", group="g")
    while not run.relay.run_once().is_idle:
        pass

    def throttle(params, **_):
        is_other = json.loads(params["body"])["Key"]["pk"] == {"S": "entry#other"}
        return (SimpleNamespace(status_code=400), THROTTLED) if is_other else None

    dynamodb.client.meta.events.register("before-call.dynamodb.UpdateItem", throttle)
    with pytest.raises(UnwrittenMarksError):
        dynamodb.store.settle([published(one) for one in held.entries], owner="slow", now=clock())
    run.relay.run_once()

    assert run.sent() == ["b"]


def _die(*_args, **_options):
    raise KeyboardInterrupt


def test_what_an_operator_moves_out_of_a_waiting_group_is_sent_in_order(stores, clock):
    """To a higher lane, where the group has no entry that fails."""
    run = Waiting(stores, clock)
    run.relay.run_until(clock() + 1)
    last = stores.many // 5
    operator = Operator(store=stores.operations, config=run.config, who="ops", clock=clock)
    assert (
        operator.prioritize(EntryFilter(ids=tuple(f"big-{number}" for number in range(1, last))), 60)
        == last - 1
    )
    while not run.relay.run_once().is_idle:
        pass

    assert run.sent("HIGH") == [f"big-{number}" for number in range(1, last)]


THROTTLED = {
    "Error": {"Code": "ProvisionedThroughputExceededException", "Message": "slow down"},
    "ResponseMetadata": {"HTTPStatusCode": 400},
}


@pytest.mark.parametrize("share", [pytest.param(0.5, marks=pytest.mark.deep), 1.0])
def test_a_group_whose_partition_is_throttled_stops_no_other_group(dynamodb, clock, share):
    """Of its calls this share is refused to four relays; then it goes out whole and in order."""
    run = Run(dynamodb, clock, batch=10)
    producer = run.relay._publication._producer
    others = [
        Relay(store=dynamodb.store, producer=producer, config=run.config, clock=clock) for _ in range(3)
    ]
    expected = [f"hot-{number}" for number in range(12)]
    run.write(*expected, group="hot")
    run.write(*(f"other-{number}" for number in range(9)), group="other")
    chance, is_hot = Random(1), [True]

    def throttle(params, **_):
        body = json.loads(params["body"])
        key = body.get("Key", {}).get("pk") or body["ExpressionAttributeValues"].get(":pk")
        if is_hot and key == {"S": "group#hot"} and chance.random() < share:
            return SimpleNamespace(status_code=400), THROTTLED
        return None

    for name in ("UpdateItem", "Query"):
        dynamodb.client.meta.events.register(f"before-call.dynamodb.{name}", throttle)
    started = clock()
    for _ in range(4):
        for relay in (run.relay, *others):
            relay._run_once_or_report()
    assert len([one for one in run.sent() if one.startswith("other")]) == 9
    assert clock() - started < 10

    is_hot.clear()
    for _ in range(4):
        clock.advance(60)
        while not run.relay._run_once_or_report().is_idle:
            pass
    assert [one for one in run.sent() if one.startswith("hot")] == expected
    assert all(run.state(one) is EntryState.PUBLISHED for one in expected)
