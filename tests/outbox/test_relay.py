"""The pauses of a relay, and an outage of its store."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from io import BytesIO

import pytest

from lanes.aws.outbox_telemetry import PowertoolsRelayTelemetry
from lanes.errors import InvalidMessageError, OutboxStoreError
from lanes.message import LARGEST_BODY_BYTES, size_bytes
from lanes.outbox import EntryFilter, Operator
from lanes.outbox.entry import LARGEST_PRIORITY, EntryState
from lanes.outbox.outbox import ROOM_BYTES
from lanes.trace_context import continuing_trace
from tests.support.outbox import Run
from tests.support.waiting import until


def test_an_idle_relay_pauses_ever_longer_and_wakes_at_once(sqlite_subject, clock):
    """Up to the tick; work resets the pause."""
    run = Run(sqlite_subject, clock)
    pauses = []

    def pause(length):
        pauses.append(length)
        if len(pauses) == 5:
            run.write("a")

    run.relay.run(should_stop=lambda: len(pauses) == 6, pause=pause)
    assert pauses == [timedelta(milliseconds=50 * factor) for factor in (1, 2, 4, 5, 5, 1)]
    assert run.sent() == ["a"]


def test_an_outage_of_the_store_is_waited_out(sqlite_subject, clock, monkeypatch):
    """A relay that polls does not end for what passes, and ends for what does not."""
    run = Run(sqlite_subject, clock)
    run.write("a")
    claim = sqlite_subject.store.claim
    outages = iter([OutboxStoreError("gone", retryable=True)] * 2)

    def unsteady(*args, **kwargs):
        if outage := next(outages, None):
            raise outage
        return claim(*args, **kwargs)

    monkeypatch.setattr(sqlite_subject.store, "claim", unsteady)
    pauses = []
    run.relay.run(should_stop=lambda: len(pauses) == 3, pause=pauses.append)
    assert run.sent() == ["a"]
    assert len(pauses) == 3

    outages = iter([OutboxStoreError("no such table", retryable=False)])
    with pytest.raises(OutboxStoreError, match="no such table"):
        run.relay.run(should_stop=lambda: False, pause=pauses.append)


TRACE = f"00-{'a' * 32}-{'b' * 16}-01"


def test_the_largest_entry_can_be_sent_with_another_priority_and_the_relays_trace(sqlite_subject, clock):
    """Both make its body longer after it was written."""
    run = Run(sqlite_subject, clock)
    size = LARGEST_BODY_BYTES - ROOM_BYTES - size_bytes(run.outbox.prepare("k", "", id="large").body)
    with pytest.raises(InvalidMessageError, match="at most 1,048,476"):
        run.outbox.prepare("k", "x" * (size + 1), id="large")
    entry = run.outbox.prepare("k", "x" * size, id="large")
    sqlite_subject.write(entry)
    operator = Operator(store=sqlite_subject.operations, config=run.config, who="ops", clock=clock)
    assert operator.prioritize(EntryFilter(), -LARGEST_PRIORITY) == 1

    with continuing_trace(TRACE):
        assert run.relay.run_once().published == 1
    assert run.state("large") is EntryState.PUBLISHED


def test_a_message_that_its_sender_makes_too_large_ends_no_relay(sqlite_subject, clock):
    """Another program wrote it; the others of its batch are sent."""
    run = Run(sqlite_subject, clock)
    entry = run.outbox.prepare("k", "", id="large")
    body = entry.body.replace('"data":""', f'"data":"{"x" * (LARGEST_BODY_BYTES - size_bytes(entry.body))}"')
    sqlite_subject.write(replace(entry, body=body))
    run.write("a", "b")

    with continuing_trace(TRACE):
        outcome = run.relay.run_once()

    assert (outcome.published, outcome.abandoned) == (2, 1)
    assert run.sent() == ["a", "b"]
    assert "1,048,576" in sqlite_subject.operations.entry("large").last_error


def test_a_relay_claims_the_next_batch_while_one_is_being_sent(sqlite_subject, clock):
    """And sends it before it writes the marks of the first; groups keep their order, and a stop leaves none claimed."""
    run = Run(sqlite_subject, clock, batch=2)
    run.write(*(f"e{number}" for number in range(5)))
    run.write("a", "b", group="g")
    with ThreadPoolExecutor(1) as sender:
        run.relay._sender = sender
        claims, send = [], run.sqs.send_batch

        def claimed(*args, real=sqlite_subject.store.claim, **options):
            claims.append(len(run.sent()))
            return real(*args, **options)

        def slowly(url, entries):
            until(lambda: len(claims) > 1, why="no claim beside the first send")
            return send(url, entries)

        sqlite_subject.store.claim = claimed
        run.sqs.send_batch = slowly
        assert run.relay.run_until(clock() + 1).published == 7

    assert claims[:2] == [0, 0]
    assert [one for one in run.sent() if one in "ab"] == ["a", "b"]
    assert sqlite_subject.store.status().counts == {EntryState.PUBLISHED: 7}


def test_a_relay_anywhere_reports_the_metrics_of_the_function(sqlite_subject, clock):
    """As lines of its log, once a minute: the waiting entries by lane, the oldest, and the time of a round."""
    log = BytesIO()
    telemetry = PowertoolsRelayTelemetry(environ={"POWERTOOLS_SERVICE_NAME": "shop-relay"}, stream=log)
    run = Run(sqlite_subject, clock, context={"telemetry": telemetry})
    run.write("late", not_before=timedelta(hours=1))
    run.write("a")
    ends = clock() + 70
    run.relay.run(should_stop=lambda: clock() > ends, pause=lambda one: clock.advance(one.total_seconds()))

    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    values = {name: value for line in lines for name, value in line.items() if name.startswith("Outbox")}
    assert values["OutboxPendingInLane"] == [1.0]
    assert values["OutboxPending"] == [1.0]
    assert {"OutboxOldestAge", "OutboxRoundTime", "OutboxPublished", "OutboxAbandoned"} <= values.keys()
    assert {line["service"] for line in lines} == {"shop-relay"}
    assert {line["lane"] for line in lines if "OutboxPendingInLane" in line} == {"MEDIUM"}
