"""The timeline of a message: what its events say, what nobody saw, where it is."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.config import EngineName
from lanes.consumer.ledger import Ending, Entry, Park
from lanes.consumer.outcome import Reason
from lanes.operate.audit import AuditEntry
from lanes.operate.descriptions import RETURN_REASONS, describe, format_seconds
from lanes.operate.log import LogLine, read_event
from lanes.operate.trace import Sources, build_trace, by_generation
from lanes.outbox.entry import Entry as OutboxEntry
from lanes.outbox.entry import EntryState

NOW = 1_800_000_000.0
ME = {"message_id": "sqs-1", "id": "order-7", "kind": "order.placed", "group": "g"}


def line(name, *, at, lane="MAIN", **fields):
    """Give the line of an event, `at` seconds after the message was sent."""
    text = json.dumps({"level": "INFO", "event": name, "lane": lane, **fields})
    return LogLine(id=f"{name}-{at}", at=NOW + at, text=text)


def handled(at, receive, **more):
    took = {"sent_at": NOW, "started_at": NOW + at - 0.1, "finished_at": NOW + at}
    return line("message_handled", at=at, attempt=1, receive_count=receive, **{**ME, **took, **more})


def failed(at, receive, *, delay=2, **more):
    known = {**ME, "sent_at": NOW, "error": "ValueError: no", **more}
    return line("message_failed", at=at, attempt=1, receive_count=receive, delay=delay, **known)


def yielded(at, receive, *, delay=10):
    mine = {**ME, "receive_count": receive}
    other = {**ME, "message_id": "sqs-2", "id": "order-8", "receive_count": 1}
    return line("batch_yielded", at=at, to_lane="HIGH", records=2, delay=delay, messages=[mine, other])


def tales(*lines, message_id="sqs-1"):
    events = [read_event(one) for one in lines]
    return [tale for event in events for tale in event.by_message() if tale.message_id == message_id]


def traced(*lines, now=NOW + 1000, since=NOW - 1000, **sources):
    return build_trace("order-7", Sources(events=tales(*lines), now=now, since=since, **sources))


def shape(trace):
    return [(step.what, step.receive) for step in trace.steps]


def test_a_message_that_is_handled_at_once():
    """Sent and handled; nothing else happened."""
    trace = traced(handled(0.5, 1))

    assert shape(trace) == [("sent", ""), ("handled", "1")]
    assert (trace.id, trace.kind, trace.group, trace.message_ids) == (
        "order-7",
        "order.placed",
        "g",
        ["sqs-1"],
    )
    assert trace.status == "done (receives 1, handled 1)"
    assert trace.steps[1].why == "attempt 1 succeeded in 100 ms"


def test_a_yield_a_waking_a_failure_and_a_success():
    """In order, each with its cause, and the time that it waited for its turn."""
    trace = traced(
        yielded(1, 1),
        line("batch_woken", at=4, by_lane="HIGH", records=1, message_ids=["sqs-1"]),
        failed(9, 2, delay=5),
        handled(20, 3),
    )

    assert shape(trace) == [("sent", ""), ("yielded", "1"), ("woken", ""), ("failed", "2"), ("handled", "3")]
    assert "to HIGH" in trace.steps[1].why
    assert "when HIGH was done" in trace.steps[2].why
    assert "it had waited 5 s since it was woken" in trace.steps[3].why
    assert "it had waited 5.9 s since its backoff ended" in trace.steps[4].why
    assert trace.status == "done (receives 3, handled 1, failed 1, yielded 1)"


def test_the_last_failure_counts_although_only_the_dead_letter_tells_of_it():
    """Three attempts of three failed; a message that its handler gave up at once had one."""
    dead = line(
        "message_dead_lettered", at=20, attempts=3, receive_count=3, reason="attempts exhausted", **ME
    )
    refused = line("message_dead_lettered", at=1, attempts=0, receive_count=1, reason="no handler", **ME)

    status = traced(failed(1, 1), failed(9, 2), dead).status

    assert status.endswith("(receives 3, failed 3, dead-lettered 1)")
    assert traced(refused).status.endswith("(receives 1, dead-lettered 1)")


@given(order=st.permutations(range(4)))
def test_the_order_of_the_lines_does_not_matter(order):
    """CloudWatch gives them by streams, and late ones later."""
    lines = [yielded(1, 1), failed(9, 2), failed(14, 4), handled(20, 5)]

    assert traced(*[lines[place] for place in order]) == traced(*lines)


@given(
    receives=st.lists(st.integers(1, 12), min_size=1, max_size=12, unique=True),
    shuffled=st.randoms(use_true_random=False),
)
def test_every_receive_is_in_the_timeline_once(receives, shuffled):
    """Those that were told of as they were told, the others as not seen, whatever the clocks and the order say."""
    lines = [failed(10 * receive, receive) for receive in receives]
    shuffled.shuffle(lines)

    trace = traced(*lines)

    listed = []
    for step in trace.steps:
        first, _, last = step.receive.partition(" to ")
        if first:
            numbers = range(int(first), int(last or first) + 1)
            listed += [(number, step.what) for number in numbers]
    expected = [
        (number, "failed" if number in receives else "throttled") for number in range(1, max(receives) + 1)
    ]
    assert listed == expected


def test_a_receive_that_nobody_tells_of_was_held_by_the_mapping():
    """It stands where it could have happened at the earliest."""
    trace = traced(yielded(1, 1), handled(500, 4))

    assert shape(trace) == [("sent", ""), ("yielded", "1"), ("throttled", "2 to 3"), ("handled", "4")]
    assert (trace.steps[2].at, trace.steps[2].is_seen) == (NOW + 11, False)


@pytest.mark.parametrize(
    ("engine", "label"),
    [(EngineName.MAPPINGS, "throttled"), (EngineName.PULL, "not reported"), (None, "not reported")],
)
def test_only_the_mapped_engine_has_throttled_receives(engine, label):
    """Without mappings on the lanes Lambda holds no message; the engine of a log file is unknown."""
    trace = traced(failed(1, 1), handled(500, 3), engine=engine)

    assert shape(trace) == [("sent", ""), ("failed", "1"), (label, "2"), ("handled", "3")]
    assert ("Lambda" in trace.steps[2].why) is (engine is not EngineName.PULL)


def test_in_the_pull_engine_no_mapping_holds_a_message():
    """A slot may have it in hand."""
    trace = traced(failed(1, 1, delay=5), now=NOW + 11, engine=EngineName.PULL)

    assert "it waits in the queue, is in the hands of a slot, or is being handled" in trace.status


def test_a_batch_set_aside_says_so():
    """The pull engine returns it at once for another slot; a yield at a checkpoint parks nothing either."""
    aside = line(
        "batch_returned", at=0.5, reason="aside", records=1, delay=0, messages=[{**ME, "receive_count": 1}]
    )

    trace = traced(aside, yielded(0.7, 2, delay=0), handled(0.9, 3), engine=EngineName.PULL)

    assert [step.why for step in trace.steps[1:3]] == [
        f"{RETURN_REASONS['aside']}; visible again at once",
        "to HIGH, which has a backlog; visible again at once",
    ]


def test_events_of_a_process_name_its_slot():
    """What `lanes tail` shows of `lanes work`."""
    assert describe("slot_stopped", {"event": "slot_stopped", "slot": 1, "pid": 7, "exit_code": 3}) == (
        "slot stopped",
        "slot 1, pid 7, exit_code 3",
    )


def test_a_crash_in_that_time_is_the_likelier_cause():
    """Lambda's own line tells of it."""
    crash = LogLine(
        id="x", at=NOW + 40, text="2027-01-15T08:00:40Z 5af6 Task timed out after 30.00 seconds\n\n"
    )

    trace = traced(handled(500, 2), crashes=[crash])

    assert shape(trace) == [("sent", ""), ("crashed?", "1"), ("handled", "2")]
    assert "Task timed out after 30.00 seconds" in trace.steps[1].why


