"""
O6: outages of the destination.

Only a failure that is about the entry counts as an attempt: while the destination can't be reached, throttles or
refuses everybody, its lane waits, the alarm says so, and no other lane waits with it. Everything goes out in order when
it is over.
"""

import itertools

import pytest

from lanes.outbox.entry import EntryState
from lanes.producer.outgoing import Refused
from lanes.retries import REPORTED_EVERY
from tests.support.outbox_faults import CAUSES, Faulty, call_error, refusals
from tests.support.sending import id_in, queue_url

GROUPS, EACH = 10, 10
MINUTE, HOUR = 60, 3600
LONGEST_PAUSE = 30


def payments(run, groups=GROUPS, each=EACH):
    """Write payments of several groups, in turns."""
    for number, group in itertools.product(range(each), range(groups)):
        run.write(f"{group}-{number:03}", group=f"account-{group}")


def in_order(ids):
    """Whether the entries of each group are in the order in which they were written."""
    groups = {one.partition("-")[0] for one in ids}
    return all((of := [one for one in ids if one.startswith(f"{group}-")]) == sorted(of) for group in groups)


@pytest.mark.parametrize(
    ("cause", "lasts"),
    [
        *(pytest.param(cause, 10 * MINUTE, id=f"{cause}-10min") for cause in CAUSES),
        *(pytest.param(cause, 24 * HOUR, id=f"{cause}-24h", marks=pytest.mark.nightly) for cause in CAUSES),
    ],
)
def test_an_outage_of_a_lane_costs_no_attempt_no_order_and_no_other_lane(sqlite_subject, clock, cause, lasts):
    """The lane waits and says why, urgent payments of another lane leave at once, and all is sent when it is over."""
    tick = 15 if lasts < HOUR else 60
    run = Faulty(sqlite_subject, clock, tick=f"{tick}s")
    payments(run)
    run.fail("MEDIUM", cause)
    begun = clock()
    written = {}

    def pay(name):
        written[name] = clock()
        run.write(name, priority=100)

    step = lasts / 20
    urgent = [
        (begun + step * (number + 0.5), lambda name=f"urgent-{number}": pay(name)) for number in range(20)
    ]
    run.run(lasts, at=urgent)

    assert run.sent() == []
    assert run.attempts() == 0
    left = {one: at for at, url, one in run.sqs.tried if url == queue_url("HIGH")}
    assert max(left[one] - at for one, at in written.items()) <= tick + 1
    assert set(run.told.lanes) == {("MEDIUM", cause)}
    assert len(run.told.outages) <= lasts / REPORTED_EVERY.total_seconds() + 2

    run.fail("MEDIUM", None)
    run.run(2 * LONGEST_PAUSE + MINUTE + 2 * tick)

    assert sorted(run.sent()) == sorted(f"{g}-{n:03}" for g in range(GROUPS) for n in range(EACH))
    assert in_order(run.sent())
    assert set(run.states()) == {EntryState.PUBLISHED}
    assert run.attempts() == 0
    assert [outage.of for _, outage in run.told.recoveries] == ["MEDIUM"]


def test_the_first_report_of_an_outage_has_its_error_the_later_ones_a_count(sqlite_subject, clock):
    """One line a minute, which names lane, cause and the last failure."""
    run = Faulty(sqlite_subject, clock, tick="10s")
    payments(run, 2, 2)
    run.fail("MEDIUM", "permission")
    run.run(10 * MINUTE)

    (_, first), *later = run.told.outages
    assert (first.of, first.cause, first.failures) == ("MEDIUM", "permission", 1)
    assert "AccessDenied" in str(first.error)
    longest = REPORTED_EVERY.total_seconds() + LONGEST_PAUSE + 10
    assert 10 * MINUTE // longest <= len(later) <= 10
    assert all(outage.error is None and outage.failures > 1 for _, outage in later)
    assert all(b - a >= 60 for (a, _), (b, _) in itertools.pairwise(run.told.outages))


def test_an_outage_of_all_lanes_abandons_nothing(sqlite_subject, clock):
    """And the most urgent leave first when it is over."""
    run = Faulty(sqlite_subject, clock, tick="30s")
    run.write("bulk", priority=-100)
    run.write("urgent", priority=100)
    run.write("usual")
    for lane in ("HIGH", "MEDIUM", "MAIN"):
        run.fail(lane, "unreachable")
    run.run(HOUR)
    for lane in ("HIGH", "MEDIUM", "MAIN"):
        run.fail(lane, None)
    before = len(run.sqs.tried)
    run.run(2 * LONGEST_PAUSE + MINUTE)

    assert run.states() == {EntryState.PUBLISHED: 3}
    assert {one for _, _, one in run.sqs.tried[before:]} == {"bulk", "urgent", "usual"}


