"""A change of waiting messages: the override that carries it is in effect only if its write was quick enough."""

from types import SimpleNamespace

import pytest

from lanes.config import LanesConfig
from lanes.errors import AwsError
from lanes.message_filter import MessageFilter
from lanes.operate.move import TRIES, Change, Found, Move
from lanes.overrides import Action
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