def test_a_crash_at_another_time_is_none_of_its():
    """Before the last thing that was seen of it, or after it came back."""
    crash = LogLine(id="x", at=NOW + 600, text="Task timed out after 30.00 seconds")

    assert ("throttled", "1") in shape(traced(handled(500, 2), crashes=[crash]))


def test_receives_before_the_time_that_was_looked_through_are_not_called_throttled():
    """They may well have been told of."""
    trace = traced(handled(500, 3), since=NOW + 100)

    assert shape(trace) == [("sent", ""), ("not seen", "1 to 2"), ("handled", "3")]


def test_an_exception_and_the_end_of_its_attempt_are_one_step():
    """The attempt's end says the same and more."""
    raised = line("handler_failed", at=0.9, message_id="sqs-1", level="WARNING", exception="ValueError: no")

    assert shape(traced(raised, failed(1, 1))) == [("sent", ""), ("failed", "1")]
    assert shape(traced(raised)) == [("handler failed", "")]


def test_the_attempts_of_a_message_that_blocks_its_group_are_not_blamed_on_throttling():
    """Each event has the attempt, the error and the next try."""
    trace = traced(
        line("handler_failed", at=1.0, message_id="sqs-1", exception="ValueError: no"),
        line("group_blocked", at=1.0, **ME, receive_count=1, error="ValueError: no", attempt=1, delay=900),
        handled(910, 2),
    )

    assert shape(trace) == [("sent", ""), ("group blocked", "1"), ("handled", "2")]
    assert trace.steps[1].why.startswith(
        "its group waits: attempt 1: ValueError: no; next attempt in 15 min at the earliest"
    )
    assert "since its backoff ended" in trace.steps[2].why


