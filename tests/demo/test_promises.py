"""The demo's promises: what breaks them, what is said then, and what is not judged."""

import pytest

from local.demo.evidence import away_figures, run_figures
from local.demo.plan import DEFAULT_CUSTOMERS
from local.demo.promises import RunName, busy_words, judge, top_lane
from tests.support.demo_runs import away_run, config_of, quiet_run

GOOD = run_figures(quiet_run().evidence) | away_figures(away_run().evidence)
SLOW = run_figures(quiet_run(high_wait=9.0).evidence) | {"drain_seconds": GOOD["drain_seconds"]}
LIGHT = {"asset_megabytes": 5.0, "cold_import_milliseconds": 40.0}


def judged(
    figures=GOOD,
    without=SLOW,
    pull=GOOD,
    *,
    customers=DEFAULT_CUSTOMERS,
    footprint=LIGHT,
    busy="",
    **consumer,
):
    """Judge; a run that is None was left out."""
    runs = {RunName.WITHOUT: without, RunName.MAPPINGS: figures, RunName.PULL: pull}
    made = {name: run for name, run in runs.items() if run is not None}
    config = config_of(**consumer)
    return judge(made, config=config, customers=customers, footprint=footprint, busy=busy)


def broken(*args, **options):
    """Judge and give the broken promises by the key of their figure."""
    return {promise.key: promise for promise in judged(*args, **options) if not promise.is_kept}


def without_waits(figures):
    """Take the waits out of a run."""
    lanes = {name: lane | {"p99_wait_seconds": None} for name, lane in figures["lanes"].items()}
    return figures | {"lanes": lanes}


def test_a_good_demo_keeps_every_promise():
    """Nothing is broken and everything is judged."""
    assert not [promise.key for promise in judged() if promise.not_judged or not promise.is_kept]


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"losses": 1}, "losses"),
        ({"left_in_queues": 2}, "left_in_queues"),
        ({"order_violations": 1}, "order_violations"),
        ({"healthy_dead_lettered": 1}, "healthy_dead_lettered"),
        ({"unexplained_dead_letters": 1}, "unexplained_dead_letters"),
        ({"duplicates_handled": 1}, "duplicates_handled"),
        ({"other_violations": 1}, "other_violations"),
        ({"poison_sent": 1}, "poison_dead_lettered"),
        ({"least_backlog_at_live_send": 3}, "least_backlog_at_live_send"),
        ({"least_backlog_at_live_send": None}, "least_backlog_at_live_send"),
        ({"inversions": 1}, "inversions"),
        ({"longest_record_seconds": -1.0}, "high_wait_p99_seconds"),
        ({"drain_seconds": 100.0}, "total_drain_ratio"),
        ({"function_calls_per_message": 0.51}, "function_calls_per_message"),
        ({"away_calls": 7}, "away_calls"),
        ({"away_attempts": 1}, "away_attempts"),
        ({"away_dead_lettered": 1}, "away_dead_lettered"),
        ({"away_order_violations": 1}, "away_order_violations"),
        ({"away_other_violations": 1}, "away_other_violations"),
        ({"away_inversions": 1}, "away_inversions"),
        ({"away_first_start_seconds": 8.1}, "away_first_start_seconds"),
        ({"away_first_start_seconds": None}, "away_first_start_seconds"),
    ],
)
def test_each_figure_breaks_its_own_promise(change, name):
    """And no other one."""
    assert set(broken(GOOD | change)) == {name}


def test_long_times_on_a_busy_machine_are_not_judged_and_all_else_is():
    """Other programs make the runs longer; they lose no message and break no order."""
    busy = busy_words(2.6, processors=2)
    slow = GOOD | {"inversions": 1, "drain_seconds": 100.0, "longest_record_seconds": -1.0, "losses": 1}
    slow |= {"away_first_start_seconds": 9.0, "away_attempts": 1, "function_calls_per_message": 1.6}

    promises = {promise.key: promise for promise in judged(slow, busy=busy)}

    assert "a load average of 2.6 on 2 processors" in busy
    assert {key for key, promise in promises.items() if not promise.is_kept} == {"losses", "away_attempts"}
    times = ("inversions", "total_drain_ratio", "high_wait_p99_seconds", "away_first_start_seconds")
    for name in (*times, "function_calls_per_message"):
        assert promises[name].not_judged == busy
    assert not promises["total_drain_ratio_pull"].not_judged, "it was kept"