def test_a_lane_that_throttles_some_messages_goes_on_with_the_others(sqlite_subject, clock):
    """Each call accepts half of its entries: all are sent soon, in order, without an attempt."""
    run = Faulty(sqlite_subject, clock, tick="1s")
    payments(run)
    throttled = CAUSES["throttled"]

    def half(entries):
        kept = entries[: (len(entries) + 1) // 2]
        url = queue_url("MEDIUM")
        del run.sqs.faults[url]
        answers = {**throttled(entries[len(kept) :]), **run.sqs.send_batch(url, kept)}
        run.sqs.faults[url] = half
        return answers

    run.sqs.faults[queue_url("MEDIUM")] = half
    run.run(MINUTE)

    assert len(run.sent()) == GROUPS * EACH
    assert in_order(run.sent())
    assert run.attempts() == 0


def test_an_entry_that_sqs_refuses_is_the_only_one_to_have_an_attempt(sqlite_subject, clock):
    """Its group waits for it, and the others of its batch and lane go on."""
    run = Faulty(sqlite_subject, clock, tick="1s")
    payments(run, 3, 3)
    accept = run.sqs.send_batch

    def send(url, entries):
        bad = [entry for entry in entries if id_in(entry.message_deduplication_id) == "1-000"]
        good = [entry for entry in entries if entry not in bad]
        answers = accept(url, good) if good else {}
        refused = Refused(code="InvalidMessageContents", reason="no", retryable=False)
        return {**answers, **dict.fromkeys([entry.entry_id for entry in bad], refused)}

    run.sqs.send_batch = send
    run.run(30)

    assert sorted(run.sent()) == [f"{g}-{n:03}" for g in (0, 2) for n in range(3)]
    assert run.told.refused == [("1-000", EntryState.FAILED)]
    assert (run.attempts(), run.told.lanes) == (1, {})


@pytest.mark.parametrize("code", ["InvalidParameterValue", "InvalidMessageContents", "ParamValidationError"])
def test_a_call_that_is_refused_for_one_of_its_entries_costs_only_that_one(sqlite_subject, clock, code):
    """Each is sent alone then: the one at fault has its attempts, the others arrive."""
    run = Faulty(sqlite_subject, clock, tick="1s")
    run.write(*"abcdefgh")
    accept, fail = run.sqs.send_batch, call_error(code, retryable=False)

    def send(url, entries):
        return (
            fail(entries)
            if "c" in {id_in(one.message_deduplication_id) for one in entries}
            else accept(url, entries)
        )

    run.sqs.send_batch = send
    run.run(10 * MINUTE)

    assert sorted(run.sent()) == list("abdefgh")
    assert run.state("c") is EntryState.ABANDONED
    assert run.attempts() == 3


def test_one_entry_that_makes_sqs_fail_does_not_keep_its_lane(sqlite_subject, clock):
    """It is tried alone and set aside, since nobody knows whether the lane or the entry is the reason."""
    run = Faulty(sqlite_subject, clock, tick="1s")
    run.write("poison", priority=40)
    run.write(*(f"p{number}" for number in range(50)))
    accept = run.sqs.send_batch

    def send(url, entries):
        if "poison" in {id_in(one.message_deduplication_id) for one in entries}:
            return CAUSES["server_fault"](entries)
        return accept(url, entries)

    run.sqs.send_batch = send
    run.run(5 * MINUTE)

    assert len(run.sent()) == 50
    assert run.state("poison") is EntryState.PENDING


def test_the_error_of_a_key_is_the_destinations_also_entry_by_entry(sqlite_subject, clock):
    """SQS refuses each entry for the key of its queue."""
    run = Faulty(sqlite_subject, clock, tick="5s")
    payments(run, 3, 3)
    run.sqs.faults[queue_url("MEDIUM")] = refusals("KmsAccessDenied", retryable=False)
    run.run(10 * MINUTE)
    assert (run.attempts(), set(run.told.lanes)) == (0, {("MEDIUM", "permission")})
    run.fail("MEDIUM", None)
    run.run(LONGEST_PAUSE + MINUTE)

    assert run.states() == {EntryState.PUBLISHED: 9}
    assert in_order(run.sent())


def test_every_store_returns_what_a_lane_refuses(subject, clock):
    """Untried, unparked, and due as soon as the lane is."""
    run = Faulty(subject, clock)
    payments(run, 2, 2)
    run.fail("MEDIUM", "credentials")
    run.relay.run_once()
    assert run.states() == {EntryState.PENDING: 4}
    assert run.relay.run_once().is_idle

    run.fail("MEDIUM", None)
    run.relay.run_until(clock() + MINUTE)
    assert run.states() == {EntryState.PUBLISHED: 4}
    assert in_order(run.sent())
