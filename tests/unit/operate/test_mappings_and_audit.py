"""Pausing and resuming, and the trail that changes leave."""

import dataclasses

import pytest

from lanes.errors import AwsError, ConfigurationError, LanesError
from lanes.operate.audit import audited
from lanes.operate.pause import LaneMapping, PulledLanes, others_stay, switch
from lanes.testing.calls import Calls
from lanes.testing.clock import FakeClock
from lanes.testing.table import MemoryPauses
from tests.support.operating import QueueMappings, Trail

ENABLED = LaneMapping(
    uuid="u", state="Enabled", function_arn="f", batch_size=10, maximum_concurrency=2, reports_failures=True
)


class SlowMappings:
    """A mapping that passes through states, one each time it is looked at."""

    def __init__(self, *states, found=1, first="Enabled"):
        self._states = [first, *states]
        self._found = found
        self.asked = []

    def of_lane(self, _lane):
        return [self._next()] * self._found

    def enable(self, _lane, _mapping, *, enabled):
        self.asked.append(enabled)
        return self._next()

    def _next(self):
        state = self._states.pop(0) if len(self._states) > 1 else self._states[0]
        return dataclasses.replace(ENABLED, state=state)


def switched(mappings, *, enabled, trail=None):
    clock, told = FakeClock(), []
    after = switch(
        mappings,
        "HIGH",
        enabled=enabled,
        audit=trail or Trail(),
        report=told.append,
        clock=clock,
        pause=clock.advance,
    )
    return after.state, told


def test_pausing_waits_until_it_holds():
    """Each state is told once."""
    mappings, trail = SlowMappings("Disabling", "Disabling", "Disabled"), Trail()

    assert switched(mappings, enabled=False, trail=trail) == ("Disabled", ["Disabling"])
    assert mappings.asked == [False]
    noted = {"mapping": "u", "before": "Enabled"}
    assert trail.written == [("pause", "HIGH", "started", noted), ("pause", "HIGH", "done", noted)]


def test_a_change_of_somebody_else_is_waited_for():
    """AWS refuses a second change before the first has ended."""
    mappings = SlowMappings("Enabling", "Enabled", "Disabling", "Disabled", first="Updating")

    assert switched(mappings, enabled=False) == ("Disabled", ["Updating", "Enabling", "Disabling"])
    assert mappings.asked == [False]


def test_a_change_that_somebody_else_takes_back_is_told():
    """It is not asked for again and again."""
    with pytest.raises(LanesError, match="another caller"):
        switched(SlowMappings("Disabling", "Enabled"), enabled=False)


def test_a_lane_that_runs_is_not_resumed_again():
    """Nothing is asked of AWS."""
    mappings = SlowMappings("Enabled")

    assert switched(mappings, enabled=True) == ("Enabled", [])
    assert mappings.asked == []


def test_a_change_that_does_not_end_is_told():
    """After five minutes the command ends; AWS may still go on."""
    with pytest.raises(LanesError, match="still Disabling"):
        switched(SlowMappings("Disabling"), enabled=False)


@pytest.mark.parametrize("found", [0, 2])
def test_a_lane_needs_exactly_one_mapping(found):
    """Neither none nor two can be paused."""
    with pytest.raises(ConfigurationError, match="exactly one"):
        switched(SlowMappings("Enabled", found=found), enabled=False)


@pytest.fixture
def pulled():
    """Two lanes of the pull engine, behind the bell's mapping."""
    return PulledLanes(calls=QueueMappings(ENABLED), pauses=MemoryPauses(Calls()), ring=lambda _lane: None)


def test_a_lane_of_the_pull_engine_is_paused_without_its_mapping(pulled):
    """The bell's mapping goes on for the other lanes."""
    assert switched(pulled, enabled=False) == ("Disabled", [])

    states = {lane: pulled.of_lane(lane)[0].state for lane in ("HIGH", "MAIN")}
    assert states == {"HIGH": "Disabled", "MAIN": "Enabled"}
    assert switched(pulled, enabled=True) == ("Enabled", [])
    assert pulled.of_lane("HIGH") == [ENABLED]


def test_a_mapping_of_another_function_is_named_by_who_pauses():
    """It goes on to receive."""
    older = dataclasses.replace(
        ENABLED, uuid="7", function_arn="arn:aws:lambda:eu-central-1:1:function:Older:3"
    )
    calls = QueueMappings(ENABLED, of_others=[older])
    lanes = PulledLanes(calls=calls, pauses=MemoryPauses(Calls()), ring=lambda _lane: None)

    assert others_stay(lanes, "HIGH") == [
        "HIGH: mapping 7 gives its messages to Older, which is not the consumer. It stays Enabled."
    ]


def test_the_bell_is_rung_for_a_resumed_lane():
    """Its senders rang while it was paused; the heartbeat comes up to 20 s later."""
    rung = []
    lanes = PulledLanes(calls=QueueMappings(ENABLED), pauses=MemoryPauses(Calls()), ring=rung.append)

    switched(lanes, enabled=False)
    assert rung == []
    switched(lanes, enabled=True)

    assert rung == ["HIGH"]


def test_a_lane_of_the_pull_engine_without_a_bell_is_refused():
    """There is nothing that would receive its messages."""
    lanes = PulledLanes(calls=QueueMappings(), pauses=MemoryPauses(Calls()), ring=lambda _lane: None)
    with pytest.raises(ConfigurationError, match="no event source mappings serve it"):
        switched(lanes, enabled=False)


def test_an_entry_is_written_before_and_after_a_change():
    """The second says what was done."""
    trail = Trail()

    with audited(trail, "pause", "HIGH", details={"before": "Enabled"}) as noted:
        assert trail.written == [("pause", "HIGH", "started", {"before": "Enabled"})]
        noted["done"] = 3

    assert trail.written[1:] == [("pause", "HIGH", "done", {"before": "Enabled", "done": 3})]


def test_a_change_that_fails_or_is_interrupted_says_so():
    """The error goes on."""
    trail = Trail()
    for error in (AwsError(operation="SendMessage", code="Throttled", retryable=True), KeyboardInterrupt()):
        with pytest.raises(type(error)), audited(trail, "send", "lanes", details={}):
            raise error

    assert [outcome for *_, outcome, _ in trail.written] == [
        "started",
        "failed: SendMessage: Throttled",
        "started",
        "interrupted",
    ]


def test_the_error_of_a_change_is_told_also_where_it_can_not_be_written_down():
    """The table may be what has failed."""

    class Failing(Trail):
        def write(self, entry):
            if entry.outcome != "started":
                raise AwsError(operation="PutItem", code="Throttled", retryable=True)

    with pytest.raises(ValueError, match="the cause"), audited(Failing(), "send", "lanes", details={}):
        raise ValueError("the cause")


def test_nothing_is_changed_where_no_entry_can_be_written():
    """The body does not run."""

    class Full(Trail):
        def write(self, _entry):
            raise AwsError(operation="PutItem", code="AccessDenied", retryable=False)

    with pytest.raises(AwsError), audited(Full(), "pause", "HIGH", details={}):
        pytest.fail("the change was made")
