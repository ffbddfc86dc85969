"""From events to a profile: synthetic traces with noise are named rightly, within their spread."""

from random import Random

import pytest

from lanes.probe.analysis import analysed
from lanes.probe.words import findings
from simulator.parameters import Unknowns, all_variants


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

    def profile(self):
        return analysed(self.events)

    def assumption(self, section):
        return next(one.assumption for one in findings(self.profile()) if one.section == section)


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


@pytest.mark.parametrize(
    ("longest", "name"), [(0.3, "backoff up to 0.3 s"), (2, "as given"), (10, "backoff up to 10 s")]
)
def test_the_longest_wait_of_throttled_batches_is_estimated(longest, name):
    """From times that are uniform below it; the interval holds it."""
    trace = throttled(longest=longest)
    found = trace.profile().throttle

    assert (found.retried, found.samples) == (1, 20)
    assert found.longest_wait.low <= longest + 0.03
    assert longest <= found.longest_wait.high
    assert found.longest_wait.high < 1.6 * longest
    assert trace.assumption("throttle") == name


def test_batches_that_came_for_a_free_slot_were_not_throttled():
    """A mapping with few pollers receives them late."""
    trace = throttled(longest=2)
    for number in range(4):
        trace.add(f"throttle/{number}", "start", 13, role="waiting", received=12.9)

    assert trace.profile().throttle.samples == 20
    assert trace.assumption("throttle") == "as given"


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

    assert trace.profile().throttle.longest_wait.high < 0.6
    assert trace.assumption("throttle") == "backoff up to 0.3 s"


def test_waits_that_fit_two_assumptions_are_undecided():
    """0.6 s may be the longest of 0.3 s on a slow machine, or of 2 s by luck."""
    assert waited(0.1, 0.2, 0.3, 0.4, 0.5, 0.6).assumption("throttle") == "undecided"


def test_dropped_batches_are_known_by_their_receives():
    """They have no wait between tries."""
    trace = throttled(longest=0, retries=False)
    found = trace.profile().throttle

    assert (found.retried, found.longest_wait, found.receives) == (0, None, 2)
    assert found.samples == 20
    assert trace.assumption("throttle") == "throttled batches dropped"


@pytest.mark.parametrize(
    ("winner", "wins"),
    [
        (lambda _places, _chance: "first", "highest"),
        (lambda _places, _chance: "third", "lowest"),
        (lambda places, _chance: places[0], "oldest"),
        (lambda places, chance: chance.choice(places), "chance"),
    ],
)
def test_the_rule_of_free_slots_is_told_from_chance(winner, wins):
    """One round in ten breaks the rule."""
    trace = Trace()
    for number in range(30):
        run, places = f"winner/{number}", ["first", "second", "third"]
        trace.chance.shuffle(places)
        trace.add(run, "end", 5, role="blocker")
        won = winner(places, trace.chance) if number % 10 else trace.chance.choice(places)
        others = [place for place in places if place != won]
        for position, place in enumerate([won, *others]):
            trace.add(
                run, "start", 5.1 + position, role="waiting", queue=place, sent=1 + places.index(place) / 10
            )

    assert trace.profile().winner.wins == wins


def test_a_few_races_prove_no_rule():
    """Four of five happen by chance too, in one of seven probes."""
    trace = Trace()
    for number in range(5):
        for position, place in enumerate(
            ["first", "second", "third"] if number else ["third", "first", "second"]
        ):
            run, sent = f"winner/{number}", 1 + (position + number) % 3
            trace.add(run, "start", 5 + position, role="waiting", queue=place, sent=sent)

    assert trace.profile().winner.first == 0.8
    assert trace.profile().winner.wins == "chance"
    assert trace.assumption("winner") == "undecided"


def loaded(*, first, per_second, seconds=20, hold=2.0):
    """Mappings with a backlog and a growing concurrency."""
    trace = Trace()
    for most in (2, 4, 13):
        run = f"pollers/{most}"
        for poller in range(most):
            begin = 0 if not first or poller < first else (poller - first + 1) / per_second
            while begin < seconds:
                trace.add(run, "start", begin)
                trace.add(run, "end", begin + hold)
                begin += hold + 0.1
    return trace


def test_pollers_that_are_all_there_at_once():
    """The maximum is reached in the first moments."""
    trace = loaded(first=0, per_second=1)

    assert trace.profile().pollers.first == 0
    assert trace.profile().pollers.reached == {"2": 2, "4": 4, "13": 13}
    assert trace.assumption("pollers") == "as given"


def test_pollers_that_grow():
    """Two at the start, and one more every four seconds."""
    found = loaded(first=2, per_second=0.25).profile().pollers

    assert found.first == 2
    assert 0.15 < found.ramp.typical < 0.4


