"""A task sends its rows in order and in full batches, records them, and says which it could not send."""

import random
from collections import Counter
from datetime import UTC, datetime

import pytest

from lanes.config import LanesConfig
from lanes.config.deployment import Deployment, LaneQueues
from lanes.errors import AwsError, LanesError
from lanes.message import id_in
from lanes.producer.outgoing import ACCEPTED, CallEnded, Refused
from lanes.retries import RetryPolicy
from spark_jobs.manifest.run import RunManifest
from spark_jobs.manifest.storage import open_storage
from spark_jobs.pace import SendPace
from spark_jobs.rows import RowReader, RowRefusedError
from spark_jobs.sending import RowsUnsentError, SendingTask

CONFIG = LanesConfig.from_dict({"lanes": [{"name": "HIGH", "threshold": 50}, {"name": "MAIN"}]})
DEPLOYMENT = Deployment(
    config=CONFIG,
    queues={name: LaneQueues(url=name, dead_letter_url=f"{name}-dead") for name in ("HIGH", "MAIN")},
    table="ledger",
)
BUSY = Refused(code="ServiceUnavailable", reason="try again", retryable=True)
WRONG = Refused(code="InvalidMessageContents", reason="not that", retryable=False)
THROTTLED = AwsError(operation="SendMessageBatch", code="ThrottlingException", retryable=True)
UNCALLABLE = AwsError(
    operation="SendMessageBatch", code="InvalidMessageContents", message="not that", retryable=False
)
LOST = AwsError(operation="SendMessageBatch", code="ReadTimeout", retryable=True)
DENIED = AwsError(operation="SendMessageBatch", code="AccessDenied", message="no", retryable=False)


class Calls:
    """Takes batches; `answer` decides on each entry, and answers come in another order."""

    def __init__(self, answer=lambda _entry: ACCEPTED, *, together=False):
        self.batches = []
        self.queue = {}
        self.most_flying = 0
        self._answer = answer
        self._together = together
        self._flying = []
        self._random = random.Random(1)

    def start(self, queue_url, entries):
        """Start a call."""
        self.batches.append([id_in(entry.identity) for entry in entries])
        answers = [self._answer(entry) for entry in entries]
        error = next((answer for answer in answers if isinstance(answer, AwsError)), None)
        if error is None:
            kept = [entry for entry, answer in zip(entries, answers, strict=True) if answer is ACCEPTED]
            self.queue.setdefault(queue_url, []).extend(kept)
        ended = {"error": error} if error else {"answers": answers}
        self._flying.append(CallEnded(number=len(self.batches), **ended))
        self.most_flying = max(self.most_flying, len(self._flying))
        return len(self.batches)

    def ended(self, timeout):
        """Give one call, or all of them."""
        if self._together:
            ended, self._flying = self._flying, []
            return ended
        return [self._flying.pop(self._random.randrange(len(self._flying)))]

    def close(self):
        """Have nothing to close."""


class Recorder:
    """Keeps all records, in place of a manifest."""

    def __init__(self, *before):
        self.before = set(before)
        self.ids, self.aside, self.idle, self.flushes = [], [], [], 0

    def has(self, identity):
        """Know the ids of earlier runs."""
        return id_in(identity) in self.before

    def has_now(self, _identity):
        """Know of no other attempt."""
        return False

    def ended(self, **_counts):
        """Keep no end."""

    def sent(self, lane, items):
        """Keep ids."""
        self.ids.extend(id_in(item.identity) for item in items)

    def quarantined(self, *, position, row, reason):
        """Keep rows."""
        self.aside.append((position, reason))

    def flush(self):
        """Count."""
        self.flushes += 1

    def keep(self, *, idle=0.0):
        """Know what would be lost by a kill in the next seconds."""
        if idle:
            self.idle.append((idle, len(self.ids)))


class Failing:
    """Fails each id so many times."""

    def __init__(self, answer, times, *ids):
        self._answer = answer
        self._left = dict.fromkeys(ids, times)

    def __call__(self, entry):
        """Answer for an entry."""
        if self._left.get(id_in(entry.identity), 0) <= 0:
            return ACCEPTED
        self._left[id_in(entry.identity)] -= 1
        return self._answer


def task(
    calls,
    *,
    rate=None,
    backlog=None,
    record=None,
    quarantine=False,
    now=None,
    **more,
):
    """Make the task of partition 3."""
    now = now or [0.0]

    def pause(seconds):
        now[0] += seconds

    return SendingTask(
        partition=3,
        reader=RowReader(kind="a.kind", priority=-100),
        deployment=DEPLOYMENT,
        calls=calls,
        pace=SendPace(rate=rate, backlog=backlog, clock=lambda: now[0], wait=pause),
        record=record,
        quarantine=quarantine,
        **more,
    )


