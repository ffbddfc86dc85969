"""What waits in hand returns beside a record that takes long: the timer in a thread, and the slot at its own work."""

import threading

import pytest

from lanes.consumer.engines import Threads
from lanes.testing.calls import InLine
from tests.support.memory import aws_error
from tests.support.scenario import Scenario

KNOWN = 12
"""Records after which a lane's times are known."""


class Timers(InLine):
    """Makes calls in line, those for later in threads."""

    def __init__(self):
        self.threads = Threads(4)

    def start(self, call, *, after=0.0):
        return self.threads.start(call, after=after) if after else super().start(call)


class Waiting(Scenario):
    """Three slots with short records, and one, `long`, that lasts until something was returned beside it."""

    def __init__(self, *, slots=3, returns=True):
        raw = {"consumer": {"reserved_concurrency": slots}}
        super().__init__(raw, engine="pull", beside=Timers(), environments=slots)
        self.takes = 0.05
        self.returns = returns
        self.returned = threading.Event()
        self.checks = None
        self._first = 0
        self.in_handler = self._in_handler
        self.changes = self.world.queues.change_visibility
        self.world.queues.change_visibility = self._changed

    def known(self, *lanes):
        """Let the first environment handle short records of these lanes."""
        for lane in lanes:
            for number in range(KNOWN):
                self.send(lane, f"{lane}{number}", group=f"{lane}{number}")
            self.ring()
        self._first = len(self.done)

    @property
    def later(self):
        """The ids of the records that were done since then."""
        return self.done[self._first :]

    def back(self):
        """Return the ids of the records that were returned since they waited in hand, in their order."""
        ids = {sent.message_id: sent.id for sent in self.sent}
        found = self.world.recorder.named("batch_returned")
        return [
            ids[one["message_id"]]
            for fields in found
            if fields["reason"] == "aside"
            for one in fields["messages"]
        ]

    def _changed(self, lane, changes):
        refused = self.changes(lane, changes)
        self.returned.set()
        return refused

    def _in_handler(self, message):
        if message.id != "long" or len(self.starts_of("long")) > 1:
            return
        if self.checks is not None:
            self.checks()
        self.world.clock.advance(3.0)
        if self.returns:
            assert self.returned.wait(10)


def test_what_a_look_found_beside_a_long_record_returns():
    """The look was meant to end with the record."""
    scenario = Waiting()
    scenario.takes = 0.3
    scenario.known("HIGH", "MEDIUM")
    scenario.send("MEDIUM", "long")
    scenario.checks = lambda: scenario.send("HIGH", "urgent")

    scenario.ring()

    assert scenario.back() == ["urgent"]
    scenario.drain()
    assert [one.attempt for one in scenario.starts_of("urgent")] == [1]
    scenario.check_kept()


def test_the_last_lane_keeps_its_batch_while_it_has_plenty():
    """Another slot would take the next ones all the same."""
    scenario = Waiting(returns=False)
    scenario.known("MAIN")
    for name in ("long", *(f"m{number}" for number in range(30))):
        scenario.send("MAIN", name, group=name)

    scenario.ring()

    assert scenario.back() == []
    assert scenario.later[:2] == ["long", "m0"]


def test_a_checkpoint_waits_for_the_records_that_return_at_that_moment():
    """The timer and the slot never have the same record in hand."""
    scenario, asked, seen = Waiting(), threading.Event(), []
    scenario.known("HIGH", "MEDIUM")
    for name in ("long", "other"):
        scenario.send("MEDIUM", name, *(["check"] if name == "long" else []), group=name)
    change = scenario.world.queues.change_visibility

    def slowly(lane, changes):
        scenario.returned.set()
        seen.append("returning")
        assert asked.wait(10)
        seen.append("returned")
        return change(lane, changes)

    def send_urgent(lane, **options):
        seen.append(lane)
        return receive(lane, **options)

    def check():
        scenario.world.clock.advance(3.0)
        assert scenario.returned.wait(10)
        scenario.send("HIGH", "urgent")
        scenario.world.queues.receive = send_urgent
        threading.Timer(0.05, asked.set).start()

    receive = scenario.world.queues.receive
    scenario.world.queues.change_visibility = slowly
    scenario.returns, scenario.checks = False, check
    scenario.ring()

    assert seen[:3] == ["returning", "returned", "HIGH"]
    assert scenario.later[0] == "urgent"
    scenario.drain()
    assert sorted(scenario.later) == ["long", "other", "urgent"]
    assert {one.attempt for one in scenario.starts} == {1}
    scenario.check_kept()


@pytest.mark.parametrize("operation", ["ChangeMessageVisibilityBatch", "PutItem", "SendMessageBatch"])
def test_a_call_that_fails_for_waiting_records_leaves_the_running_one_alone(operation):
    """They return when their visibility ends."""
    scenario = Waiting(returns=False)
    scenario.known("HIGH")
    for name in ("long", "other"):
        scenario.send("HIGH", name, group=name)
    broken = threading.Event()

    def fail(name, _position):
        if name == operation and scenario.handlers:
            broken.set()
            return aws_error(name)
        return None

    def wait():
        scenario.world.calls.break_if = fail
        scenario.world.clock.advance(3.0)
        assert broken.wait(10)

    scenario.checks = wait
    scenario.ring()

    assert scenario.later[0] == "long"
    scenario.world.calls.break_if = lambda _name, _position: None
    scenario.drain()
    assert sorted(scenario.later) == ["long", "other"]
    scenario.check_kept()


def test_an_error_of_the_timer_is_reported():
    """Whatever it is, the record that runs has its own outcome."""
    scenario, failed = Waiting(returns=False), threading.Event()
    scenario.known("HIGH")
    for name in ("long", "other"):
        scenario.send("HIGH", name, group=name)

    def fail(_lane, _changes):
        failed.set()
        raise ZeroDivisionError

    scenario.world.queues.change_visibility = fail

    def wait():
        scenario.world.clock.advance(3.0)
        assert failed.wait(10)

    scenario.checks = wait
    scenario.ring()

    assert scenario.later == ["long"]
    assert "batch_not_closed" in [name for name, _ in scenario.world.recorder.problems]
