"""The fields and figures of the consumer's reports: what `lanes trace`, the alarms and your own queries read."""

import pytest

from lanes.config import LanesConfig
from lanes.consumer import telemetry as report
from lanes.consumer.handlers import Work
from lanes.consumer.ledger import Ending, Entry
from lanes.consumer.outcome import Outcome
from lanes.events import Event
from lanes.metrics import Metric
from tests.support.memory import Recorder, record_with

SENT = 1_800_000_000.0
HIGH, MAIN = LanesConfig().lane("HIGH"), LanesConfig().lane("MAIN")
RECORD = record_with("m", receive_count=2, body='{"id": "i", "type": "k"}')
WORK = Work(handler=None, argument=None, id="i", kind="k", priority=60)
SHORT = {"message_id": "m", "id": "i", "kind": "k", "group": "g", "receive_count": 2}
IDENTITY = {**SHORT, "lane": "HIGH", "trace_id": None}


@pytest.fixture
def recorder():
    """Receives the reports."""
    return Recorder()


def test_a_handled_record(recorder):
    """With its times in epoch seconds and its figures in milliseconds."""
    report.handled(recorder, HIGH, RECORD, WORK, attempt=2, times=(SENT + 1, SENT + 1.5))

    times = {"sent_at": SENT, "started_at": SENT + 1, "finished_at": SENT + 1.5}
    assert recorder.events == [(Event.MESSAGE_HANDLED, {**IDENTITY, "priority": 60, "attempt": 2, **times})]
    assert (recorder.counts, recorder.durations) == (
        {Metric.HANDLED: 1},
        {Metric.WAIT: [1000], Metric.DURATION: [500]},
    )


@pytest.mark.parametrize(
    ("work", "fields"), [(WORK, {**IDENTITY, "priority": 60}), (None, {**IDENTITY, "priority": None})]
)
def test_a_dead_letter(recorder, work, fields):
    """Decoded or not."""
    entry = Entry(lane="HIGH", message_id="m", attempts=3, yields=40)
    outcome = Outcome(ending=Ending.DEAD_LETTERED, entry=entry, reason="r", error="e", work=work)
    report.dead_lettered(recorder, HIGH, RECORD, outcome)

    noted = {"reason": "r", "error": "e", "attempts": 3, "yields": 40, "sent_at": SENT}
    assert recorder.events == [(Event.MESSAGE_DEAD_LETTERED, {**fields, **noted})]
    assert recorder.counts == {Metric.DEAD_LETTERED: 1}


@pytest.mark.parametrize(("done_in", "problems"), [("", 0), ("HIGH", 0), ("MAIN", 1)])
def test_a_duplicate(recorder, done_in, problems):
    """One that was done in another lane is a problem too."""
    report.duplicate(recorder, HIGH, RECORD, WORK, done_in=done_in)

    assert recorder.events == [(Event.DUPLICATE_SKIPPED, IDENTITY)]
    assert [fields["done_in"] for _, fields in recorder.problems] == ["MAIN"] * problems
    assert recorder.counts[Metric.DUPLICATES] == 1


def test_woken_records(recorder):
    """Each counts; the lane that woke them is named."""
    entries = [Entry(lane="MAIN", message_id=name) for name in "ab"]
    report.woken(recorder, MAIN, entries, by=HIGH)

    fields = {"lane": "MAIN", "by_lane": "HIGH", "records": 2, "message_ids": ["a", "b"]}
    assert (recorder.events, recorder.counts) == ([(Event.BATCH_WOKEN, fields)], {Metric.WOKEN: 2})


def test_kept_records(recorder):
    """Those of one reason and delay share a line; one that failed has its own elsewhere."""
    untouched = [Outcome(reason="later", delay=delay) for delay in (5, 5, 9)]
    kept = [*untouched, Outcome(ending=Ending.YIELDED, delay=5), Outcome(ending=Ending.FAILED, delay=5)]
    report.kept(recorder, MAIN, [(RECORD, outcome) for outcome in kept])

    lines = [(fields["records"], fields["reason"], fields["delay"]) for _, fields in recorder.events]
    assert lines == [(2, "later", 5), (1, "later", 9)]
    assert recorder.events[1][1]["messages"] == [{**SHORT, "sent_at": RECORD.sent_at}]
    assert recorder.counts == {Metric.RETURNED: 3, Metric.YIELDED: 1}


def test_causes_of_receives(recorder):
    """The first receive, and the one after a yield."""
    records = [record_with("a"), record_with("b", receive_count=2)]
    entries = {"b": Entry(lane="MAIN", message_id="b", ending=Ending.YIELDED, noted_receive=1)}
    report.received(recorder, records, entries)

    assert recorder.counts == {"ReceivesFirst": 1, "ReceivesAfterYield": 1}