def rows(count, **more):
    """Make rows with ids 0, 1, 2 and so on."""
    return [{"data": "1", "id": number, **more} for number in range(count)]


def test_rows_go_in_full_batches_and_are_counted_by_lane():
    """Batches hold ten, only the last of a chunk fewer; priorities decide on the lane."""
    calls = Calls()

    counts = task(calls).send([[*rows(25), *rows(10, priority=60)], rows(3, priority=60)])

    assert sorted(len(batch) for batch in calls.batches) == [3, 5, 10, 10, 10]
    assert counts.lanes == Counter({"MAIN": 25, "HIGH": 13})
    assert {lane: len(entries) for lane, entries in calls.queue.items()} == {"MAIN": 25, "HIGH": 13}


def test_several_calls_are_on_their_way_up_to_the_limit():
    """Calls are not awaited one by one."""
    calls = Calls()

    task(calls, concurrency=3).send([rows(200)])

    assert calls.most_flying == 3


def test_independent_rows_fill_batches_whatever_their_group():
    """With ordering `none` one group is as fast as many."""
    calls = Calls()

    task(calls, ordered=False).send([rows(100, group="one")])

    assert [len(batch) for batch in calls.batches] == [10] * 10


def test_a_window_of_one_group_is_bounded():
    """A long run of one group neither stalls nor grows without end."""
    calls = Calls()

    task(calls).send([rows(2_500, group="one")])

    assert [int(id_in(one.identity)) for one in calls.queue["MAIN"]] == list(range(2_500))


def test_only_what_failed_is_sent_again():
    """A batch that failed in part is not sent again as a whole."""
    calls = Calls(Failing(BUSY, 3, "4"))

    task(calls).send([rows(10)])

    assert calls.batches == [[str(number) for number in range(10)], ["4"], ["4"], ["4"]]


def test_the_rows_of_a_throttled_call_fill_one_call_again():
    """Each call counts against the quota, however few its rows."""
    calls = Calls(Failing(THROTTLED, 2, "0"))

    task(calls, jitter=random.Random(1).random).send([rows(10)])

    assert [len(batch) for batch in calls.batches] == [10, 10, 10]


def test_what_the_lane_never_takes_fails_the_task():
    """After the last try the error says which rows, of which partition, and why."""
    calls = Calls(Failing(BUSY, 99, "4"))

    with pytest.raises(RowsUnsentError, match=r"1 rows of partition 3 .*\n.*row 5 \(id '4'\).*try again"):
        task(calls, retries=RetryPolicy(max_attempts=3)).send([rows(10)])

    assert len(calls.batches) == 3


class TakenOver(Recorder):
    """The record of a task whose run another session has taken over."""

    def sent(self, lane, items):
        """Refuse to go on."""
        super().sent(lane, items)
        raise LanesError("taken over")


def test_a_task_whose_record_fails_ends_with_that_error():
    """Answers that came together are all recorded; none is waited for that will never come."""
    calls = Calls(together=True)
    ended, record = calls.ended, TakenOver()

    def only_of_calls(timeout):
        assert calls._flying, "waits for ever"
        return ended(timeout)

    calls.ended = only_of_calls

    with pytest.raises(LanesError, match="taken over"):
        task(calls, record=record).send([rows(100)])

    assert sorted(record.ids) == sorted(id_in(one.identity) for one in calls.queue["MAIN"])


def test_an_error_that_cannot_pass_ends_the_task_at_once_and_what_was_sent_is_recorded():
    """Calls in flight are awaited first, so that their ids are recorded."""
    calls = Calls(Failing(DENIED, 99, "15"))
    record = Recorder()

    with pytest.raises(RowsUnsentError, match="AccessDenied"):
        task(calls, record=record).send([rows(1_000)])

    assert len(calls.batches) < 50
    assert sorted(record.ids) == sorted(id_in(one.identity) for one in calls.queue["MAIN"])
    assert record.flushes == 1


def test_the_rate_is_kept_before_each_call_and_at_the_end():
    """The pause covers all messages so far, also those of the last call."""
    moments, now = [], [0.0]

    def answer(_entry):
        moments.append(now[0])
        return ACCEPTED

    task(Calls(answer), rate=4, now=now).send([rows(5)])

    assert moments == [0.0, 0.0, 0.5, 0.5, 1.0]
    assert now == [1.25]


class HeldBack:
    """A backlog that holds each call back for an hour."""

    def wait(self, _lane, _messages, pause):
        """Do so."""
        pause(3_600)


