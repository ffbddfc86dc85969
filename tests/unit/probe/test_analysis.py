"""From events to a profile: synthetic traces with noise are named rightly, within their spread."""

from random import Random

import pytest

from lanes.probe.analysis import analysed, spread
from lanes.probe.profile import Spread


class Trace:
    """Events as the function of the probe writes them, with noise of up to 30 ms on each moment."""

    def __init__(self, seed=1):
        self.chance = Random(seed)
        self.events = []

    def add(self, run, event, at, **more):
        about = {"queue": "first", "group": "g", "role": "", "receives": 1, "cold": False}
        about |= {"sent": 0.0, "received": 2.0}
        self.events.append(
            {**about, "run": run, "event": event, "at": at + self.chance.random() * 0.03, **more}
        )

    def section(self, name):
        return analysed(self.events).sections[name]


def throttled(*, longest, visibility=60, retries=True):
    """A slot that becomes free at 10 s, and batches that wait for it."""
    trace = Trace()
    for number in range(4):
        run = f"throttle/{number}"
        trace.add(run, "start", 0, role="blocker")
        trace.add(run, "end", 10, role="blocker")
        for place in range(5):
            at = 10 + longest * trace.chance.random() if retries else visibility + 2
            trace.add(
                run, "start", at, role="waiting", group=f"w{place}", sent=1.0, receives=1 if retries else 2
            )
            trace.add(run, "end", at + 0.05, role="waiting", group=f"w{place}")
    return trace


@pytest.mark.parametrize("longest", [0.3, 2, 10])
def test_the_longest_wait_of_throttled_batches_is_estimated(longest):
    """From times that are uniform below it; the interval holds it."""
    found = throttled(longest=longest).section("throttle")

    assert (found["retried"], found["samples"]) == (1, 20)
    assert found["longest_wait"].low <= longest + 0.03
    assert longest <= found["longest_wait"].high < 1.6 * longest


def test_batches_that_came_for_a_free_slot_were_not_throttled():
    """A mapping with few pollers receives them late."""
    trace = throttled(longest=2)
    for number in range(4):
        trace.add(f"throttle/{number}", "start", 13, role="waiting", received=12.9)

    assert trace.section("throttle")["samples"] == 20


def waited(*waits):
    """One batch for each wait."""
    trace = Trace()
    for number, wait in enumerate(waits):
        trace.add(f"throttle/0/{number}", "end", 10, role="blocker")
        trace.events[-1]["at"] = 10
        trace.add(f"throttle/0/{number}", "start", 10, role="waiting")
        trace.events[-1]["at"] = 10 + wait
    return trace


def test_a_stall_of_the_machine_is_no_wait():
    """Measured on one with two cores: after five waits of 0.3 s at most, the sixth was 1.8 s."""
    trace = waited(0.283, 0.058, 0.008, 0.022, 0.051, 1.837)

    assert trace.section("throttle")["longest_wait"].high < 0.6


def test_dropped_batches_are_known_by_their_receives():
    """They have no wait between tries."""
    found = throttled(longest=0, retries=False).section("throttle")

    assert found == {"retried": 0, "receives": 2, "samples": 20}


@pytest.mark.parametrize(
    ("returned", "deleted", "rule"), [(1, 1, "oldest"), (0, 0, "turn"), (0, 1, "back"), (0.5, 0.5, "mixed")]
)
def test_the_order_of_groups(returned, deleted, rule):
    """By the share of receives that give the same group again; one in ten is different."""
    trace = Trace()
    for how, share in (("visibility", returned), ("delete", deleted)):
        for number in range(20):
            same = trace.chance.random() < share if number % 10 else trace.chance.random() < 0.5
            trace.add("order", "order", number, how=how, order=[0, 0 if same else 1], groups=4)

    assert trace.section("order")["next"] == rule


@pytest.mark.parametrize("missed", [0, 0.1, 1 / 3])
def test_the_share_of_missed_polls(missed):
    """Its interval holds the true share."""
    trace = Trace()
    polls = [[number, trace.chance.random() >= missed] for number in range(300)]
    trace.add("polls", "polls", 0, polls=polls, waiting=3)
    found = trace.section("polls")["missed"]

    assert found.low <= missed <= found.high
    assert found.high - found.low < 0.12


def test_times_of_calls_and_their_sigma():
    """The median and the sigma of a log-normal distribution come back."""
    trace = Trace()
    times = [trace.chance.lognormvariate(-5, 0.5) for _ in range(400)]
    trace.add("calls", "calls", 0, receive=times, delete=times, get_queue_attributes=times, update_item=times)
    found = trace.section("calls")

    assert found["receive"].typical == pytest.approx(0.0067, rel=0.1)
    assert found["receive"].low < found["receive"].typical < found["receive"].high
    assert found["sigma"] == pytest.approx(0.5, rel=0.1)


def test_the_bell_starts_one_invocation_for_each_group():
    """Cold starts are left out of the times; peaks count all."""
    trace = Trace()
    for number in range(5):
        for slot in range(4):
            about = {"group": f"slot-{slot}", "sent": 0.0, "cold": number == 0}
            trace.add(f"bell/{number}", "start", 3 if number == 0 else 0.05, role="first", **about)
            trace.add(f"bell/{number}", "end", 4, role="first", **about)
            trace.add(f"bell/{number}", "start", 4.1, role="again", group=f"slot-{slot}")
            trace.add(f"bell/{number}", "end", 4.5, role="again", group=f"slot-{slot}")
    found = trace.section("bell")

    assert (found["groups"], found["peak"], found["start"].samples) == (4, 4, 16)
    assert found["start"].high < 0.1
    assert 0.05 < found["follow"].typical < 0.15


def test_too_few_events_conclude_nothing():
    """A section without samples is left out of the profile."""
    trace = Trace()
    trace.add("throttle/0", "start", 0, role="blocker")
    trace.add("polls", "polls", 0, polls=[], waiting=3)

    assert analysed(trace.events).sections == {}


def test_a_spread_consists_of_measured_values():
    """The nearest rank, as in all figures: 19 of 20 values are 95 %."""
    assert spread([*range(20, 0, -1)]) == Spread(low=1, typical=10, high=19, samples=20)
