"""The demo finds each planted fault in the evidence of a run, and nothing in a run without one."""

import math

import pytest

from local.demo.evidence import away_figures, inversions, left_out, run_figures, waits
from local.demo.plan import ALWAYS, ONCE
from tests.support.demo_runs import OUTAGE, MadeUpRun, away_run, quiet_run

FAULTS = (
    *(
        "losses",
        "order_violations",
        "healthy_dead_lettered",
        "unexplained_dead_letters",
        "duplicates_handled",
    ),
    *("other_violations", "inversions"),
)


def found(run):
    """Return the faults that are not nothing."""
    figures = run_figures(run.evidence)
    return {name: figures[name] for name in FAULTS if figures[name]}


def test_a_run_without_fault_is_clean():
    """Every figure that promises nothing is nothing."""
    assert found(quiet_run()) == {}


def planted():
    """Return a run with a fault of each kind, each in groups of its own."""
    run = MadeUpRun(reserved_concurrency=9)
    run.send("gone", group="lost", delivered=False).send("taken", group="lost")
    run.send("first", group="together").send("second", group="together")
    run.finish("first", 2, 4).finish("second", 3, 5)
    run.send("failing", group="overtaken").send("overtaking", group="overtaken")
    run.refuse("failing", 1).finish("overtaking", 2, 3).finish("failing", 4, 5)
    run.send("sooner", "HIGH", group="swapped", sequence=2).send("later", "HIGH", group="swapped", sequence=1)
    run.finish("later", 1, 2).finish("sooner", 3, 4)
    for one, fault, reason in (("good", None, "why"), ("flaky", ONCE, "why"), ("poison", ALWAYS, "")):
        run.send(one, group=one, fault=fault).refuse(one, 1).refuse(one, 2).refuse(one, 3).bury(one, reason)
    run.send("twice", group="twice").refuse("twice", 0).finish("twice", 1, 2).finish("twice", 3, 4)
    return run.send("ended", group="ended", fault=ALWAYS).finish("ended", 1, 2).bury("ended")


def test_each_planted_fault_is_found():
    """
    Lost, out of order, given up without need or without a reason, and done twice.

    A message may start before an earlier one of its group ended, overtake a failing one, or be swapped by the queue:
    the sender's order counts. One that was done and given up ended twice, and was given up without a failure.
    """
    assert found(planted()) == {
        "losses": 2,
        "order_violations": 3,
        "healthy_dead_lettered": 2,
        "unexplained_dead_letters": 1,
        "duplicates_handled": 1,
        "other_violations": 2,
    }


def test_other_groups_and_lanes_may_overtake():
    """Order is promised within a group of a lane."""
    run = MadeUpRun().send("first", group="a").send("second", group="b").send("urgent", "HIGH", group="a")
    run.finish("first", 4, 5).finish("second", 1, 2).finish("urgent", 2, 3)

    assert "order_violations" not in found(run)


def test_a_queue_that_swaps_the_messages_of_a_sender_is_found():
    """The sender's order counts, not the queue's."""
    run = MadeUpRun().send("sooner", "HIGH", sequence=2).send("later", "HIGH", sequence=1)
    run.finish("later", 1, 2).finish("sooner", 3, 4)

    assert found(run) == {"order_violations": 1}


def test_poison_counts_only_after_exactly_the_allowed_attempts():
    """One attempt fewer or more breaks the promise, and so does one that was not given up; a crash is one."""
    run = MadeUpRun()
    for name, attempts in (("early", 2), ("right", 3), ("late", 4)):
        run.send(name, group=name, fault=ALWAYS).bury(name)
        for attempt in range(attempts):
            (run.crash if name == "right" and attempt == 1 else run.refuse)(name, attempt)
    run.send("kept", fault=ALWAYS)
    figures = run_figures(run.evidence)

    assert (figures["poison_sent"], figures["poison_dead_lettered"]) == (4, 1)
    assert figures["other_violations"] == 2


def test_more_handlers_than_slots_are_found():
    """A handler that ends when another one starts makes room for it."""
    assert (
        found(MadeUpRun().send("a", group="a").send("b", group="b").finish("a", 1, 2).finish("b", 2, 3)) == {}
    )
    run = MadeUpRun(reserved_concurrency=2)
    for name in "abc":
        run.send(name, group=name).finish(name, 1, 2)

    assert found(run) == {"other_violations": 1}