@pytest.mark.parametrize(("load", "processors"), [(1.2, 1), (2.0, 2), (2.1, 4), (4.0, 4)])
def test_a_machine_that_runs_the_demo_alone_is_not_busy(load, processors):
    """Its own processes need little more than one processor."""
    assert busy_words(load, processors=processors) == ""


@pytest.mark.parametrize("figure", ["losses", "inversions", "drain_seconds", "away_inversions"])
def test_the_pull_engine_is_held_to_the_same_promises(figure):
    """Under keys of their own."""
    [key] = broken(pull=GOOD | {figure: 100})

    assert key == f"{'total_drain_ratio' if figure == 'drain_seconds' else figure}_pull"


def test_the_calls_of_the_pull_engine_are_not_judged():
    """Its function receives and deletes, which mappings do for the other one."""
    assert not broken(pull=GOOD | {"function_calls_per_message": 0.9})


def test_a_queue_that_is_as_quick_without_priority_breaks_the_promise():
    """Then the demo shows nothing."""
    assert set(broken(without=GOOD)) == {"high_wait_ratio", "high_wait_ratio_pull"}


def test_the_run_without_priority_must_be_safe_too():
    """Its promises carry a name of their own."""
    assert set(broken(without=SLOW | {"losses": 1})) == {"losses_without"}


def test_the_wait_of_a_lane_alone_is_not_judged():
    """With one lane, or with all work in one of them, nothing goes before anything."""
    alone = GOOD | {"lanes": {"ALL": GOOD["lanes"]["HIGH"]}, "longest_record_seconds": -1.0}
    promises = judged(alone, None, None)

    reasons = {promise.key: promise.not_judged for promise in promises}
    assert (
        reasons["high_wait_p99_seconds"]
        == "all work goes through ALL, so no work has priority over other work"
    )
    assert all(promise.is_kept for promise in promises)


def test_lanes_above_those_that_the_demo_sends_to_are_passed_over():
    """Urgent work is that of the highest lane with messages."""
    empty = GOOD["lanes"]["HIGH"] | {"sent": 0}

    assert top_lane({"lanes": {"HIGHER": empty, **GOOD["lanes"]}}) == "HIGH"
    assert top_lane({"lanes": {"HIGH": empty}}) == "HIGH"


def test_a_broken_promise_says_which_and_by_how_much():
    """In words for the terminal."""
    found = broken(GOOD | {"function_calls_per_message": 0.75})
    words = found["function_calls_per_message"].broken_words()

    assert words.startswith("function_calls_per_message is 0.75, off by 0.25; promised is <= 0.5.")


def test_a_figure_that_is_missing_breaks_its_promise():
    """Nothing measured is nothing kept."""
    words = broken(without_waits(GOOD))["high_wait_p99_seconds"].broken_words()

    assert "there is no figure" in words


def test_small_backfills_are_not_compared():
    """They are over too soon; the rest is judged."""
    small = broken(GOOD | {"drain_seconds": 100.0, "losses": 1}, customers=200)

    assert set(small) == {"losses"}


def test_inversions_are_judged_with_one_slot_only():
    """With several the promise is another one."""
    assert not broken(GOOD | {"inversions": 5, "away_inversions": 5}, reserved_concurrency=2)


def test_each_slot_may_call_a_resource_that_is_away():
    """None knows of the others."""
    assert not broken(GOOD | {"away_calls": 12}, reserved_concurrency=2)
    assert set(broken(GOOD | {"away_calls": 13}, reserved_concurrency=2)) == {"away_calls"}


def test_calls_are_judged_at_the_settings_they_were_promised_for():
    """With idempotency off."""
    assert not broken(GOOD | {"function_calls_per_message": 3.0}, idempotency=True)


def test_heavy_code_breaks_its_promises():
    """Size and import."""
    footprint = {"asset_megabytes": 20.5, "cold_import_milliseconds": 900.0}

    assert set(broken(footprint=footprint)) == {"asset_megabytes", "cold_import_milliseconds"}
