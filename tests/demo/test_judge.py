"""The judge of the demo finds a planted fault of each kind, and nothing in runs without one; the report shows both."""

import json
import math
from dataclasses import replace

import pytest

from lanes.config import LanesConfig
from local.demo.judge import Evidence, RunName, Sent, judge, top_wait
from local.demo.plan import DEFAULT_CUSTOMERS
from local.demo.report import Outcome, document, page, table
from simulator import oracle

BEGAN = 1_000.0
CONFIG = LanesConfig.from_dict(
    {"consumer": {"max_attempts": 3, "recheck_interval": "250ms", "reserved_concurrency": 1}}
)


def made(*, urgent_wait=0.1, messages=20, outage=True):
    """Make a run: a backfill, a payment while half of it waits, then an outage of 12 s with six calls."""
    sent, deliveries, works = {}, [], []

    def work(one, start, seconds=0.01, *, how="done", lane="MAIN", at=-10.0, place=0, is_away=False):
        if one not in sent:
            sent[one] = Sent(lane=lane, place=place, is_away=is_away)
            deliveries.append((len(sent), oracle.Sent(one, lane, one, BEGAN + at)))
        works.append(oracle.Work(one, 1, BEGAN + start, BEGAN + start + seconds, how))

    for number in range(messages):
        work(f"bulk-{number}", number * 0.01 + (urgent_wait if number >= 10 else 0))
    work("pay", 0.1 + urgent_wait - 0.01, lane="HIGH", at=0.1, place=1)
    if outage:
        for place, at in enumerate((20.0, 20.02, 20.04, 21.0, 23.0, 27.0)):
            lane = "MAIN" if place < 3 else "HIGH"
            work(
                f"away-{place}", at, how="away", lane=lane, at=20 + place / 100, place=place + 2, is_away=True
            )
        for number in (3, 4, 5, 0, 1, 2):
            work(f"away-{number}", 35 + number % 3 * 0.02 + (number < 3) * 0.1)
    return Evidence(
        config=CONFIG,
        began_at=BEGAN,
        away_at=BEGAN + 20 if outage else 0.0,
        back_at=BEGAN + 32,
        sent=sent,
        deliveries=deliveries,
        works=works,
        least_backlog=500,
        yields={"MAIN": 3},
    )


def judged(*, customers=DEFAULT_CUSTOMERS, is_busy=False, plain=None, mapped=None, pull=None):
    """Judge three runs, good ones where none is given; return figures and verdicts."""
    runs = {
        RunName.WITHOUT: plain or made(urgent_wait=5.0, outage=False),
        RunName.MAPPINGS: mapped or made(urgent_wait=0.3),
        RunName.PULL: pull or made(),
    }
    # The drain of these runs is not that of real ones.
    figures, verdicts = judge(runs, customers=customers, is_busy=is_busy)
    return runs, figures, verdicts


def broken(**options):
    """Return the broken promises, with their runs."""
    return {(one.promise.figure, one.run) for one in judged(**options)[2] if one.word == "BROKEN"}


def with_works(evidence, *more, without=""):
    """Give a run other starts of handlers."""
    kept = [one for one in evidence.works if one.id != without]
    return replace(evidence, works=[*kept, *more])


def begun(one, start, end, how="done", attempt=1):
    """Make the start of a handler."""
    return oracle.Work(one, attempt, BEGAN + start, BEGAN + end, how)


def test_good_runs_keep_every_promise():
    """And each is judged."""
    *_, verdicts = judged()

    assert {one.word for one in verdicts} == {"kept"}


GOOD = made(urgent_wait=0.3)


@pytest.mark.parametrize(
    ("figure", "run"),
    [
        ("violations", with_works(GOOD, without="bulk-3")),
        ("violations", with_works(GOOD, begun("bulk-3", 9, 9.01))),
        ("violations", replace(GOOD, sent=GOOD.sent | {"gone": Sent(lane="MAIN")})),
        ("dead_without_reason", replace(GOOD, dead=[("bulk-3", "")])),
        ("least_backlog", replace(GOOD, least_backlog=3)),
        ("inversions", with_works(GOOD, begun("bulk-3", 0.38, 0.39), without="bulk-3")),
        ("wait_beyond_seconds", made(urgent_wait=1.2)),
        ("drain_ratio", with_works(GOOD, begun("bulk-3", 9, 9.01), without="bulk-3")),
        ("away_calls", with_works(GOOD, begun("away-3", 28, 28, "away"))),
        ("away_failures", with_works(GOOD, begun("away-3", 35, 35.01, attempt=2), without="away-3")),
        ("away_first_start_seconds", replace(GOOD, back_at=BEGAN + 26)),
    ],
)
def test_each_fault_breaks_its_promise(figure, run):
    """In the run that has it."""
    assert (figure, RunName.MAPPINGS) in broken(mapped=run)


def test_an_engine_that_is_no_quicker_than_none_is_found():
    """Then the demo shows nothing."""
    assert {("wait_ratio", RunName.MAPPINGS)} <= broken(plain=made(urgent_wait=0.3, outage=False))


def test_an_outage_that_never_came_breaks_its_promises():
    """A run that stalled before it has no figures of one."""
    assert {figure for figure, _ in broken(pull=made(outage=False))} == {
        "away_calls",
        "away_failures",
        "away_first_start_seconds",
    }


def test_times_on_a_busy_machine_are_not_judged_and_all_else_is():
    """Nor are the ratios of a small backfill."""
    slow = with_works(made(urgent_wait=1.5), without="bulk-3")

    assert broken(mapped=slow, is_busy=True) == {("violations", RunName.MAPPINGS)}
    assert {one.word for one in judged(customers=200)[2] if one.promise.of == "compared"} == {"not judged"}


def test_a_message_that_never_started_waits_for_ever():
    """A p99 must not look better for it."""
    _, figures, _ = judged(mapped=with_works(GOOD, without="pay"))

    assert math.isinf(top_wait(figures[RunName.MAPPINGS]))


def outcome(**options):
    """Make the outcome of a demo."""
    runs, figures, verdicts = judged(**options)
    return Outcome(
        customers=5_000, evidence=runs, figures=figures, verdicts=verdicts, seconds={"total": 100.0}
    )


def test_the_document_is_json_and_names_what_was_broken():
    """JSON has no infinity."""
    good, bad = outcome(), outcome(mapped=with_works(GOOD, without="pay"))
    found = json.loads(document(bad))

    assert json.loads(document(good))["passed"] is True
    assert found["passed"] is False
    assert found["runs"]["mappings"]["lanes"]["HIGH"]["p99_wait_seconds"] is None
    assert any(words.startswith("violations, mappings: 1; promised is = 0.") for words in found["broken"])
    assert "{'lost': 1}" in found["broken"][0]


def test_table_and_page_show_every_promise_and_ask_for_nothing_from_elsewhere():
    """With the result in a sentence, one picture, and the two outages in it."""
    bad = outcome(mapped=with_works(GOOD, without="pay"))
    printed, shown = table(bad), page(bad)

    for verdict in bad.verdicts:
        assert verdict.promise.figure in printed
        assert verdict.promise.figure in shown
    assert "Payments waited 5.0 s with no priority, endless with mappings, 90 ms with pull (p99)" in printed
    assert "Promises were broken." in shown
    assert (shown.count("<svg "), shown.count(">away</text>")) == (1, 2)
    assert "inf" not in shown.partition("<svg ")[2].partition("</svg>")[0]
    assert not [word for word in ("src=", "href=", "@import", "url(") if word in shown]
