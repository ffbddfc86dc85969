"""The last minutes of the log: waits, failures, running invocations, and resources that are away."""

import json
from datetime import timedelta

import pytest

from lanes.consumer.engines.presence import Presence
from lanes.operate.descriptions import describe
from lanes.operate.log import LogEvent, LogLine
from lanes.operate.recent import MAX_LINES, RecentWorkReader
from lanes.operate.symptoms import away_resources

NOW = 10_000.0
TIMEOUT = timedelta(seconds=30)


class Log:
    """Lines in memory, which notes the periods that were asked for."""

    def __init__(self):
        self.kept = []
        self.asked = []

    def add(self, ago, text="", *, stream="one", **fields):
        """Add a line, so many seconds ago."""
        line = text or json.dumps(fields)
        self.kept.append(LogLine(id=str(len(self.kept)), at=NOW - ago, text=line, stream=stream))

    def handled(self, ago, lane, kind, wait, **fields):
        """Add a message that started so many seconds ago."""
        times = {"sent_at": NOW - ago - wait, "started_at": NOW - ago}
        self.add(ago, event="message_handled", lane=lane, kind=kind, id="m", **times, **fields)

    def lines(self, *, since, until=None, containing=()):
        """Give the lines of a period that contain one of the texts."""
        self.asked.append(NOW - since)
        wanted = (line for line in self.kept if line.at >= since)
        # A source may return other lines too.
        return (
            line for line in wanted if "unasked" in line.text or any(one in line.text for one in containing)
        )


@pytest.fixture
def log():
    """An empty log."""
    return Log()


def read(log, presence=None):
    """Read the last minutes."""
    return RecentWorkReader(log, presence=presence, function_timeout=TIMEOUT, clock=lambda: NOW).read()


def test_waits_are_counted_by_lane_and_kind(log):
    """The nearest rank: each percentile is the wait of a message."""
    for wait in range(1, 101):
        log.handled(10, "MAIN", "order.placed", wait)
    log.handled(5, "MAIN", "order.cancelled", 0.25)
    log.handled(5, "HIGH", "payment", 0.04)

    found = {(one.lane, one.kind): one for one in read(log).waits}

    assert found.keys() == {
        ("HIGH", ""),
        ("HIGH", "payment"),
        ("MAIN", ""),
        ("MAIN", "order.cancelled"),
        ("MAIN", "order.placed"),
    }
    placed = found["MAIN", "order.placed"]
    assert (placed.handled, placed.p50, placed.p99) == (100, timedelta(seconds=50), timedelta(seconds=99))
    assert found["MAIN", ""].handled == 101
    assert found["HIGH", "payment"].p99.total_seconds() == pytest.approx(0.04)


def test_waits_are_of_five_minutes_or_of_an_hour_without_any(log):
    """Five minutes are the span of the rates beside them."""
    log.handled(1800, "MAIN", "rare", 3)
    quiet = read(log)
    assert (log.asked[:2], NOW - quiet.since) == ([300, 3600], 3600)
    assert [one.handled for one in quiet.waits] == [1, 1]

    log.asked.clear()
    log.handled(200, "MAIN", "often", 1)
    assert (NOW - read(log).since, log.asked[1]) == (300, 3600)


def test_a_reading_has_a_limit_and_says_so(log):
    """The part that is missing must not look like none."""
    for _ in range(MAX_LINES + 5):
        log.handled(20, "MAIN", "flood", 1)

    found = read(log)

    assert (found.waits[0].handled, NOW - found.since) == (MAX_LINES, 60)
    assert any("waits are those of the first 10,000 lines" in note for note in found.notes)


