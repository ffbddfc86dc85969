"""The demo's report: JSON, table and page."""

import json

import pytest

from local.demo.evidence import away_figures, run_figures
from local.demo.plan import DEFAULT_CUSTOMERS, DemoPlan
from local.demo.promises import RunName, judge
from local.demo.report import Outcome, document, page, rows, table
from tests.support.demo_runs import away_run, config_of, quiet_run

LIGHT = {"asset_megabytes": 5.0, "cold_import_milliseconds": 40.0}


def make_outcome(*, compares=True, losses=False):
    """Make the outcome of a made-up demo."""
    runs = {
        RunName.WITHOUT: quiet_run(high_wait=9.0),
        RunName.MAPPINGS: quiet_run(),
        RunName.PULL: quiet_run(),
    }
    if losses:
        runs[RunName.MAPPINGS].send("gone", "HIGH", at=0.1)
    evidence = {name: run.evidence for name, run in runs.items() if compares or name is RunName.MAPPINGS}
    away = {name: away_run().evidence for name in evidence if name is not RunName.WITHOUT}
    figures = {
        name: run_figures(one) | (away_figures(away[name]) if name in away else {})
        for name, one in evidence.items()
    }
    return Outcome(
        plan=DemoPlan.draw(customers=DEFAULT_CUSTOMERS, seed=1, shards=4),
        evidence=evidence,
        away=away,
        figures=figures,
        promises=judge(figures, config=config_of(), customers=DEFAULT_CUSTOMERS, footprint=LIGHT, busy=""),
        footprint=LIGHT,
        load_average=0.5,
        seconds={"deploy": 8.0, "total": 100.0},
    )


@pytest.mark.parametrize("compares", [True, False])
def test_the_document_has_the_keys_of_every_run(compares):
    """It is JSON, also where the comparison was left out."""
    found = json.loads(json.dumps(document(make_outcome(compares=compares)), allow_nan=False))

    for key in ("high_wait_p99_seconds_without", "total_drain_ratio_pull", "without", "pull", "lanes_pull"):
        assert (found[key] is None) == (not compares)
    for key in (
        "away_calls",
        "losses",
        "high_wait_p99_seconds",
        "lanes",
        "asset_megabytes",
        "customers",
        "seed",
        "slots",
    ):
        assert found[key] is not None
    assert found["passed"] is True


def test_a_broken_promise_fails_the_document_and_is_named_in_it():
    """A message that waits for ever leaves the document readable: JSON has no infinity."""
    outcome = make_outcome(losses=True)
    found = json.loads(json.dumps(document(outcome), allow_nan=False))

    assert found["passed"] is False
    assert any(words.startswith("losses is 1, off by 1") for words in found["broken"])
    assert found["high_wait_p99_seconds"] is None
    assert {"losses", "high_wait_p99_seconds"} <= {promise.name for promise in outcome.broken}


def test_table_and_page_show_every_row():
    """And the result in a sentence; the page asks for nothing from elsewhere."""
    outcome = make_outcome(losses=True)
    printed, shown = table(outcome), page(outcome)

    for row in rows(outcome):
        assert row.name in printed
        assert row.name in shown
    assert (
        "HIGH waited at most (p99) 9.0 s without priority, endless with mappings and 290 ms with pull"
        in printed
    )
    assert "Promises were broken." in shown
    assert "away for 12 s it got 6 calls with mappings and 6 calls with pull; once it was back" in printed
    assert shown.count("<svg ") == 1
    assert shown.count(">away</text>") == 2
    assert "inf" not in shown.partition("<svg ")[2].partition("</svg>")[0]
    assert not [word for word in ("src=", "href=", "@import", "url(") if word in shown]