@pytest.mark.parametrize(("backlog", "recorded"), [(None, [1, 2, 3]), (HeldBack(), [0, 1, 2, 3])])
def test_all_that_was_sent_is_recorded_before_a_pause(backlog, recorded):
    """A task that is killed while its rate or the backlog holds it back leaves no row that a rerun sends again."""
    record = Recorder()

    task(Calls(), rate=0.1, backlog=backlog, record=record).send([rows(3)])

    assert [sent for _, sent in record.idle] == recorded


def test_what_has_no_answer_is_sent_again_while_the_backlog_holds_others_back():
    """SQS may have it, and knows it again for five minutes, while the backlog may hold a task back for hours."""
    fails, moments, now = Failing(LOST, 1, "1"), [], [0.0]

    def answer(entry):
        moments.append((id_in(entry.identity), now[0]))
        return fails(entry)

    task(Calls(answer), backlog=HeldBack(), now=now, ordered=False).send([rows(15)])

    tries = [moment for one, moment in moments if one == "1"]
    assert len(tries) == 2
    assert tries[1] - tries[0] < 1
    assert now[0] == pytest.approx(7_200)


def test_time_in_which_a_row_was_held_back_is_no_time_of_its_tries():
    """The first failure after an hour is not the last."""
    calls = Calls(Failing(BUSY, 2, "1"))

    task(calls, backlog=HeldBack()).send([rows(3)])

    assert len(calls.queue["MAIN"]) == 3


class Ahead:
    """A copy of a task sends its first rows, as soon as it is told to."""

    def __init__(self, folder, now):
        storage = open_storage(str(folder), endpoint_url=None, region=None)
        moment = datetime.fromtimestamp(0, UTC)
        self._run = RunManifest.open(storage, run_id="r", now=moment, clock=lambda: now[0])
        self._now = now
        self.behind = self._run.task(partition=3, attempt=1, first=True)

    def send(self, count):
        """Send so many rows, and let an hour pass."""
        record = self._run.task(partition=3, attempt=2, first=False)
        task(Calls(), record=record, now=self._now).send([rows(count)])
        self._now[0] += 3_600

    def wait(self, _lane, _messages, pause):
        """Be the backlog of the task behind it."""
        self.send(7)
        pause(1)


@pytest.mark.parametrize("slow", ["source", "backlog"])
def test_a_task_leaves_out_what_its_copy_has_sent_while_it_waited(slow, tmp_path):
    """SQS knows a message again for five minutes only."""
    now, calls = [0.0], Calls()
    ahead = Ahead(tmp_path, now)

    def chunks():
        if slow == "source":
            ahead.send(7)
        yield rows(10)

    behind = task(calls, record=ahead.behind, backlog=ahead if slow == "backlog" else None, now=now)
    counts = behind.send(chunks())

    assert sorted(one for batch in calls.batches for one in batch) == ["7", "8", "9"]
    assert counts.lanes == {"MAIN": 10}


def test_what_a_chunk_has_sent_is_written_before_the_source_is_asked_for_the_next():
    """The source may take longer than SQS knows a message again."""
    record, written = Recorder(), []

    def chunks():
        for _ in range(3):
            yield rows(25)
            written.append((len(record.ids), record.flushes))

    task(Calls(), record=record).send(chunks())

    assert written == [(25, 1), (50, 2), (75, 3)]


def test_a_job_is_held_back_before_it_sends():
    """The backlog is asked for each batch."""
    asked = []

    class Backlog:
        def wait(self, lane, messages, _pause):
            asked.append((lane, messages))

    task(Calls(), backlog=Backlog()).send([rows(13)])

    assert asked == [("MAIN", 10), ("MAIN", 3)]


BAD_ROWS = [
    ({"data": "1", "group": "not a group"}, "group is 'not a group'"),
    ({"data": "{", "group": "g"}, "its data is not a JSON document"),
    ({"data": {"text": "x" * 2**20}, "group": "g"}, "SQS accepts at most 1,048,576"),
]


@pytest.mark.parametrize(("row", "reason"), BAD_ROWS)
def test_a_row_that_cannot_be_sent_is_named(row, reason):
    """The error says which row it is and why."""
    with pytest.raises(RowRefusedError, match=reason) as caught:
        task(Calls()).send([rows(201), [row]])

    assert (caught.value.partition, caught.value.position) == (3, 202)
    assert f"row 202 of partition 3 (group {row['group']!r}) cannot be sent" in str(caught.value)