def test_failures_are_grouped_by_error_without_numbers_and_ids(log):
    """Each failed attempt counts, also of a message without attempts left."""
    for number in range(3):
        error = f"ValueError: order {number} of 8f3c-{number} has no customer"
        log.add(
            100 - number,
            event="message_failed",
            lane="MAIN",
            kind="order.placed",
            id=f"o-{number}",
            error=error,
        )
    dead = {"event": "message_dead_lettered", "lane": "MAIN", "kind": "order.placed"}
    log.add(50, **dead, id="o-9", error="ValueError: order 9 of 8f3c-9 has no customer")
    log.add(40, **dead, id="t", error="TimeoutError: the warehouse did not answer")
    log.add(30, event="group_blocked", lane="MAIN", kind="order.placed", id="b", error="TimeoutError: again")
    log.add(4000, **dead, id="old", error="TimeoutError: the warehouse did not answer")

    failures = read(log).failures

    assert [(one.attempts, one.dead_letters, one.last_id) for one in failures] == [
        (3, 1, "o-9"),
        (1, 0, "b"),
        (0, 1, "t"),
    ]
    assert [one.code for one in failures] == ["ValueError", "TimeoutError", "TimeoutError"]
    assert failures[0].error == "ValueError: order 0 of 8f3c-0 has no customer"
    assert failures[0].last_at == NOW - 50


def test_a_dead_letter_counts_the_attempt_that_no_other_event_has(log):
    """As its trace does: the last attempt, also one that killed its process; a refused message had none."""
    message = {"lane": "MAIN", "kind": "order.placed", "error": "ValueError: no"}
    for attempt in range(1, 5):
        log.add(100 - attempt, event="message_failed", message_id="m-1", attempt=attempt, **message)
    dead = {"event": "message_dead_lettered", **message}
    log.add(50, message_id="m-1", attempts=5, **dead)
    log.add(49, message_id="m-2", attempts=0, **dead)
    log.add(60, event="message_failed", message_id="m-3", attempt=1, **message)
    log.add(48, message_id="m-3", attempts=1, **dead)

    (failure,) = read(log).failures

    assert (failure.attempts, failure.dead_letters) == (6, 3)


def test_presence_records_show_which_environment_has_which_lane_since_when(log):
    """A released slot and one whose deadline is over run nothing."""
    records = [
        Presence(environment="a", lane="MAIN", records=10, busy=True, until=NOW + 25),
        Presence(environment="b", lane="HIGH", records=1, busy=True, until=NOW + 5),
        Presence(environment="c", lane="MAIN", records=3, busy=False, until=NOW + 1),
        Presence(environment="d", lane="MAIN", records=3, busy=True, until=NOW - 1),
    ]

    running = read(log, presence=lambda: records).running

    assert [(one.environment, one.lane, one.records, NOW - one.since) for one in running] == [
        ("b", "HIGH", 1, 25),
        ("a", "MAIN", 10, 5),
    ]


@pytest.mark.parametrize("form", ["text", "json"])
def test_invocations_that_started_and_have_not_ended_run(log, form):
    """The lane is that of the last event; one without an event has none, and one beyond the timeout is dead."""

    def platform(ago, what, request, **more):
        if form == "text":
            log.add(ago, f"{what} RequestId: {request} Version: 7", **more)
        else:
            names = {"START": "platform.start", "REPORT": "platform.report"}
            log.add(ago, json.dumps({"type": names[what], "record": {"requestId": request}}), **more)

    platform(58, "START", "killed", stream="dead")
    platform(25, "START", "done", stream="x")
    platform(20, "REPORT", "done", stream="x")
    platform(20, "START", "r1", stream="x")
    platform(3, "START", "r2", stream="y")
    log.handled(12, "HIGH", "payment", 1, correlation_id="r1")
    log.handled(9, "MAIN", "order.placed", 1, correlation_id="r1")

    running = read(log).running

    assert [(one.environment, one.lane, NOW - one.since, one.code, one.last) for one in running] == [
        ("x", "MAIN", 20, "message_handled", "handled m"),
        ("y", "", 3, "", ""),
    ]


def test_a_log_without_lambdas_own_lines_leaves_unknown_what_runs(log):
    """Nothing at work would be a guess."""
    log.handled(9, "MAIN", "order.placed", 1)
    log.add(8, "unasked")

    found = read(log)

    assert found.running is None
    assert any("START and REPORT" in note for note in found.notes)


