"""A load, its reading from a file, its figures, and the settings that are compared."""

from __future__ import annotations

import dataclasses
import json
import re
import tracemalloc
from datetime import timedelta
from pathlib import Path

import pytest

from lanes.config import LanesConfig
from lanes.errors import ConfigurationError
from lanes.metrics import percentile
from simulator.comparison import PlotError, chart, compare, draw_spans, play, rows, write
from simulator.oracle import violations
from simulator.outcome import Item, outcome_of, read_prices
from simulator.scenario import Settings, arrivals_option, combinations, resolve
from simulator.simulated_lanes import Pattern, SimulatedLanes

CONFIG = LanesConfig()
SMALL = {
    "duration": "20s",
    "arrivals": {
        "HIGH": {"rate": 2, "burst": 4, "groups": 5, "service": "50ms", "flaky": 0.1},
        "MAIN": {"backlog": 80, "groups": 10, "service": "100ms", "spread": 0.3, "failing": 0.05},
    },
}


def small(**changes):
    return resolve({**SMALL, **changes}, CONFIG)


def test_a_run_that_was_over_before_is_settled():
    """No event is left that could be asked after."""
    lanes = SimulatedLanes(CONFIG, seed=1)
    lanes.send("MAIN", group="g", seconds=0.01)
    lanes.run(seconds=600)

    assert lanes.done == 1
    assert lanes.settle(within=60)


def test_a_scenario_is_read_with_its_defaults():
    """What is left out is nothing, or the middle of what is unknown."""
    scenario = small(
        unknowns={"backoff": "10s", "winner": "highest", "call": "20ms"}, faults={"crashes": 0.1}
    )

    assert scenario.duration == timedelta(seconds=20)
    assert scenario.arrivals["HIGH"].burst == 4
    assert scenario.arrivals["MAIN"].rate == 0
    assert scenario.unknowns.backoff.longest == timedelta(seconds=10)
    assert scenario.unknowns.winner == "highest"
    assert scenario.unknowns.call == pytest.approx(0.02)
    assert scenario.faults.crashes == 0.1
    assert scenario.expected_messages == 120


def test_all_problems_of_a_scenario_are_told_at_once_with_the_nearest_names():
    """As those of lanes.toml are."""
    raw = {
        "duratoin": "10m",
        "seed": -1,
        "away": ["5m-6m", "30m-10m", "noon", 5],
        "arrivals": {
            "HIHG": {"rate": 1},
            "MAIN": {"service": "fast", "rate": -1, "failing": 0.6, "flaky": 0.6},
        },
        "unknowns": {"stael": 1, "winner": "first", "call": "2h"},
        "faults": {"crash": 0.1},
    }
    with pytest.raises(ConfigurationError) as raised:
        resolve(raw, CONFIG)
    told = str(raised.value)

    for text in (
        "'duratoin'; did you mean 'duration'",
        "'HIHG'; did you mean 'HIGH'",
        "arrivals.MAIN: service is the string 'fast'",
        "arrivals.MAIN: rate is -1",
        "failing and flaky add up",
        "seed is -1",
        "away is '30m-10m'; give its begin and its later end since the start: 10m-30m",
        "away is 'noon'",
        "away is 5",
        "'stael'; did you mean 'stale'",
        "winner is 'first'",
        "call is 2h; must be at most 1m",
        "'crash'; did you mean 'crashes'",
    ):
        assert text in told


@pytest.mark.parametrize("engine", ["mappings", "pull"])
def test_a_scenario_may_have_its_resource_away(engine):
    """Our messages wait for it and end as done; the plain pattern goes on to call it."""
    config = LanesConfig.from_dict({"consumer": {"engine": engine}})
    scenario = small(
        away=["0s-5s", "10m-20m"],
        duration="21m",
        arrivals={"HIGH": {"rate": 0.5, "service": "50ms"}, "MAIN": {"backlog": 40, "service": "50ms"}},
    )
    runs = compare(scenario, config, patterns=[Pattern.LANES, Pattern.PLAIN], prices=read_prices())
    ours, plain_pattern = (run.outcome for run in runs)

    assert [scenario.is_away(seconds) for seconds in (0, 4.9, 5, 599, 600, 1199, 1200)] == [
        *(True, True, False, False, True, True, False)
    ]
    assert (sum(lane.dead for lane in ours.lanes), sum(lane.left for lane in ours.lanes)) == (0, 0)
    assert 10 < ours.totals.refused < plain_pattern.totals.refused / 5
    assert [row["refused"] for row in rows(runs)] == [str(run.outcome.totals.refused) for run in runs]