@pytest.mark.parametrize(("before", "accepted"), [(0, "0"), (35, "30"), (1_234, "1,230")])
def test_a_refused_row_says_how_many_were_sent_and_what_to_do(before, accepted):
    """Calls in flight end first, so the number is exact; rows that wait for a full batch are not sent."""
    calls, record = Calls(), Recorder()

    with pytest.raises(RowRefusedError) as caught:
        task(calls, record=record).send([[*rows(before), BAD_ROWS[0][0]]])

    assert caught.value.sent == len(record.ids) == sum(map(len, calls.batches))
    assert f"SQS has accepted {accepted} messages of this partition" in str(caught.value)
    assert "onError=quarantine" in str(caught.value)


def test_the_number_of_sent_messages_covers_earlier_chunks():
    """It is that of the whole attempt."""
    with pytest.raises(RowRefusedError) as caught:
        task(Calls()).send([rows(201), rows(9), [BAD_ROWS[0][0]]])

    assert caught.value.sent == 210


@pytest.mark.parametrize(("row", "reason"), BAD_ROWS)
def test_a_row_that_cannot_be_sent_is_put_aside(row, reason):
    """With quarantine the others go on, and the row is kept with its reason."""
    calls, record = Calls(), Recorder()

    counts = task(calls, record=record, quarantine=True).send([[*rows(3), row, *rows(2, group="g")]])

    ((position, said),) = record.aside
    assert position == 4
    assert reason in said
    assert (counts.quarantined, counts.lanes.total()) == (1, 5)


@pytest.mark.parametrize("group", ["one", None], ids=["one group", "a group each"])
def test_a_row_for_which_sqs_refuses_the_whole_call_is_put_aside_alone(group):
    """The other rows of that call are sent, in their order."""
    calls = Calls(lambda entry: UNCALLABLE if id_in(entry.identity) == "4" else ACCEPTED)
    record = Recorder()
    many = [one | ({"group": group} if group else {}) for one in rows(23)]

    counts = task(calls, record=record, quarantine=True).send([many])

    assert [position for position, _ in record.aside] == [5]
    assert sorted(record.ids, key=int) == [str(number) for number in range(23) if number != 4]
    assert (counts.lanes["MAIN"], counts.quarantined) == (22, 1)
    if group:
        assert record.ids == sorted(record.ids, key=int)


def test_a_task_that_puts_no_row_aside_names_the_one_for_which_sqs_refuses_the_call():
    """Not the nine beside it."""
    calls = Calls(lambda entry: UNCALLABLE if id_in(entry.identity) == "4" else ACCEPTED)

    with pytest.raises(RowRefusedError, match="InvalidMessageContents") as raised:
        task(calls).send([rows(23)])

    assert raised.value.position == 5


def test_rows_that_two_lanes_refuse_in_answers_that_arrive_together_are_put_aside():
    """Each refused row is set aside, whatever the other lanes answer at the same moment."""
    calls, record = Calls(Failing(WRONG, 1, "2", "h1"), together=True), Recorder()
    high = [{"data": "1", "id": f"h{number}", "priority": 60} for number in range(3)]

    counts = task(calls, record=record, quarantine=True).send([[*rows(4), *high]])

    assert sorted(position for position, _ in record.aside) == [3, 6]
    assert (counts.quarantined, counts.lanes) == (2, Counter({"MAIN": 3, "HIGH": 2}))


def test_refused_rows_are_put_aside_before_another_lane_fails_the_task():
    """A lane that accepts no more ends the task, and the refused row of the other lane is kept."""

    def answer(entry):
        return {"2": WRONG, "h1": DENIED}.get(id_in(entry.identity), ACCEPTED)

    record = Recorder()
    high = [{"data": "1", "id": "h1", "priority": 60}]

    with pytest.raises(RowsUnsentError, match="h1"):
        task(Calls(answer, together=True), record=record, quarantine=True).send([[*high, *rows(4)]])

    assert [position for position, _ in record.aside] == [4]


def test_a_kill_at_any_call_leaves_a_thousand_rows_and_the_calls_in_flight_unrecorded(tmp_path):
    """However fast the task is and however large its partition, so that a late rerun repeats no more."""
    storage = open_storage(str(tmp_path), endpoint_url=None, region=None)
    run = RunManifest.open(storage, run_id="r", now=datetime(2026, 1, 2, tzinfo=UTC))
    unrecorded = []

    class Watched(Calls):
        def start(self, queue_url, entries):
            number = super().start(queue_url, entries)
            if number % 10 == 0:
                unrecorded.append(len(self.queue["MAIN"]) - run.counts().sent)
            return number

    manifest = run.task(partition=3, attempt=1, first=True)
    task(Watched(), record=manifest, concurrency=8).send([rows(6_000)])

    assert 900 < max(unrecorded) <= 1_000 + 8 * 10
    assert run.counts().sent == 6_000