def test_pollers_that_a_busy_machine_starts_late_are_undecided():
    """Nine of thirteen are neither all nor few."""
    assert loaded(first=9, per_second=0.25).assumption("pollers") == "undecided"


@pytest.mark.parametrize(
    ("returned", "deleted", "rule", "name"),
    [
        (1, 1, "oldest", "as given"),
        (0, 0, "turn", "groups in turn"),
        (0, 1, "back", "returned groups at the back"),
        (0.5, 0.5, "mixed", ""),
    ],
)
def test_the_order_of_groups(returned, deleted, rule, name):
    """By the share of receives that give the same group again; one in ten is different."""
    trace = Trace()
    for how, share in (("visibility", returned), ("delete", deleted)):
        for number in range(20):
            same = trace.chance.random() < share if number % 10 else trace.chance.random() < 0.5
            trace.add("order", "order", number, how=how, order=[0, 0 if same else 1], groups=4)

    assert trace.profile().order.next == rule
    assert trace.assumption("order") == name


@pytest.mark.parametrize(("age", "name"), [(0, "as given"), (1, "counts 1 s old"), (5, "counts 5 s old")])
def test_the_age_of_counts(age, name):
    """A change that was never shown is left out."""
    trace = Trace()
    for number in range(10):
        shown = None if number == 3 else age + trace.chance.random() * 0.1
        trace.add("counts", "counted", number, change="sent", age=shown)
        trace.add("counts", "blocked", number, counted=0, blocked=2)
    found = trace.profile().counts

    assert age <= found.age.low <= found.age.typical <= found.age.high <= age + 0.1
    assert found.age.samples == 9
    assert found.blocked_counted is False
    assert trace.assumption("counts") == name


@pytest.mark.parametrize(
    ("missed", "name"),
    [(0, "as given"), (0.1, "short polls miss 1 in 10"), (1 / 3, "short polls miss 1 in 3")],
)
def test_the_share_of_missed_polls(missed, name):
    """Its interval holds the true share."""
    trace = Trace()
    polls = [[number, trace.chance.random() >= missed] for number in range(300)]
    trace.add("polls", "polled", 0, polls=polls, waiting=3)
    found = trace.profile().short_polls.missed

    assert found.low <= missed <= found.high
    assert found.high - found.low < 0.12
    assert trace.assumption("short_polls") == name


def test_a_few_polls_decide_nothing():
    """Two misses of 60 fit none, and one in ten."""
    trace = Trace()
    trace.add("polls", "polled", 0, polls=[[number, number > 1] for number in range(60)], waiting=3)

    assert trace.assumption("short_polls") == "undecided"


def test_times_of_calls_and_their_sigma():
    """The median and the sigma of a log-normal distribution come back."""
    trace = Trace()
    times = [trace.chance.lognormvariate(-5, 0.5) for _ in range(400)]
    trace.add("calls", "calls", 0, receive=times, delete=times, get_queue_attributes=times, update_item=times)
    found = trace.profile().calls

    assert found.receive.typical == pytest.approx(0.0067, rel=0.1)
    assert found.receive.low < found.receive.typical < found.receive.high
    assert found.sigma == pytest.approx(0.5, rel=0.1)


def test_the_last_sign_of_life_of_killed_invocations():
    """Zero if there was none after the timeout; one without any sign says nothing."""
    trace = Trace()
    for number, late in enumerate([[-0.04, 0.005, 0.015], [-0.04, 0.01], [-0.04], []]):
        trace.add("kill", "start", 0, group=f"k{number}")
        for one in late:
            trace.add("kill", "alive", 3 + one, group=f"k{number}", late=one)
    found = trace.profile().kill.late

    assert (found.low, found.typical, found.high, found.samples) == (0, 0.01, 0.015, 3)


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
    found = trace.profile().bell

    assert (found.groups, found.peak, found.start.samples) == (4, 4, 16)
    assert found.start.high < 0.1
    assert 0.05 < found.follow.typical < 0.15


def test_too_few_events_conclude_nothing():
    """A section without samples is left out of the profile."""
    trace = Trace()
    trace.add("throttle/0", "start", 0, role="blocker")
    trace.add("winner/0", "start", 0, role="waiting")
    trace.add("polls", "polled", 0, polls=[], waiting=3)

    assert trace.profile().sections == {}


def test_every_assumption_is_one_of_the_simulator():
    """So that `lanes simulate --unknowns all` has a row by this name."""
    traces = [
        *(throttled(longest=longest) for longest in (0.3, 2, 10)),
        throttled(longest=0, retries=False),
        loaded(first=2, per_second=0.25),
    ]
    names = {one.assumption for trace in traces for one in findings(trace.profile())}

    assert names <= {"", *all_variants(Unknowns())}
