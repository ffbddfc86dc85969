"""Finding what the log, the ledger, the outbox and the audit trail have of a message or of a trace."""

import json

import pytest

from lanes.config import LanesConfig
from lanes.consumer.ledger import Entry
from lanes.errors import AwsError
from lanes.operate.audit import AuditEntry
from lanes.operate.log import LogLine
from lanes.operate.tracer import MAX_IDS, Tracer, messages_of, trace_id_in

NOW = 1_800_000_000.0


class FakeLogs:
    """Lines, found as CloudWatch does: by what they contain."""

    def __init__(self):
        self.all = []
        self.asked = []

    def add(self, at, *, text=None, **fields):
        text = text or json.dumps(fields)
        self.all.append(LogLine(id=str(len(self.all)), at=NOW + at, text=text))

    def lines(self, *, since, until=None, containing=()):
        self.asked += containing
        return [
            line
            for line in self.all
            if any(text in line.text for text in containing) and since <= line.at <= (until or float("inf"))
        ]


class Elsewhere:
    """Ledger, audit trail and outbox, each of which can be out of reach."""

    def __init__(self):
        self.known, self.audits, self.out_of_reach = {}, [], False

    def _check(self):
        if self.out_of_reach:
            raise AwsError(operation="Any", code="AccessDenied", retryable=False)

    def read(self, lane, message_ids):
        self._check()
        return {one: self.known[lane, one] for one in message_ids if (lane, one) in self.known}

    def entries(self, *, since, limit):
        self._check()
        return self.audits

    def find(self, entry_id, group):
        self._check()


@pytest.fixture
def logs():
    return FakeLogs()


@pytest.fixture
def elsewhere():
    return Elsewhere()


@pytest.fixture
def notes():
    return []


@pytest.fixture
def trace(logs, elsewhere, notes):
    """Trace an id through the last hour."""
    tracer = Tracer(
        config=LanesConfig(),
        logs=logs,
        ledger=elsewhere.read,
        audit=elsewhere,
        outbox=elsewhere.find,
        note=notes.append,
        clock=lambda: NOW,
    )
    return lambda wanted: tracer.trace(wanted, since=NOW - 3600)


def told(name, message_id, receive, *, id="order-7", **more):
    common = {
        "lane": "MAIN",
        "message_id": message_id,
        "id": id,
        "receive_count": receive,
        "sent_at": NOW - 900,
    }
    return {"event": name, **common, **more}


@pytest.mark.parametrize("wanted", ["order-7", "sqs-1", "sqs-2"])
def test_each_id_leads_to_all_lives(logs, trace, wanted):
    """The message's own, and each that SQS gave it."""
    logs.add(-800, **told("message_dead_lettered", "sqs-1", 1))
    logs.add(-700, event="batch_woken", lane="MAIN", message_ids=["sqs-2"])
    logs.add(-600, **told("message_handled", "sqs-2", 1))

    found = trace(wanted)

    assert found.message_ids[:2] == ["sqs-1", "sqs-2"]
    assert [step.what for step in found.steps if step.what != "sent"] == ["dead-lettered", "woken", "handled"]


def test_an_id_that_is_part_of_another_finds_its_own_only(logs, trace):
    """CloudWatch finds texts, not fields."""
    logs.add(-800, **told("message_handled", "sqs-1", 1, id="order-7"))
    logs.add(-800, **told("message_handled", "sqs-2", 1, id="order-77"))

    assert trace("order-7").message_ids[0] == "sqs-1"
    assert "sqs-2" not in trace("order-7").message_ids


def test_others_of_its_batch_are_not_followed(logs, trace):
    """A yield tells of up to ten messages."""
    both = [{"message_id": "sqs-1", "id": "a", "receive_count": 1}, {"message_id": "sqs-2", "id": "b"}]
    logs.add(-800, event="batch_yielded", lane="MAIN", to_lane="HIGH", delay=3, messages=both)

    assert trace("a").message_ids[0] == "sqs-1"
    assert sorted(logs.asked) == ["a", "sqs-1"]


def test_the_ledger_is_asked_in_every_lane(elsewhere, trace):
    """A message id doesn't tell its lane."""
    entry = Entry(lane="MEDIUM", message_id="sqs-1", attempts=1, noted_receive=1, noted_at=NOW - 5)
    elsewhere.known["MEDIUM", "sqs-1"] = entry

    assert "the ledger of MEDIUM" in trace("sqs-1").status


