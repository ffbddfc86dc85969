"""The rows of a lane: bounds, retries, and a throttled lane used to its limit with few calls in vain."""

import heapq
from random import Random
from types import SimpleNamespace

import pytest

from lanes.errors import AwsError
from lanes.producer.order import MAX_BYTES, MAX_HELD, MAX_HELD_BYTES
from lanes.producer.outgoing import ACCEPTED, Refused
from lanes.retries import RetryPolicy
from spark_jobs.rows import OutgoingRow
from spark_jobs.sending import RowOrder

THROTTLED = AwsError(operation="SendMessageBatch", code="RequestThrottled", message="slower", retryable=True)
DENIED = AwsError(operation="SendMessageBatch", code="AccessDenied", message="no", retryable=False)
UNAVAILABLE = AwsError(operation="SendMessageBatch", code="ServiceUnavailable", retryable=True)
BUSY = Refused(code="ServiceUnavailable", reason="try again", retryable=True)
ROUND_TRIP = 0.01
ROWS = 6_000
# Rows of a Spark batch; they are sent before the next ones are read.
CHUNK = 500


def call_of(order, now):
    """Return the next batch, and count its call."""
    batch = order.next_batch(now)
    return order.start(batch, now) if batch else batch


class Limit:
    """A number of calls a second, of which a tenth may come at once."""

    def __init__(self, per_second):
        self._per_second, self._left, self._at = per_second, 0.0, 0.0

    def __call__(self, now):
        """Count a call; return whether it is within the limit."""
        self._left = min(self._per_second / 10, self._left + (now - self._at) * self._per_second)
        self._at = now
        within = self._left >= 1
        self._left -= within
        return within


class Sender:
    """
    Sends rows through a window in virtual time.

    Args:
        allows: whether SQS accepts a call at a time.
        seed: of the jitter.
    """

    def __init__(self, allows, *, seed=1):
        self.now, self.throttles, self.arrived = 0.0, 0, []
        self.window = window([], concurrency=32, jitter=Random(seed).random)
        self._allows = allows
        self._flying = []
        self._calls = 0

    def send(self, rows):
        """Send rows of a group each, a chunk at a time."""
        for start in range(0, rows, CHUNK):
            for number in range(start, min(rows, start + CHUNK)):
                self.window.add(row(number))
            while not self.window.is_empty:
                self._step()
        return self

    def _step(self):
        while batch := call_of(self.window, self.now):
            self._calls += 1
            accepted = self._allows(self.now)
            heapq.heappush(self._flying, (self.now + ROUND_TRIP, self._calls, batch, accepted))
        moments = [self.window.next_due(), self._flying[0][0] if self._flying else None]
        self.now = min(moment for moment in moments if moment is not None)
        while self._flying and self._flying[0][0] <= self.now:
            _, _, batch, accepted = heapq.heappop(self._flying)
            self._settle(batch, accepted=accepted)

    def _settle(self, batch, *, accepted):
        if accepted:
            self.arrived += [
                one.identity for one in self.window.settle(batch, [ACCEPTED] * len(batch), self.now)
            ]
        else:
            self.throttles += 1
            self.window.settle_failure(batch, THROTTLED, self.now)


def row(number, *, size=2):
    """Make a row of a group of its own."""
    return OutgoingRow({}, number, str(number), 0, "{}", str(number), str(number), size)


def window(rows=200, *, concurrency=4, jitter=lambda: 1.0, **policy):
    """Make an order with rows, or so many of them."""
    settings = {
        "concurrency": concurrency,
        "jitter": jitter,
        "retries": RetryPolicy(**policy),
        "ordered": True,
        "record": None,
    }
    made = RowOrder("MAIN", SimpleNamespace(**settings), lambda _lane, _rows: None)
    for one in map(row, range(rows)) if isinstance(rows, int) else rows:
        made.add(one)
    return made


@pytest.mark.parametrize("per_second", [60, 300, 600])
def test_a_throttled_lane_is_used_to_its_limit(per_second):
    """Pauses are short against the time in which a limit allows the next calls, and rows don't wait for their own."""
    sender = Sender(Limit(per_second)).send(10 * per_second * 10)

    assert sender.now < 10.5
    assert not sender.window.failed


def test_random_throttles_slow_the_calls_little():
    """A third of the calls is refused whatever their number: fewer calls at a time help nobody."""
    chance = Random(1)
    sender = Sender(lambda _now: chance.random() > 1 / 3).send(ROWS)

    assert sorted(map(int, sender.arrived)) == list(range(ROWS))
    assert sender.now < 15


