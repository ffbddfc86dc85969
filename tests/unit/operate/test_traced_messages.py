"""The messages of one trace, found in a log."""

import json

import pytest

from lanes.operate.log import LogLine
from lanes.operate.tracer import messages_of, trace_id_in

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