def test_a_scenario_without_messages_is_refused():
    """Nothing would happen."""
    with pytest.raises(ConfigurationError, match="no message is sent"):
        resolve({"arrivals": {"HIGH": {"groups": 5}}}, CONFIG)


def test_an_option_says_what_a_table_says():
    """And goes over it key by key."""
    tables = {"HIGH": {"rate": 1, "burst": 2}}
    arrivals_option("HIGH rate=0.5 service=200ms", tables)

    assert tables == {"HIGH": {"rate": 0.5, "burst": 2, "service": "200ms"}}
    with pytest.raises(ConfigurationError, match="is not key=value"):
        arrivals_option("HIGH fast", tables)


def test_the_arrivals_of_a_scenario_are_the_same_for_every_pattern():
    """So that waits can be compared message by message."""
    runs = [play(small(), CONFIG, pattern=pattern) for pattern in (Pattern.LANES, Pattern.PLAIN)]
    sent = [sorted((one.lane, one.sent_at, one.group) for one in run.handled) for run in runs]

    assert runs[0].sent_to == runs[1].sent_to
    assert {one for one in sent[0] if one[0] == "HIGH"} == {one for one in sent[1] if one[0] == "HIGH"}
    assert violations(runs[0]) == []


def test_figures_add_up():
    """Sent is done, dead or left; waits are in order; a day costs what its share of the run does."""
    scenario = small()
    run = play(scenario, CONFIG)
    outcome = outcome_of(run, scenario, read_prices())
    main, high = outcome.lane("MAIN"), outcome.lane("HIGH")

    assert (main.sent, main.left) == (80, 0)
    assert main.done + main.dead == 80
    assert main.dead == run.dead > 0
    assert high.p50 <= high.p90 <= high.p99 <= high.longest
    assert high.p50 < main.p50
    assert main.yields == run.tally.counts["YieldedMessages"] > 0
    assert 0 < outcome.totals.busy < 1
    assert 0 <= outcome.totals.idle < 1
    assert outcome.totals.calls == len(run.calls.log)
    assert outcome.totals.dollars_a_day > 0

    longer = dataclasses.replace(scenario, duration=timedelta(seconds=40))
    assert outcome_of(run, longer, read_prices()).totals.dollars_a_day == pytest.approx(
        outcome.totals.dollars_a_day / 2
    )


def test_messages_that_never_began_count_with_what_they_have_waited():
    """A lane that starves has the longest waits of all, not the fewest."""
    scenario = resolve(
        {
            "duration": "60s",
            "drain": 0,
            "arrivals": {
                "HIGH": {"rate": 12, "service": "200ms"},
                "MAIN": {"backlog": 20, "service": "100ms"},
            },
        },
        CONFIG,
    )
    outcome = outcome_of(play(scenario, CONFIG), scenario, read_prices())
    main = outcome.lane("MAIN")

    assert main.left >= 15
    assert main.longest == pytest.approx(60, abs=0.1)
    assert main.standstill > 30
    assert outcome.totals.drained is None


@pytest.mark.parametrize(("share", "expected"), [(0.5, 2), (0.99, 4), (1.0, 4), (0.01, 1)])
def test_a_percentile_is_a_value_that_was_seen(share, expected):
    """Of the nearest rank."""
    assert percentile([1, 2, 3, 4], share) == expected
    assert percentile([], share) == 0


def test_patterns_become_rows_data_and_a_chart():
    """For people, for programs, and as a picture; seconds stay numbers for programs."""
    runs = compare(small(duration="5s"), CONFIG, patterns=[Pattern.LANES, Pattern.NONE], prices=read_prices())
    ours, none = rows(runs)
    document = json.loads(json.dumps([run.plain() for run in runs]))

    assert list(ours) == [
        *("pattern", "HIGH p50, p99", "MAIN p50, p99", "dead", "left", "drained", "busy", "idle", "yields"),
        "$ a day",
    ]
    assert (ours["pattern"], none["pattern"]) == ("ours", "none")
    high = document[0]["lanes"][0]
    assert (high["lane"], high["p99"]) == ("HIGH", runs[0].outcome.lane("HIGH").p99)
    assert document[0]["totals"]["busy"] == runs[0].outcome.totals.busy
    assert all(f">{word}</text>" in chart(runs) for word in ("HIGH", "MAIN", "ours", "none"))


