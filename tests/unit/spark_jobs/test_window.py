"""The send window of a lane: its bounds, its retries, and fewer calls at a time after a failure."""

from datetime import timedelta

import pytest

from lanes.errors import AwsError
from lanes.producer.order import MAX_BYTES, MAX_ENTRIES, MAX_HELD, MAX_HELD_BYTES
from lanes.producer.outgoing import Refused
from lanes.retries import RetryPolicy
from spark_jobs.rows.outgoing import OutgoingRow
from spark_jobs.sending.window import SendWindow, WindowSettings

BUSY = Refused(code="ServiceUnavailable", reason="try again", retryable=True)
DENIED = AwsError(operation="SendMessageBatch", code="AccessDenied", message="no", retryable=False)
UNAVAILABLE = AwsError(operation="SendMessageBatch", code="ServiceUnavailable", retryable=True)
THROTTLED = AwsError(operation="SendMessageBatch", code="ThrottlingException", retryable=True)


def row(position, *, group=None, size=2):
    """Make a row, of a group of its own unless one is named."""
    return OutgoingRow({}, position, str(position), 0, "{}", group or str(position), str(position), size)


def window(rows=(), **settings):
    """Make a window without jitter, with these rows."""
    made = SendWindow("MAIN", WindowSettings(jitter=lambda: 1.0, **settings))
    for one in rows:
        made.add(one)
    return made


@pytest.mark.parametrize(("size", "rows"), [(2, MAX_HELD), (MAX_BYTES, MAX_HELD_BYTES // MAX_BYTES)])
def test_a_window_is_full_at_its_number_of_rows_or_bytes(size, rows):
    """The memory of a task is bounded, however large its partition."""
    made = window(row(number, size=size) for number in range(rows - 1))
    assert not made.is_full

    made.add(row(rows, size=size))

    assert made.is_full


def test_rows_that_have_left_make_room():
    """Rows and bytes are counted down when SQS has them."""
    made = window(row(number, size=MAX_BYTES) for number in range(MAX_HELD_BYTES // MAX_BYTES))

    made.answered(made.next_batch(0.0), [None], 0.0)

    assert not made.is_full
    assert made.next_batch(0.0, max_entries=1)


@pytest.mark.parametrize("whole_call", [False, True])
def test_a_transient_failure_halves_the_calls_in_flight(whole_call):
    """They are regained one by one, so that a throttled lane is not asked by all tasks again at once."""
    made = window((row(number) for number in range(200)), concurrency=4)
    first, *others = [made.next_batch(0.0) for _ in range(4)]
    assert not made.next_batch(0.0)

    if whole_call:
        made.settle_failure(first, UNAVAILABLE, 0.0)
    else:
        made.answered(first, [BUSY, *[None] * 9], 0.0)

    assert not made.next_batch(0.0)
    made.answered(others[0], [None] * 10, 0.0)
    assert not made.next_batch(0.0)
    made.answered(others[1], [None] * 10, 0.0)
    assert made.next_batch(0.0)


@pytest.mark.parametrize("failure", [THROTTLED, UNAVAILABLE])
def test_one_call_remains_however_often_it_fails(failure):
    """Otherwise a lane that recovers would be asked no more, or by more calls than one."""
    made = window((row(number) for number in range(200)), concurrency=4)
    for now in range(5):
        made.settle_failure(made.next_batch(now), failure, now)

    assert made.next_batch(6.0)
    assert not made.next_batch(6.0)


def test_a_permanent_failure_ends_one_call_and_gives_up_its_rows():
    """The other calls are still in flight, and the window counts them until they are answered."""
    made = window((row(number) for number in range(50)), concurrency=3)
    first, *_ = [made.next_batch(0.0) for _ in range(3)]

    made.settle_failure(first, DENIED, 0.0)

    assert [(one.item.index, one.code, one.refused) for one in made.failed] == [
        (number, "AccessDenied", False) for number in range(10)
    ]
    assert made.next_batch(0.0)
    assert not made.next_batch(0.0)


def test_a_call_is_full_with_ten_rows_or_a_mebibyte():
    """Both limits of SQS can be reached exactly."""
    assert not window(row(number) for number in range(MAX_ENTRIES - 1)).has_batch
    assert window(row(number) for number in range(MAX_ENTRIES)).has_batch
    halves = window(row(number, size=MAX_BYTES // 2) for number in range(3))
    assert [one.index for one in halves.next_batch(0.0)] == [0, 1]


def test_accepted_calls_regain_the_limit_and_no_more():
    """It was halved to two, and grows by one in the time of each round of calls."""
    made = window((row(number) for number in range(1_500)), concurrency=4)
    made.answered(made.next_batch(0.0), [BUSY, *[None] * 9], 0.0)
    limits = []
    for _ in range(9):
        calls = [batch for _ in range(9) if (batch := made.next_batch(0.0))]
        limits.append(len(calls))
        for batch in calls:
            made.answered(batch, [None] * len(batch), 0.0)

    assert limits[0] == 2
    assert limits == sorted(limits)
    assert limits[-1] == 4


def test_a_failed_row_is_due_after_its_delay():
    """The delay doubles with each try, and the row is first in the next call."""
    made = window([row(1), row(2), row(3)], policy=RetryPolicy(backoff_base=timedelta(seconds=1)))
    made.answered(made.next_batch(100.0, max_entries=1), [BUSY], 100.0)
    made.next_batch(100.0, max_entries=1)
    assert made.next_due() == 101.0

    again = made.next_batch(101.0, max_entries=1)
    made.answered(again, [BUSY], 101.0)

    assert [one.index for one in again] == [1]
    assert made.next_due() == 103.0


def test_ready_rows_are_due_after_a_pause_whose_rows_were_given_up():
    """Or their task would ask again and again without a wait."""
    policy = RetryPolicy(give_up_after=timedelta(0))
    made = window((row(number) for number in range(20)), policy=policy)

    made.settle_failure(made.next_batch(0.0), THROTTLED, 0.0)

    assert made.next_batch(0.0) == []
    assert made.next_due() > 0
    assert len(made.next_batch(made.next_due())) == 10


def test_a_row_that_failed_for_too_long_is_given_up():
    """The time counts from its first try: SQS may have taken that one, and drops repeats for five minutes only."""
    made = window([row(1)], policy=RetryPolicy(give_up_after=timedelta(seconds=30)))
    made.answered(made.next_batch(100.0), [BUSY], 100.0)
    made.answered(made.next_batch(129.0), [BUSY], 129.0)
    assert not made.failed

    made.answered(made.next_batch(140.0), [BUSY], 140.0)

    assert [(one.item.index, one.refused) for one in made.failed] == [(1, False)]
    assert made.is_empty
