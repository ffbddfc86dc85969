"""
Every call of a consumer that cancels and sends on fails once, in every way, and nothing is lost.

One scenario touches all of it, with idempotency on, since a message that is sent on may come twice. It runs once to
count its calls, then once for each call and each kind of fault.
"""

from collections import Counter

import pytest

from lanes.errors import AwsError
from lanes.events import Event
from lanes.metrics import Metric
from lanes.testing.calls import ProcessKilled
from tests.contract.test_c1_faults import CRASHED, CRASHED_AFTER, REFUSED, UNANSWERED, UNFORESEEN, _break
from tests.support.overriding import Overridden

CANCELLED = {"c1", "c2"}


def tell(slots, *, position=None, fault=None):
    """Tell the scenario, with the call at a position broken, to its end."""
    scenario = Overridden(
        {
            "consumer": {
                "reserved_concurrency": slots,
                "idempotency": True,
                "max_attempts": 2,
                "backoff_max": 5,
            },
            "lanes": [
                {"name": "HIGH", "threshold": 50, "batch_size": 4},
                {"name": "MAIN", "batch_size": 3},
            ],
        },
        environments=slots,
        seed=7,
    )
    scenario.takes = 0.2
    for number in range(6):
        scenario.send("MAIN", f"m{number}", group="moved")
        scenario.send("MAIN", f"g{number}", group="whole")
    for name in ("c1", "k1", "c2", "k2"):
        scenario.send("MAIN", name, group="mixed")
    scenario.send("MAIN", "d", "fail", "fail", "ok", group="dead")
    scenario.put("cancel", ids=tuple(CANCELLED), after=0)
    scenario.put("prioritize", priority=50, group="whole", after=0)
    scenario.put("prioritize", priority=50, ids=("m2",))
    _break(scenario.world.calls, position, fault)
    scenario.drain()
    _redrive(scenario)
    scenario.drain()
    return scenario


def _redrive(scenario):
    """Redrive as an operator does: what failed or was killed is started again."""
    try:
        scenario.redrive()
    except (AwsError, RuntimeError, ProcessKilled):
        scenario.world.calls.killed = False
        scenario.redrive()


def check(scenario, fault=None):
    """
    Each ended once, in the order of its group, in the lane where it should.

    A process that dies between the end of a handler and noting it does the work again, as it would without overrides.
    """
    scenario.done = list(dict.fromkeys(scenario.done)) if fault in (UNFORESEEN, CRASHED) else scenario.done
    assert [one for one in scenario.violations if "before" not in one] == []
    for group in ("m", "g", "k"):
        done = [name for name in scenario.done if name[0] == group]
        assert done == sorted(done), done
    assert set(scenario.cancelled()) == CANCELLED
    assert sorted([*scenario.done, *scenario.cancelled()]) == sorted(one.id for one in scenario.sent)
    assert {scenario.lane_of(f"g{number}") for number in range(6)} == {"HIGH"}
    assert [scenario.lane_of(f"m{number}") for number in range(6)] == ["MAIN"] * 2 + ["HIGH"] * 4
    for lane in scenario.world.queues.live:
        assert (scenario.waiting(lane), scenario.letters(lane)) == ([], [])


@pytest.mark.parametrize("slots", [1, 3])
def test_the_scenario_touches_what_overrides_call(slots):
    """Or the rest of this file would prove less than it says."""
    scenario = tell(slots)

    check(scenario)
    assert scenario.reasons() == ["attempts exhausted"]
    assert {"SendMessage", "PutItem", "UpdateItem", "GetItem overrides"} <= set(scenario.world.calls.counts)


@pytest.mark.parametrize("fault", [REFUSED, UNANSWERED, UNFORESEEN, CRASHED, CRASHED_AFTER])
@pytest.mark.parametrize(("slots", "every"), [(1, 5), (3, 9), pytest.param(1, 1, marks=pytest.mark.deep)])
def test_any_one_call_may_fail(slots, every, fault):
    """Nothing is lost or done twice, and every group keeps its order."""
    calls = len(tell(slots).world.calls.log)
    broken = []
    for position in range(0, calls, every):
        scenario = tell(slots, position=position, fault=fault)
        try:
            check(scenario, fault)
        except AssertionError as error:
            broken.append((position, scenario.world.calls.log[position], str(error)[:300]))

    assert broken == []


def test_each_failed_call_that_is_reported_is_counted():
    """The alarm on failed calls adds them up, so one that is only logged would wake nobody."""
    calls, reported = len(tell(3).world.calls.log), Counter()
    for position in range(calls):
        recorder = tell(3, position=position, fault=REFUSED).world.recorder
        problems = [name for name, _ in recorder.problems if name != Event.HANDLER_FAILED]
        assert recorder.counts[Metric.AWS_ERRORS] == len(problems), problems
        reported.update(problems)

    assert {Event.DEAD_LETTER_NOT_SENT, Event.MESSAGE_NOT_DIVERTED} <= set(reported)