def test_settings_become_lanes():
    """What follows the slots by default goes on to follow them; what is not set stays."""
    applied = Settings(slots=8, batch_size=1, recheck=timedelta(milliseconds=100)).apply(CONFIG)

    assert applied.lanes[0].maximum_concurrency == 3
    assert {lane.batch_size for lane in applied.lanes} == {1}
    assert applied.consumer.recheck_interval == timedelta(milliseconds=100)
    assert Settings(slots=8).apply(CONFIG) == LanesConfig.from_dict({"consumer": {"reserved_concurrency": 8}})
    assert Settings().apply(CONFIG) == CONFIG


def test_listed_settings_are_combined():
    """Each value of one with each of the other, in their order; without lists the lanes as they are."""
    found = combinations(slots=[1, 3], batch_sizes=[10, 1])

    assert [one.description for one in found] == [
        "1 slot, batch_size 10",
        "1 slot, batch_size 1",
        "3 slots, batch_size 10",
        "3 slots, batch_size 1",
    ]
    assert combinations() == [Settings()]


def test_settings_are_compared_in_one_row_each():
    """With the waits of lanes that had messages, and the pattern only where it differs."""
    load = resolve({"duration": "5s", "arrivals": {"MAIN": {"backlog": 40, "service": "100ms"}}}, CONFIG)
    choices = combinations(slots=[1, 4])
    patterns = [Pattern.LANES, Pattern.NONE]
    runs = compare(load, CONFIG, patterns=patterns, prices=read_prices(), settings=choices)

    one, four = (run.outcome.lane("MAIN") for run in runs[::2])
    assert one.p99 > 2 * four.p99
    head = [{key: row[key] for key in ("settings", "pattern")} for row in rows(runs)]
    assert head == [
        {"settings": slots, "pattern": name} for slots in ("1 slot", "4 slots") for name in ("ours", "none")
    ]
    assert list(rows(runs[::2])[0]) == [
        *("settings", "MAIN p50, p99", "dead", "left", "drained", "busy", "idle", "$ a day")
    ]
    assert [run.plain()["settings"] for run in runs[::2]] == [
        {"reserved_concurrency": slots} for slots in (1, 4)
    ]


def test_a_waiting_message_takes_less_than_a_kilobyte():
    """So that a million of them fit into a gigabyte, with what is noted of each."""
    lanes = SimulatedLanes(CONFIG)
    tracemalloc.start()
    for number in range(4_000):
        lanes.send("MAIN", group=f"g{number % 100}", seconds=0.05)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert taken / 4_000 < 880


def test_every_item_has_a_price_with_its_origin():
    """The library's own prices are whole, and say where and when they were read."""
    prices = read_prices()

    assert set(prices.dollars) == set(Item)
    assert prices.region == "us-east-1"
    assert prices.read_on == "2026-11-20"
    assert prices.source


def test_a_million_short_messages_cost_what_their_calls_and_seconds_do():
    """0.3 million requests at $0.50, 0.1 million invocations at $0.20, 5,000 GB-seconds at $13.3334 a million."""
    use = {Item.SQS_FIFO: 300_000, Item.INVOCATIONS: 100_000, Item.COMPUTE_ARM: 5_000}

    assert read_prices().cost(use) == pytest.approx(0.236667)
    assert read_prices().cost(use, times=10) == pytest.approx(2.36667)
    assert read_prices().cost({}) == 0


ROOT = Path(__file__).parents[2]
IMAGE = re.compile(r"!\[([^\]]*)\]\(([^)]*pictures/(?:simulate|benchmark)[^)]*)\)")


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    """As an error of the command."""
    with pytest.raises(PlotError, match="nothing"):
        write("", tmp_path / "nothing" / "here.svg")


def test_a_chart_describes_its_waits_for_screen_readers():
    """Groups and names, each with both ends."""
    picture = draw_spans("Waits", {"HIGH": {"ours": (0.05, 2.0), "none": (0.4, 90.0)}})

    assert "HIGH, ours: p50 50 ms, p99 2.0 s. HIGH, none: p50 0.4 s, p99 90 s." in picture


@pytest.mark.parametrize("page", ["README.md", "docs/how-to/plan.md"])
def test_a_page_quotes_the_figures_of_its_picture(page):
    """So that text and picture are renewed together, with `lanes simulate` as the page on planning says."""
    shown = IMAGE.findall((ROOT / page).read_text(encoding="utf-8"))

    for text, file in shown:
        picture = ((ROOT / page).parent / file).read_text(encoding="utf-8")
        quoted = re.findall(r"[\d.]+ (?:ms|s|min)\b", text)
        assert quoted
        assert [one for one in quoted if f" {one}" not in picture] == []
    assert shown