def test_what_is_out_of_reach_is_noted_and_done_without(logs, elsewhere, trace, notes):
    """The log alone is indispensable."""
    elsewhere.out_of_reach = True
    logs.add(-600, **told("message_handled", "sqs-1", 1))
    logs.add(-500, **told("message_handled", "sqs-2", 1))

    assert trace("order-7").is_known
    assert [note.partition(" could")[0] for note in notes] == ["the ledger", "the outbox", "the audit trail"]


def test_the_audit_trail_is_read_for_a_message_that_lived_again(logs, elsewhere, trace):
    """It says who redrove it."""
    elsewhere.audits = [
        AuditEntry(id="a", at=NOW - 905, who="anna", action="dead-letters redrive", target="MAIN", details={})
    ]
    logs.add(-950, **told("message_dead_lettered", "sqs-1", 1))
    logs.add(-600, **told("message_handled", "sqs-2", 1))

    assert any("anna" in step.why for step in trace("order-7").steps)


def test_crashes_are_looked_for_only_where_a_receive_is_missing(logs, trace):
    """And taken as the cause where one lies between."""
    logs.add(-800, **told("message_failed", "sqs-1", 1, delay=2))
    logs.add(-700, text="REPORT 2027 Task timed out after 30.00 seconds")
    logs.add(-600, **told("message_handled", "sqs-1", 3))

    found = trace("order-7")

    assert [step.what for step in found.steps] == ["sent", "failed", "crashed?", "handled"]
    logs.asked.clear()
    trace("nobody")
    assert logs.asked == ["nobody"]


def test_the_search_ends(logs, trace):
    """Also where each message leads to another one, as one id used for everything would."""
    for number in range(3 * MAX_IDS):
        logs.add(-800 + number, **told("message_handled", f"sqs-{number:03}", 1))

    trace("order-7")

    assert len(logs.asked) == MAX_IDS


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


class Log:
    """Lines in memory, at least those that contain what is looked for."""

    def __init__(self, *events):
        self.kept = [
            LogLine(id=str(at), at=float(at), text=text if isinstance(text, str) else json.dumps(text))
            for at, text in enumerate(events)
        ]

    def lines(self, *, since, until=None, containing=()):
        return [
            line for line in self.kept if line.at >= since and any(text in line.text for text in containing)
        ]


def event(name, message, *, lane="HIGH", trace=TRACE, **fields):
    """Give an event of a message."""
    return {
        "event": name,
        "lane": lane,
        "message_id": f"sqs-{message}",
        "id": message,
        "kind": f"kind.of.{message}",
        "trace_id": trace,
        **fields,
    }


def test_the_messages_of_a_trace_come_in_time_with_what_became_of_them_at_last():
    """In every lane; neither those of other traces nor a handler's own words about this one."""
    log = Log(
        event("message_failed", "order", attempt=1, error="ValueError: no", delay=2),
        event("message_handled", "other", trace="a" * 32),
        event("message_handled", "order", attempt=2, started_at=2.0, finished_at=2.5),
        f"the stock was asked in {TRACE}",
        {"event": "noted", "message_id": "x", "note": TRACE},
        event("message_dead_lettered", "receipt", lane="MAIN", reason="no paper"),
    )

    found = messages_of(TRACE, log, since=0.0)

    assert [(one.at, one.lane, one.id, one.kind, one.what) for one in found] == [
        (0.0, "HIGH", "order", "kind.of.order", "handled"),
        (5.0, "MAIN", "receipt", "kind.of.receipt", "dead-lettered"),
    ]
    assert "no paper" in found[1].why


def test_a_body_without_an_id_goes_by_what_sqs_calls_it():
    """An exception's report names no more than that."""
    log = Log({"event": "handler_failed", "lane": "HIGH", "message_id": "sqs-1", "trace_id": TRACE})

    (found,) = messages_of(TRACE, log, since=0.0)

    assert (found.id, found.kind) == ("sqs-1", "")


def test_what_is_older_is_not_looked_at():
    """As the log itself does it."""
    log = Log(event("message_handled", "order"), event("message_handled", "receipt"))

    assert [one.id for one in messages_of(TRACE, log, since=1.0)] == ["receipt"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (TRACE, TRACE),
        (f"1-{TRACE[:8]}-{TRACE[8:]}", TRACE),
        (f"00-{TRACE}-00f067aa0ba902b7-01", TRACE),
        (TRACE[1:], None),
        ("order-7", None),
        (f"00-{'0' * 32}-00f067aa0ba902b7-01", None),
    ],
)
def test_the_id_of_a_trace_is_known_in_each_of_its_forms(text, expected):
    """As such, as X-Ray writes it, or within a traceparent."""
    assert trace_id_in(text) == expected
