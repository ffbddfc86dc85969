"""Waits and inversions of a demo's run."""

import math

import pytest

from local.demo.figures import run_figures
from local.demo.plan import Fault
from local.demo.waits import inversions, judged_seconds, left_out, percentile, waits
from tests.support.demo_runs import RULES, MadeUpRun, quiet_run


def found_inversions(run, bound=0.3):
    """Inversions of a made-up run."""
    return inversions(waits(run.evidence), run.evidence, bound_seconds=bound)


def test_a_live_message_waits_from_its_sending_to_its_first_start():
    """Later attempts change nothing."""
    run = MadeUpRun().send("pay", "HIGH", at=2).refuse("pay", 2.5).finish("pay", 9, 10)

    [wait] = waits(run.evidence)

    assert wait.seconds == pytest.approx(0.5)


def test_the_backfill_waits_from_the_beginning_of_the_run():
    """It was there before, while nothing ran."""
    run = MadeUpRun().send("bulk", at=-60).finish("bulk", 3, 4)

    [wait] = waits(run.evidence)

    assert wait.seconds == pytest.approx(3)


def test_a_message_that_never_started_waits_for_ever():
    """A p99 must not look better for it."""
    [wait] = waits(MadeUpRun().send("pay", "HIGH").evidence)

    assert math.isinf(wait.seconds)


def test_a_live_message_behind_a_failing_one_of_its_group_is_left_out():
    """It waits for the failing one, whatever its priority; the failing one itself is judged."""
    run = MadeUpRun().send("head", "HIGH", at=0, fault=Fault.ONCE).send("behind", "HIGH", at=0.1)
    run.refuse("head", 1).finish("head", 5, 6).finish("behind", 6, 7)
    found = waits(run.evidence)

    unjudged = left_out(found, run.evidence)

    assert unjudged == {"behind"}
    assert judged_seconds(found, without=unjudged) == {"HIGH": [pytest.approx(1)]}


def test_both_runs_leave_out_the_same_messages():
    """Those that had a failing one before them in the run with priority."""
    first = MadeUpRun().send("head", "HIGH", at=0).send("behind", "HIGH", at=0.1)
    first.refuse("head", 1).finish("head", 5, 6).finish("behind", 6, 7)
    second = MadeUpRun().send("head", "HIGH", at=0).send("behind", "HIGH", at=0.1)
    second.finish("head", 1, 2).finish("behind", 2, 3)

    figures = run_figures(second.evidence, RULES, compared_with=first.evidence)

    assert figures.lanes["HIGH"].waits_judged == 1


@pytest.mark.parametrize(("percent", "expected"), [(50, 50), (99, 99), (100, 100), (1, 1)])
def test_percentiles_are_values_that_occurred(percent, expected):
    """The smallest that so many percent do not exceed."""
    assert percentile(list(range(1, 101)), percent) == expected


def test_nothing_has_no_percentile():
    """None rather than a number that nobody measured."""
    assert percentile([], 99) is None


def test_a_record_that_starts_long_after_a_higher_message_began_to_wait_is_an_inversion():
    """The pair is named: who waited, who started."""
    run = MadeUpRun().send("bulk").send("pay", "HIGH", group="p", at=1.0)
    run.finish("bulk", 1.5, 1.6).finish("pay", 1.7, 1.8)

    assert found_inversions(run) == [("pay", "bulk")]


def test_a_record_that_starts_within_the_bound_is_none():
    """The lane below may not know yet."""
    run = MadeUpRun().send("bulk").send("pay", "HIGH", group="p", at=1.0)
    run.finish("bulk", 1.29, 1.5).finish("pay", 1.6, 1.7)

    assert found_inversions(run) == []


def test_a_middle_lane_is_both():
    """It may hold lower lanes back, and is held back by higher ones."""
    run = (
        MadeUpRun().send("order", "MEDIUM", group="o", at=0).send("pay", "HIGH", group="p", at=0).send("bulk")
    )
    run.finish("order", 1, 1.1).finish("bulk", 0.5, 0.6).finish("pay", 2, 2.1)

    assert sorted(found_inversions(run)) == [("order", "bulk"), ("pay", "order")]


def test_a_higher_message_that_runs_or_fails_holds_nobody_back():
    """From its first start on it waits no more; between attempts it waits for its backoff."""
    run = MadeUpRun().send("pay", "HIGH", group="p", at=0).send("bulk")
    run.refuse("pay", 0.1).finish("bulk", 2, 3).finish("pay", 4, 5)

    assert found_inversions(run) == []


def test_a_message_behind_a_failing_one_holds_nobody_back():
    """It could not start anyway."""
    run = MadeUpRun().send("head", "HIGH", at=0).send("behind", "HIGH", at=0.1).send("bulk", group="b")
    run.refuse("head", 0.1).finish("bulk", 2, 3).finish("head", 4, 5).finish("behind", 5, 6)

    assert found_inversions(run) == []


def test_the_bound_is_the_recheck_interval_and_the_longest_record():
    """A planted late start is counted by the figures too."""
    run = quiet_run(high_wait=0.3)
    run.send("late", group="l").finish("late", 0.38, 0.385)

    assert run_figures(run.evidence, RULES).inversions == 1
