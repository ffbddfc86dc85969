"""A throttled lane: its window uses the whole limit, with few calls in vain, and gives no row up for it."""

import heapq
from random import Random

import pytest

from lanes.errors import AwsError
from lanes.producer.outgoing import Refused
from spark_jobs.rows.outgoing import OutgoingRow
from spark_jobs.sending.window import SendWindow, WindowSettings

THROTTLED = AwsError(operation="SendMessageBatch", code="RequestThrottled", message="slower", retryable=True)
DENIED = AwsError(operation="SendMessageBatch", code="AccessDenied", message="no", retryable=False)
BUSY = Refused(code="ServiceUnavailable", reason="try again", retryable=True)
ROUND_TRIP = 0.01
ROWS = 6_000
# Rows of a Spark batch; they are sent before the next ones are read.
CHUNK = 500


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
        self.window = SendWindow("MAIN", WindowSettings(jitter=Random(seed).random))
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
        while batch := self.window.next_batch(self.now):
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
                one.identity for one in self.window.answered(batch, [None] * len(batch), self.now)
            ]
        else:
            self.throttles += 1
            self.window.settle_failure(batch, THROTTLED, self.now)


def row(number):
    """Make a row of a group of its own."""
    return OutgoingRow({}, number, str(number), 0, "{}", str(number), str(number), 2)


def window(rows=200, *, concurrency=4):
    """Make a window without jitter, with rows."""
    made = SendWindow("MAIN", WindowSettings(concurrency=concurrency, jitter=lambda: 1.0))
    for number in range(rows):
        made.add(row(number))
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

    assert {one.code for one in sender.window.failed} == {"RequestThrottled"}
    assert 180 <= sender.now < 182
    # A pause is at most a second, and at least half of it.
    assert 180 < sender.throttles < 400


def test_three_minutes_of_throttles_are_counted_from_the_first():
    """Its rows are given up at that moment, no later."""
    made = window(1)
    for now in (10.0, 188.0, 190.0):
        assert not made.failed
        made.settle_failure(made.next_batch(now), THROTTLED, now)

    assert made.is_empty


def test_a_throttle_pauses_the_lane_and_its_rows_come_first():
    """All rows of the lane wait, since each call would be throttled."""
    made = window(concurrency=2)
    first, other = made.next_batch(0.0), made.next_batch(0.0)
    made.answered(other, [None] * 10, 0.0)

    made.settle_failure(first, THROTTLED, 0.0)

    assert made.next_due() == pytest.approx(0.02)
    assert not made.next_batch(0.019)
    assert {one.identity for one in made.next_batch(0.021)} == {one.identity for one in first}


def test_the_pause_doubles_from_throttle_to_throttle_up_to_a_second_and_ends_with_an_accepted_call():
    """A lane that others use up is asked less and less often."""
    made, now, pauses = window(), 0.0, []
    for answers in (*[None] * 8, [None] * 10, None):
        batch = made.next_batch(now)
        if answers is None:
            made.settle_failure(batch, THROTTLED, now)
            pauses.append(made.next_due() - now)
            now = made.next_due()
        else:
            made.answered(batch, answers, now)

    assert pauses == pytest.approx([0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.0, 1.0, 0.02])


def test_a_denied_call_does_not_end_the_throttling():
    """It sent nothing, so the next pause is longer still."""
    made, now = window(20), 0.0
    for failure in (THROTTLED, THROTTLED, DENIED, THROTTLED):
        made.settle_failure(made.next_batch(now), failure, now)
        pause, now = (made.next_due() or now) - now, made.next_due() or now

    assert pause == pytest.approx(0.08)


def test_calls_that_were_in_flight_together_count_once():
    """They are the same news: eight throttles of one moment are no reason for a long pause or for a single call."""
    made = window(concurrency=8)
    calls = [made.next_batch(0.0) for _ in range(8)]

    for batch in calls:
        made.settle_failure(batch, THROTTLED, 0.0)

    assert made.next_due() == pytest.approx(0.02)
    later = [made.next_batch(1.0) for _ in range(6)]
    assert [bool(batch) for batch in later] == [True] * 4 + [False] * 2

    made.settle_failure(later[0], THROTTLED, 1.0)

    assert made.next_due() == pytest.approx(1.04), "calls of a later moment count again"


def test_throttled_entries_of_an_accepted_call_are_sent_again_alone():
    """SQS may throttle a part of a batch."""
    made = window(10)
    answer = Refused(code="RequestThrottled", reason="slower", retryable=True)

    accepted = made.answered(made.next_batch(0.0), [None] * 8 + [answer] * 2, 0.0)

    assert [one.index for one in accepted] == list(range(8))
    assert [one.index for one in made.next_batch(1.0)] in ([8, 9], [9, 8])


def test_a_row_that_may_have_been_sent_is_given_up_in_time_although_its_later_calls_were_throttled():
    """SQS drops a repeat for five minutes only."""
    throttled = Refused(code="RequestThrottled", reason="slower", retryable=True)
    made = window(1)
    made.answered(made.next_batch(0.0), [BUSY], 0.0)
    now = 0.0
    while not made.failed:
        now = made.next_due()
        made.add(row(1))
        made.answered(made.next_batch(now), [throttled, None], now)

    assert [one.item.index for one in made.failed] == [0]
    assert 180 <= now < 181
