"""Changing waiting messages, and counting those that an override has met."""

import json
from types import SimpleNamespace

import pytest

from lanes.config import LanesConfig
from lanes.errors import AwsError
from lanes.message_filter import MessageFilter
from lanes.operate.log import LogLine
from lanes.operate.move import MOST, TRIES, Change, Found, Move, count_met
from lanes.overrides import Action, Cancelled, Override
from lanes.testing.clock import FakeClock


class SlowOverrides:
    """Overrides with writes that take some seconds each."""

    def __init__(self, *seconds):
        self.clock = FakeClock()
        self.seconds = list(seconds)
        self.standing = {}

    def now(self):
        return self.clock.now

    def add(self, override):
        self.clock.advance(self.seconds.pop(0))
        self.standing[override.id] = override

    def withdraw(self, override_id):
        del self.standing[override_id]


def make(overrides, action):
    written = []
    audit = SimpleNamespace(who=lambda: "arn:ops", write=written.append)
    queues = SimpleNamespace(depths=None, overrides=overrides, audit=audit)
    change = Change(action=action, wanted=MessageFilter(kind="work"), priority=50)
    move = Move(change, config=LanesConfig(), outbox=None, queues=queues)
    return move.make(Found(entries=None, preview=None, queued={}), progress=lambda _count: None)


def test_an_override_that_landed_late_is_replaced():
    """An environment that had read just before it would handle what another one moves."""
    overrides = SlowOverrides(3.0, 0.2)

    moved = make(overrides, Action.PRIORITIZE)

    assert list(overrides.standing.values()) == [moved.override]
    assert overrides.clock.now - moved.override.created_at < 1


def test_an_override_that_always_lands_late_is_withdrawn():
    """Nothing was changed, and the error says so."""
    overrides = SlowOverrides(*[3.0] * TRIES)

    with pytest.raises(AwsError, match="withdrawn; try again later"):
        make(overrides, Action.PRIORITIZE)

    assert overrides.standing == {}


def test_a_cancellation_may_land_late():
    """It moves nothing."""
    overrides = SlowOverrides(3.0)

    assert list(overrides.standing.values()) == []
    assert make(overrides, Action.CANCEL).override.id in overrides.standing


def override(name, action=Action.PRIORITIZE, created_at=100.0):
    """Make an active override."""
    return Override(
        id=name,
        action=action,
        wanted=MessageFilter(kind="order.*"),
        created_at=created_at,
        expires_at=9e9,
        who="me",
    )


def cancelled(name, number):
    """Make the record of a cancelled message."""
    texts = dict.fromkeys(("lane", "id", "kind", "group", "source", "who", "why"), "x")
    return Cancelled(
        **texts, message_id=str(number), sent_at=0, receive_count=1, cancelled_at=200, override=name
    )


class Log:
    """Events in memory."""

    def __init__(self, *events):
        self.events = events
        self.since = None

    def lines(self, *, since, until=None, containing=()):
        """Give all of them, whatever is asked."""
        self.since = since
        for number, event in enumerate(self.events):
            yield LogLine(id=str(number), at=200, text=json.dumps(event))


def moved(name, message_id):
    """Make the event of a moved message."""
    return {"event": "message_moved", "override": name, "message_id": message_id}


def met(overrides, *, found=(), log=None):
    """Count, and collect the notes."""
    notes = []
    counts = count_met(
        overrides, cancellations=lambda _since, _limit: found, logs=lambda: log or Log(), note=notes.append
    )
    return counts, notes


def test_each_override_counts_its_own_messages_once():
    """A message that came back before its deletion was moved again."""
    overrides = [override("a"), override("b", created_at=50.0), override("c", Action.CANCEL)]
    log = Log(
        moved("a", "1"), moved("a", "1"), moved("a", "2"), moved("gone", "3"), {"event": "message_handled"}
    )

    counts, notes = met(overrides, found=[cancelled("c", 1), cancelled("c", 2), cancelled("old", 3)], log=log)

    assert counts == {"a": 2, "b": 0, "c": 2}
    assert notes == []
    assert log.since == 50.0


def test_without_overrides_nothing_is_read():
    """The log may be large."""

    def never(*_):
        raise AssertionError

    assert count_met([], cancellations=never, logs=never, note=never) == {}


def test_a_log_that_cannot_be_read_leaves_the_moved_unknown():
    """Zero would say that the override has no effect."""

    class Denied:
        def lines(self, **_):
            raise AwsError(operation="FilterLogEvents", code="AccessDenied", retryable=False)

    counts, notes = met(
        [override("a"), override("c", Action.CANCEL)], found=[cancelled("c", 1)], log=Denied()
    )

    assert counts == {"a": None, "c": 1}
    assert len(notes) == 1


def test_a_count_that_is_cut_says_so():
    """More than one reading takes."""
    many = [moved("a", str(number)) for number in range(MOST + 1)]

    counts, notes = met([override("a")], log=Log(*many))

    assert counts == {"a": MOST}
    assert notes == ["only the first 10,000 moved messages are counted"]