def test_a_redriven_message_lives_again():
    """With another id of SQS; the audit trail tells who redrove."""
    first = line(
        "message_dead_lettered",
        at=5,
        receive_count=1,
        sent_at=NOW,
        attempts=1,
        yields=0,
        reason="no",
        error="",
        **ME,
    )
    again = handled(100, 1, message_id="sqs-9", sent_at=NOW + 99.5)
    audit = AuditEntry(
        id="a", at=NOW + 95, who="anna", action="dead-letters redrive", target="MAIN", details={}
    )
    both = [*tales(first), *tales(again, message_id="sqs-9")]

    trace = build_trace("order-7", Sources(events=both, audits=[audit], now=NOW + 200, since=NOW - 1))

    assert shape(trace) == [("sent", ""), ("dead-lettered", "1"), ("sent", ""), ("handled", "1")]
    assert trace.message_ids == ["sqs-1", "sqs-9"]
    assert trace.steps[2].why == "to MAIN again, while anna redrove dead letters"
    without = build_trace("order-7", Sources(events=both, now=NOW + 200, since=NOW - 1))
    assert "other means" in without.steps[2].why
    assert trace.status == "done (receives 1, handled 1)"


def test_a_message_that_could_not_be_moved_says_why():
    """An override made it too large for SQS, so it was handled in its lane."""
    kept = line(
        "message_not_moved", at=5, to_lane="HIGH", receive_count=1, sent_at=NOW, override="o-1", size_bytes=1_048_590,
        **ME,
    )  # fmt: skip

    trace = traced(kept, handled(6, 1))

    assert shape(trace) == [("sent", ""), ("not moved", "1"), ("handled", "1")]
    assert "by override o-1" in trace.steps[1].why
    assert "1048590 bytes" in trace.steps[1].why
    assert trace.status.startswith("done")


def test_a_moved_message_goes_on_in_its_new_lane():
    """The override sent a copy there."""
    moved = line("message_moved", at=5, to_lane="HIGH", receive_count=1, sent_at=NOW, override="o-1", **ME)
    there = line(
        "message_handled", at=9, lane="HIGH", attempt=1, receive_count=1, started_at=NOW + 8,
        finished_at=NOW + 9, **{**ME, "message_id": "sqs-9", "sent_at": NOW + 5.1},
    )  # fmt: skip
    both = [*tales(moved), *tales(there, message_id="sqs-9")]

    trace = build_trace("order-7", Sources(events=both, now=NOW + 200, since=NOW - 1))

    assert [(step.what, step.lane) for step in trace.steps] == [
        ("sent", "MAIN"), ("moved", "MAIN"), ("sent", "HIGH"), ("handled", "HIGH"),
    ]  # fmt: skip
    assert trace.steps[1].why.startswith("to HIGH by override o-1")
    assert trace.steps[2].why == "to HIGH, by the override"


def test_an_entry_of_the_outbox_comes_first():
    """When it was written, and when the relay had published it."""
    entry = OutboxEntry(
        id="order-7", kind="order.placed", source="s", group="g", body="{}", priority=5, lane="MAIN",
        position=int((NOW - 3) * 1e6), created_at=NOW - 3, state=EntryState.PUBLISHED, published_at=NOW - 1,
    )  # fmt: skip

    trace = traced(handled(0.5, 1), outbox=entry)

    assert shape(trace) == [("written", ""), ("published", ""), ("sent", ""), ("handled", "1")]
    waiting = traced(outbox=entry)
    assert "the consumer has logged no event of it yet" in waiting.status
    assert (waiting.id, waiting.is_known) == ("order-7", True)