def test_a_row_is_not_given_up_for_throttles_while_the_lane_accepts_others():
    """A throttled call sent nothing, so neither its number nor its time counts for the row."""
    chance = Random(1)
    sender = Sender(lambda _now: chance.random() > 0.9).send(ROWS)

    assert not sender.window.failed
    assert len(sender.arrived) == ROWS


def test_rows_are_given_up_if_all_calls_are_throttled_for_three_minutes():
    """The error is better than a task that waits for ever, and its rows were never accepted."""
    sender = Sender(lambda _now: False).send(10)

    assert {one.reason.partition(":")[0] for one in sender.window.failed} == {"RequestThrottled"}
    assert 180 <= sender.now < 182
    # A pause is at most a second, and at least half of it.
    assert 180 < sender.throttles < 400


def test_three_minutes_of_throttles_are_counted_from_the_first():
    """Its rows are given up at that moment, no later."""
    made = window(1)
    for now in (10.0, 188.0, 190.0):
        assert not made.failed
        made.settle_failure(call_of(made, now), THROTTLED, now)

    assert made.is_empty


def test_a_throttle_pauses_the_lane_and_its_rows_come_first():
    """All rows of the lane wait, since each call would be throttled."""
    made = window(concurrency=2)
    first, other = call_of(made, 0.0), call_of(made, 0.0)
    made.settle(other, [ACCEPTED] * 10, 0.0)

    made.settle_failure(first, THROTTLED, 0.0)

    assert made.next_due() == pytest.approx(0.02)
    assert not call_of(made, 0.019)
    assert {one.identity for one in call_of(made, 0.021)} == {one.identity for one in first}


def test_the_pause_doubles_from_throttle_to_throttle_up_to_a_second_and_ends_with_an_accepted_call():
    """A lane that others use up is asked less and less often."""
    made, now, pauses = window(), 0.0, []
    for answers in (*[None] * 8, [ACCEPTED] * 10, None):
        batch = call_of(made, now)
        if answers is None:
            made.settle_failure(batch, THROTTLED, now)
            pauses.append(made.next_due() - now)
            now = made.next_due()
        else:
            made.settle(batch, answers, now)

    assert pauses == pytest.approx([0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0, 0.02])


def test_a_denied_call_does_not_end_the_throttling():
    """It sent nothing, so the next pause is longer still."""
    made, now = window(20), 0.0
    for failure in (THROTTLED, THROTTLED, DENIED, THROTTLED):
        made.settle_failure(call_of(made, now), failure, now)
        pause, now = (made.next_due() or now) - now, made.next_due() or now

    assert pause == pytest.approx(0.08)


def test_calls_that_were_in_flight_together_count_once():
    """They are the same news: eight throttles of one moment are no reason for a long pause or for a single call."""
    made = window(concurrency=8)
    calls = [call_of(made, 0.0) for _ in range(8)]

    for batch in calls:
        made.settle_failure(batch, THROTTLED, 0.0)

    assert made.next_due() == pytest.approx(0.02)
    later = [call_of(made, 1.0) for _ in range(6)]
    assert [bool(batch) for batch in later] == [True] * 4 + [False] * 2

    made.settle_failure(later[0], THROTTLED, 1.0)

    assert made.next_due() == pytest.approx(1.04), "calls of a later moment count again"


def test_a_row_that_may_have_been_sent_is_given_up_in_time_although_its_later_calls_were_throttled():
    """SQS drops a repeat for five minutes only."""
    throttled = Refused(code="RequestThrottled", reason="slower", retryable=True)
    made = window(1)
    made.settle(call_of(made, 0.0), [BUSY], 0.0)
    now = 0.0
    while not made.failed:
        now = made.next_due()
        made.settle(call_of(made, now), [throttled], now)

    assert [one.item.index for one in made.failed] == [0]
    assert 180 <= now < 181


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

    made.settle(call_of(made, 0.0), [ACCEPTED], 0.0)

    assert not made.is_full
    assert call_of(made, 0.0)


@pytest.mark.parametrize("failure", [THROTTLED, UNAVAILABLE])
def test_one_call_remains_however_often_it_fails(failure):
    """Otherwise a lane that recovers would be asked no more, or by more calls than one."""
    made = window(200, concurrency=4)
    for now in range(5):
        made.settle_failure(call_of(made, now), failure, now)

    assert call_of(made, 6.0)
    assert not call_of(made, 6.0)


def test_a_permanent_failure_ends_one_call_and_gives_up_its_rows():
    """The other calls are still in flight, and the window counts them until they are answered."""
    made = window(50, concurrency=3)
    first, *_ = [call_of(made, 0.0) for _ in range(3)]

    made.settle_failure(first, DENIED, 0.0)

    assert [(one.item.index, one.refused) for one in made.failed] == [(number, False) for number in range(10)]
    assert call_of(made, 0.0)
    assert not call_of(made, 0.0)