def test_an_empty_log_runs_nothing_and_has_no_waits(log):
    """And says that waits are not known yet."""
    found = read(log)

    assert (found.waits, found.failures, found.running) == ([], [], [])
    assert found.notes == ["waits not yet known: the log has no handled message of the last hour"]


def returned(log, ago, *, kind, delay=60, lane="MAIN", ids=("m-1",), **fields):
    """Add a return of messages that were sent ten minutes before."""
    messages = [{"message_id": one, "kind": kind, "sent_at": NOW - 600} for one in ids]
    log.add(ago, event="batch_returned", lane=lane, delay=delay, messages=messages, **fields)


def symptoms(log):
    """Return what is wrong, in words."""
    return [str(one) for one in read(log).symptoms]


def test_kinds_without_a_handler_are_named_with_count_and_age(log):
    """Each message once, until it is done or has not come again."""
    log.handled(20, "MAIN", "order.placed", 1)
    for ago in (100, 40):
        returned(log, ago, kind="order.placd", reason="unknown_kind", ids=("m-1", "m-2"))
    returned(log, 50, kind="weird", lane="HIGH", reason="unknown_kind", ids=("m-3",))
    returned(log, 200, kind="gone", reason="unknown_kind", ids=("m-4",))
    returned(log, 30, kind="order.late", reason="unknown_kind", ids=("m-5",))
    log.handled(10, "MAIN", "order.late", 1, message_id="m-5")
    returned(log, 30, kind="behind", reason="behind", ids=("m-6",))
    returned(log, 30, kind="order.wrong", reason="unknown_kind", ids=("m-7",))
    log.add(10, event="message_cancelled", lane="MAIN", message_id="m-7")

    assert symptoms(log) == [
        (
            "order.placd has no handler: 2 messages in MAIN, the oldest sent 10 min ago; did you mean order.placed? "
            "[runbook: unknown-kinds]"
        ),
        "weird has no handler: 1 message in HIGH, the oldest sent 10 min ago [runbook: unknown-kinds]",
    ]


@pytest.mark.parametrize("reason", ["away", "alone"])
def test_a_resource_that_is_away_for_some_messages_is_named_with_its_reason(log, reason):
    """However long they stay away; those of an outage of all are told by its own line."""
    returned(log, 800, kind="charge", delay=900, reason=reason, error="bank 7 is closed")

    assert symptoms(log) == [
        (
            "charge: resource away for 1 message in MAIN, the oldest sent 10 min ago, others are handled "
            "(bank 7 is closed) [runbook: resource-away]"
        )
    ]
    away = {"resource": "bank", "reason": "no", "since": NOW - 90, "tries": 3, "next_at": NOW + 5}
    log.add(10, event="resource_away", lane="MAIN", **away)
    assert symptoms(log) == [f"{read(log).away[0].describe(NOW)} [runbook: resource-away]"]


def test_an_import_that_fails_and_killed_invocations_come_first(log):
    """Until a message is handled by code that starts."""
    returned(log, 10, kind="weird", reason="unknown_kind")
    failed = {"queue": "q", "records": 1, "messages": [{"message_id": "m-9"}]}
    trace = "Traceback\n  File \"handler.py\"\nModuleNotFoundError: No module named 'bank'"
    log.add(50, event="import_failed", exception=trace, **failed)
    log.add(40, event="import_failed", exception=trace, **failed)
    log.add(30, "2027-01-15T08:00:00Z r Task timed out after 30.00 seconds")

    first, second, _ = symptoms(log)

    assert first == (
        "the function's module can't be imported since 02:45:50Z at the latest, and 1 message came back: "
        "ModuleNotFoundError: No module named 'bank' [runbook: errors]"
    )
    assert second == (
        "1 invocation ended without an answer, the last one at 02:46:10Z: Task timed out after 30.00 seconds "
        "[runbook: errors]"
    )
    log.handled(5, "MAIN", "order.placed", 1)
    assert len(symptoms(log)) == 2


EIGHT = 1_800_000_000.0  # 08:00:00Z
LATE = 60.0


def away(ago, *, slot="one", lane="MAIN", resource="bank", **fields):
    """Return a failed try, so many seconds ago."""
    known = {"since": EIGHT - 600, "tries": 12, "next_at": EIGHT + 20, "reason": "OSError: refused"} | fields
    return event("resource_away", ago, slot, lane=lane, resource=resource, **known)


