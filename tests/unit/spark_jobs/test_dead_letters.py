"""A read of dead letters receives several times at once, and fails if others hide what it should have read."""

import threading
from types import SimpleNamespace

import pytest

from lanes.depth import LaneDepth
from lanes.operate.dead_letters import DeadLetteredMessage
from spark_jobs.options import ReaderOptions
from spark_jobs.source import RECEIVES, DeadLetterReader, DeadLettersHiddenError


class Queue:
    """The dead letters of a lane; each receive hides ten, none of a group with a hidden one."""

    def __init__(self, groups, *, hidden=0, late=0):
        self.visible = [letter(number, group) for number, group in enumerate(groups)]
        self._in_flight, self._late = hidden, late
        self.given_back = 0
        self._locked = set()
        self._lock = threading.Lock()
        # As many receives as are to be in progress at once; fewer would never pass it.
        self.meeting = threading.Barrier(RECEIVES)

    def receive(self, _lane, *, limit, **_):
        """Receive."""
        self.meeting.wait(timeout=30)
        with self._lock:
            free = [one for one in self.visible if one.group not in self._locked][:limit]
            self._locked |= {one.group for one in free}
            self.visible = [one for one in self.visible if one not in free]
            self._in_flight += len(free)
        return free

    def dead_letters(self, _lane):
        """Count."""
        return LaneDepth(backlog=len(self.visible) + self._late, in_flight=self._in_flight)

    def give_back(self, letters):
        """Make them visible."""
        self.given_back = len(letters)


def letter(number, group):
    """Make a dead letter."""
    return DeadLetteredMessage(
        lane="MAIN",
        message_id=str(number),
        receipt_handle="r",
        body="{}",
        group=group,
        sent_at=1.0,
        first_received_at=0.0,
        receive_count=1,
        attributes={},
        note={},
    )


def read(monkeypatch, queue):
    """Read the lane, and give the ids."""
    monkeypatch.setattr("lanes.aws.dead_letters.DeadLetterQueueCalls", lambda **_: queue)
    monkeypatch.setattr(ReaderOptions, "clients", lambda _: SimpleNamespace(sqs=lambda: None))
    reader = DeadLetterReader(ReaderOptions(stack="Shop"), SimpleNamespace())
    return [row[11] for row in reader.read(SimpleNamespace(value="MAIN"))]


def test_receives_are_in_progress_at_once(monkeypatch):
    """One after the other, they would not end 100,000 before the first are visible again."""
    queue = Queue([f"g-{number}" for number in range(500)])

    assert sorted(read(monkeypatch, queue), key=int) == list(map(str, range(500)))
    assert queue.given_back == 500


def test_a_read_that_misses_dead_letters_fails(monkeypatch, capsys):
    """Unless they may be behind ten others of their group, which SQS does not deliver."""
    with pytest.raises(
        DeadLettersHiddenError, match="3 dead letters of MAIN were read, and about 5 more are hidden"
    ):
        read(monkeypatch, Queue(["a", "b", "c"], hidden=5))

    assert len(read(monkeypatch, Queue(["a"] * 12))) == 10
    assert '"about": 2' in capsys.readouterr().err


def test_dead_letters_that_come_while_others_are_read_fail_no_read(monkeypatch, capsys):
    """A lane that is in trouble gets more of them all the time, and nobody hides them."""
    assert len(read(monkeypatch, Queue(["a", "b", "c"], late=5))) == 3
    assert '"about": 5' in capsys.readouterr().err
