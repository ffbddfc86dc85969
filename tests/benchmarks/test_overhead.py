"""The batch that `benchmarks.overhead` measures."""

import json

import pytest

from benchmarks import overhead
from tests.support.memory import Recorder


@pytest.mark.parametrize("records", [1, 10])
def test_the_measured_batch_is_handled_and_reports_nothing_else(records):
    """Else the figures hold the price of a failed call and its traceback, once a batch."""
    telemetry = Recorder()

    response = overhead.consumer(telemetry)(overhead.event_of(records), overhead.Context())

    assert response == {"batchItemFailures": []}
    assert [name for name, _ in telemetry.events] == ["message_handled"] * records
    assert not telemetry.problems


@pytest.mark.parametrize("records", [1, 10])
def test_a_slot_receives_and_handles_what_the_others_are_given(records):
    """Twenty batches in one invocation, with no failed call."""
    telemetry = Recorder()
    handle, event = overhead.pull(telemetry), overhead.event_of(records)

    for _ in range(2 * overhead.RECEIVES):
        handle(event, overhead.Context())

    names = [name for name, _ in telemetry.events]
    assert names.count("message_handled") == 2 * overhead.RECEIVES * records
    assert not telemetry.problems


def test_powertools_writes_the_same_line(capfd):
    """Else the two are no comparison."""
    overhead.powertools()(overhead.event_of(1), overhead.Context())
    overhead.consumer()(overhead.event_of(1), overhead.Context())

    theirs, ours = (json.loads(line) for line in capfd.readouterr().out.splitlines()[:2])
    told = {"message", "kind", "id", "group", "message_id", "receive_count", "sent_at", "started_at"}
    assert told <= theirs.keys() & ours.keys()