def back(ago, *, slot="one", resource="bank"):
    """Return a try that found the resource, so many seconds ago."""
    return event("resource_back", ago, slot, lane="MAIN", resource=resource, seconds=1.0)


def event(name, ago, slot, **fields):
    """Return an event of the log."""
    line = LogLine(id="", at=EIGHT - ago, text=json.dumps(fields), stream=slot)
    return LogEvent(line=line, name=name, fields=fields)


def described(*events):
    """Describe what is away now."""
    return [one.describe(EIGHT) for one in away_resources(events, now=EIGHT, late=LATE)]


def test_a_resource_is_away_since_its_first_failed_call_until_its_next_try():
    """The latest try of a slot counts its earlier ones."""
    earlier = away(100, tries=11, next_at=EIGHT - 40)

    assert described(away(40), earlier) == [
        "bank away since 07:50:00Z, 12 tries, next 08:00:20Z; last 07:59:20Z (OSError: refused)"
    ]


def test_the_tries_of_all_slots_are_added_and_the_next_of_any_is_shown():
    """Two of them share a log stream, and began at different times."""
    one = away(30, since=EIGHT - 86_400, tries=4, next_at=EIGHT + 30)
    two = away(20, since=EIGHT - 500, tries=5, next_at=EIGHT + 10, lane="HIGH")
    three = away(10, slot="other", tries=6, next_at=EIGHT + 50, reason="closed")

    (found,) = away_resources([one, two, three], now=EIGHT, late=LATE)

    assert found.describe(EIGHT) == (
        "bank away since 2027-01-14 08:00:00Z, 15 tries by 3 slots, next 08:00:10Z; last 07:59:50Z (closed)"
    )
    assert found.lanes == ["HIGH", "MAIN"]


def test_a_resource_that_any_slot_found_again_is_not_away():
    """Until a later try finds it away once more; another resource is of no account."""
    first, found = away(50, slot="one"), back(40, slot="two")

    assert described(first, found) == []
    assert described(found, first, back(5, resource="mail")) == []
    (again,) = described(first, found, away(30, slot="three", tries=3, since=EIGHT - 35))
    assert again.startswith("bank away since 07:59:25Z, 3 tries, next")


def test_a_resource_that_no_slot_tries_any_more_is_unknown():
    """A slot that ended says nothing: neither that it is away nor that it is back."""
    assert described(away(200, next_at=EIGHT - LATE + 1))[0].startswith(
        "bank away since 07:50:00Z, 12 tries, next 07:59:01Z"
    )
    assert described(away(200, next_at=EIGHT - LATE)) == [
        "bank unknown: away since 07:50:00Z, 12 tries at the last try, 07:56:40Z (OSError: refused)"
    ]


def test_one_overdue_slot_is_not_counted_among_those_that_wait():
    """Its tries are."""
    ended, waits = away(300, slot="one", tries=4, next_at=EIGHT - 240), away(9, slot="two", tries=5)

    assert described(ended, waits)[0].startswith("bank away since 07:50:00Z, 9 tries, next 08:00:20Z")


@pytest.mark.parametrize("lacking", ["since", "tries", "next_at"])
def test_what_a_slot_of_another_release_did_not_log_is_unknown(lacking):
    """No figure is made up."""
    (found,) = away_resources([away(10, **{lacking: None})], now=EIGHT, late=LATE)

    assert getattr(found, lacking) is None
    assert "unknown" in found.describe(EIGHT)


def test_an_event_of_one_slot_is_described_in_the_same_words():
    """In `lanes tail`, and in the page's list of events."""
    fields = away(0).fields

    assert describe("resource_away", fields) == (
        "resource away",
        "bank away since 07:50:00Z, 12 tries by this slot, next 08:00:20Z (OSError: refused)",
    )
    assert describe("resource_back", {"resource": "bank", "seconds": 90.0}) == (
        "resource back",
        "bank back after 90 s, as this slot found it",
    )