def test_a_live_message_waits_from_its_sending_to_its_first_start():
    """Later attempts change nothing; the backfill waits from the beginning, as nothing ran before."""
    run = MadeUpRun().send("pay", "HIGH", at=2).refuse("pay", 2.5).finish("pay", 9, 10)
    run.send("bulk", at=-60).finish("bulk", 3, 4)

    assert [wait.seconds for wait in waits(run.evidence)] == [pytest.approx(0.5), pytest.approx(3)]


def test_a_message_that_never_started_waits_for_ever():
    """A p99 must not look better for it."""
    run = MadeUpRun().send("pay", "HIGH")

    assert math.isinf(run_figures(run.evidence)["lanes"]["HIGH"]["p99_wait_seconds"])


def test_every_run_leaves_out_the_messages_behind_a_failing_one():
    """Those of the run with mappings: they wait for the failing one, whatever their priority."""
    first = MadeUpRun().send("head", "HIGH", at=0).send("behind", "HIGH", at=0.1)
    first.refuse("head", 1).finish("head", 5, 6).finish("behind", 6, 7)
    second = MadeUpRun().send("head", "HIGH", at=0).send("behind", "HIGH", at=0.1)
    second.finish("head", 1, 2).finish("behind", 2, 3)
    unjudged = left_out(first.evidence)

    lane = run_figures(second.evidence, unjudged=unjudged)["lanes"]["HIGH"]
    assert unjudged == {"behind"}
    assert (lane["waits_judged"], lane["behind_failure"]) == (1, 1)
    assert lane["p99_wait_seconds"] == pytest.approx(1)


def found_inversions(run):
    """Return the inversions of a made-up run."""
    return inversions(waits(run.evidence), run.evidence, bound=0.3)


def test_a_record_that_starts_long_after_a_higher_message_began_to_wait_is_an_inversion():
    """The pair is named: the message that waited, and the one that started."""
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


def test_a_higher_message_that_runs_or_fails_or_is_behind_one_holds_nothing_back():
    """From its first start on it waits no more; between attempts it waits for its backoff."""
    run = MadeUpRun().send("head", "HIGH", at=0).send("behind", "HIGH", at=0.1).send("bulk", group="b")
    run.refuse("head", 0.1).finish("bulk", 2, 3).finish("head", 4, 5).finish("behind", 5, 6)

    assert found_inversions(run) == []


def test_the_bound_is_the_recheck_interval_and_the_longest_record():
    """A planted late start is counted by the figures too."""
    run = quiet_run(high_wait=0.3).send("late", group="l").finish("late", 0.38, 0.385)

    assert found(run) == {"inversions": 1}


def test_an_outage_without_fault_is_clean():
    """Its calls are counted, and the time from its end to the first start; a call into it is no failed attempt."""
    figures = away_figures(away_run().evidence)

    assert figures.pop("away_calls") == 6
    assert figures.pop("away_first_start_seconds") == pytest.approx(3)
    assert set(figures.values()) == {0}


@pytest.mark.parametrize("late", ["pay-0", "pay-3"])
def test_a_lower_message_that_starts_before_an_urgent_one_is_found(late):
    """Also if the urgent one had found the resource away before."""
    first = [one for one in OUTAGE if one != late][:5]
    run = away_run([*first, late, *(one for one in OUTAGE if one not in {*first, late})])

    assert away_figures(run.evidence)["away_inversions"] == 2


def test_a_lower_message_that_is_tried_while_an_urgent_one_waits_is_found():
    """Each try is of the most urgent one."""
    run = away_run().find_away("bulk-3", 7.5)

    assert away_figures(run.evidence)["away_inversions"] == 1


def test_an_outage_that_costs_a_message_an_attempt_or_the_order_is_found():
    """A dead letter, a lost message, one that starts before the earlier one of its group, and a wrong attempt."""
    run = away_run([one for one in OUTAGE[:-1] if one != "bulk-1"]).finish("bulk-1", 16, 17, attempt=2)
    run.bury("bulk-2").send("behind", group="bulk-0", at=0).finish("behind", 14, 14.1)
    figures = away_figures(run.evidence)

    assert (figures["away_dead_lettered"], figures["away_order_violations"]) == (1, 1)
    assert figures["away_attempts"] == 1
    assert figures["away_other_violations"] >= 2


def test_an_outage_without_calls_or_without_an_end_has_no_good_figure():
    """It shows nothing, or the resource was never found again."""
    unseen = MadeUpRun().send("pay", "HIGH").finish("pay", 1, 2)

    assert away_figures(unseen.evidence)["away_first_start_seconds"] is None
    assert math.isinf(away_figures(away_run([]).evidence)["away_first_start_seconds"])