@pytest.mark.parametrize(
    ("lines", "now", "words"),
    [
        ([failed(1, 1, delay=60)], 11, "in MAIN, visible again in 50 s"),
        ([failed(1, 1, delay=5)], 11, "it waits in the queue, is held by the mapping for a slot, or is being handled"),
        ([yielded(1, 1)], 3, "in MAIN, visible again in 8 s"),
        ([yielded(1, 1), line("batch_woken", at=2, message_ids=["sqs-1"])], 3, "it waits in the queue"),
        ([line("message_cancelled", at=1, receive_count=1, **ME)], 3, "deleted from its queue"),
        ([line("message_dead_lettered", at=1, receive_count=1, **ME)], 3, "in the dead-letter queue of MAIN"),
    ],
    ids=["backing off", "backed off", "parked", "woken", "cancelled", "dead"],
)  # fmt: skip
def test_where_it_is_now(lines, now, words):
    """As far as the log tells."""
    assert words in traced(*lines, now=NOW + now).status


def test_the_ledger_tells_what_the_log_does_not():
    """A later receive, or the only trace there is."""
    entry = Entry(
        lane="MAIN",
        message_id="sqs-1",
        attempts=2,
        yields=3,
        ending=Ending.STARTED,
        noted_receive=6,
        noted_at=NOW + 50,
    )

    both = traced(failed(1, 1), entries=[entry], now=NOW + 60)
    alone = traced(entries=[entry], now=NOW + 60)

    assert "10 s ago at receive 6: an attempt began and has not ended" in both.status
    assert alone.status.startswith("the log has no event of it; the ledger of MAIN")
    assert (alone.is_known, alone.message_ids) == (True, ["sqs-1"])


def test_a_parked_message_says_for_how_long():
    """The ledger knows the end of its parking, which can be later than the event said."""
    entry = Entry(
        lane="MAIN",
        message_id="sqs-1",
        noted_receive=1,
        park=Park.REST,
        parked_until=NOW + 90,
        noted_at=NOW + 1,
    )

    assert "parked for 30 s more" in traced(failed(1, 1), entries=[entry], now=NOW + 60).status


def test_nothing_is_known_of_an_id_never_seen():
    """And no step is made up."""
    trace = traced()

    assert (trace.is_known, trace.steps, trace.status) == (False, [], "unknown")


def test_an_read_event_a_later_release_is_told_as_it_is():
    """Its name in words, and what it carries."""
    trace = traced(line("message_put_off", at=1, receive_count=1, until="noon", **ME))

    assert (trace.steps[0].what, trace.steps[0].why) == ("put off", "until noon")


@pytest.mark.parametrize(
    "text", ["plain words", "{}", '{"event": 7}', "[1]", '{"event": "cut', '{"_aws": {}}', "{" * 100_000]
)
def test_lines_that_are_no_events_are_passed_over(text):
    """Metrics, a handler's own prints, lines that were cut."""
    assert read_event(LogLine(id="1", at=1.0, text=text)) is None


@pytest.mark.parametrize("messages", [None, "x", [None, {}, {"id": "only"}], {"message_id": "m"}])
def test_an_read_event_another_shape_tells_of_no_message(messages):
    """It is nobody's, and harms nobody."""
    event = read_event(
        LogLine(id="1", at=1.0, text=json.dumps({"event": "batch_yielded", "messages": messages}))
    )

    assert event.by_message() == []


def test_lives_are_in_the_order_of_their_beginnings():
    """Whatever the order of the events."""
    late, early = handled(9, 1, message_id="b"), handled(2, 1, message_id="a")

    lives = by_generation([*tales(late, message_id="b"), *tales(early, message_id="a")])

    assert list(lives) == ["a", "b"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0123, "12 ms"),
        (-1, "0 s"),
        (1.5, "1.5 s"),
        (99, "99 s"),
        (120, "2 min"),
        (150, "2 min 30 s"),
        (3_600, "1 h"),
        (7260, "2 h 1 min"),
        (187_200, "2 d 4 h"),
        (None, "an unknown time"),
    ],
)
def test_durations_in_words(value, text):
    """Short enough for a line."""
    assert format_seconds(value) == text


def test_reasons_of_returns_are_explained():
    """Each that the consumer knows."""
    assert {reason.value for reason in Reason} <= set(RETURN_REASONS)
    assert "keeps its order" in describe("batch_returned", {"reason": "behind", "delay": 3})[1]
