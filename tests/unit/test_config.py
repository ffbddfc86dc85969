"""The lanes and settings that a `lanes.toml` describes."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes.config import EngineName, Lane, LanesConfig, OutboxSettings, Overlap, Policy, Schedule
from lanes.errors import ConfigurationError


def test_a_file_without_lanes_has_high_medium_and_main():
    """The default lanes serve who configures nothing."""
    config = LanesConfig.from_dict({})

    assert [(x.name, x.threshold) for x in config.lanes] == [("HIGH", 50), ("MEDIUM", 0), ("MAIN", None)]
    assert LanesConfig() == config


def test_outranks_follows_the_order_of_the_file():
    """A lane outranks those below it, and neither itself nor those above."""
    high, medium, main = LanesConfig().lanes

    assert high.outranks(medium)
    assert high.outranks(main)
    assert not main.outranks(main)
    assert not main.outranks(high)


def test_asking_for_a_lane_that_is_not_there_names_those_that_are():
    """The error helps the one who mistyped."""
    with pytest.raises(KeyError, match="HIGH, MEDIUM, MAIN"):
        LanesConfig().lane("LOW")


@pytest.mark.parametrize(("slots", "maximum"), [(1, 2), (2, 2), (5, 5)])
def test_few_slots_may_be_used_by_each_mapping(slots, maximum):
    """AWS takes no maximum concurrency below two."""
    config = LanesConfig.from_dict({"consumer": {"reserved_concurrency": slots}})

    assert {maximum} == {lane.maximum_concurrency for lane in config.lanes}
    assert {10} == {lane.batch_size for lane in config.lanes}
    assert not config.serves_in_place


@pytest.mark.parametrize(("slots", "shares"), [(6, [2, 2, 2]), (10, [4, 2, 4]), (51, [24, 2, 25])])
def test_from_twice_the_lanes_on_the_mappings_share_the_slots(slots, shares):
    """Then Lambda throttles none, and an invocation serves what is more urgent itself."""
    config = LanesConfig.from_dict({"consumer": {"reserved_concurrency": slots}})

    assert [lane.maximum_concurrency for lane in config.lanes] == shares
    assert [lane.batch_size for lane in config.lanes] == [1, 2, 10]
    assert config.serves_in_place


def test_mappings_that_may_be_throttled_yield():
    """Nobody can receive what a throttled mapping has taken out."""
    lanes = [{"name": "HIGH", "threshold": 50, "maximum_concurrency": 9}, {"name": "MAIN"}]
    config = LanesConfig.from_dict({"consumer": {"reserved_concurrency": 10}, "lanes": lanes})

    assert not config.serves_in_place


def test_the_pull_engine_serves_all_lanes_with_all_slots():
    """Its slots receive by themselves."""
    config = LanesConfig.from_dict({"consumer": {"reserved_concurrency": 10, "engine": "pull"}})

    assert {10} == {lane.maximum_concurrency for lane in config.lanes}
    assert config.receives
    assert not config.serves_in_place


def test_notes_explain_reserved_concurrency_below_the_sum_of_the_mappings():
    """It is allowed, since a resource may bear only one at a time, and its price is told."""
    few = LanesConfig.from_dict({"consumer": {"reserved_concurrency": 1}}).notes()
    enough = LanesConfig.from_dict(
        {"consumer": {"reserved_concurrency": 6}, "lanes": [_lane(name) for name in ("A", "B", "C")]}
    ).notes()

    assert len(few) == 1
    assert "6" in few[0]
    assert enough == []


def test_notes_tell_when_lanes_are_switched_off():
    """Who turns priority off by mistake reads it at the next synth."""
    assert any("MAIN" in note for note in LanesConfig.from_dict({"enabled": False}).notes())


def test_notes_tell_that_the_highest_lane_needs_no_max_wait():
    """Nothing goes before it that it could wait for."""
    notes = LanesConfig.from_dict({"lanes": [{"name": "A", "threshold": 0, "max_wait": "1m"}, {"name": "B"}]})

    assert any("max_wait of A" in note for note in notes.notes())


def test_notes_of_the_pull_engine_speak_of_no_mappings():
    """It has none on the lanes; the other notes stay."""
    lanes = [{"name": "A", "threshold": 0, "max_wait": "1m", "tenant_share": 0.5}, {"name": "B"}]
    raw = {"consumer": {"engine": "pull"}, "lanes": lanes}

    notes = LanesConfig.from_dict(raw).notes()

    assert [note.split()[0] for note in notes] == ["tenant_share", "max_wait"]


def test_max_wait_of_the_highest_lane_counts_where_lanes_have_weights():
    """Other lanes may be served before it."""
    consumer = {"engine": "pull", "policy": "weighted"}
    raw = {"consumer": consumer, "lanes": [{"name": "A", "threshold": 0, "max_wait": "1m"}, {"name": "B"}]}

    assert LanesConfig.from_dict(raw).notes() == []


PULL = {
    "engine": "pull",
    "linger": "1500ms",
    "policy": "weighted",
    "max_rate": "600/min",
    "max_rates": {"invoice.*": "1/min", "mail": 2.5},
}
WEIGHTED = [{"name": "A", "threshold": 0, "weight": 3}, {"name": "B"}]


def test_the_settings_of_the_pull_engine():
    """Rates are records a second, however they are written."""
    config = LanesConfig.from_dict({"consumer": PULL, "lanes": WEIGHTED})

    consumer = config.consumer
    assert (consumer.engine, consumer.policy) == (EngineName.PULL, Policy.WEIGHTED)
    assert consumer.linger == timedelta(seconds=1.5)
    assert consumer.max_rate == 10
    assert consumer.max_rates == {"invoice.*": 1 / 60, "mail": 2.5}
    assert [lane.weight for lane in config.lanes] == [3, 1]


def test_slots_are_started_by_mappings_unless_the_file_has_another_engine():
    """And the pull engine is strict and has no limit of a rate by default."""
    consumer = LanesConfig.from_dict({}).consumer
    pulling = LanesConfig.from_dict({"consumer": {"engine": "pull"}}).consumer

    assert consumer.engine is EngineName.MAPPINGS
    assert (pulling.policy, pulling.linger) == (Policy.STRICT, timedelta(seconds=1))
    assert (pulling.max_rate, pulling.max_rates) == (None, {})


def test_the_first_pattern_that_matches_a_kind_decides_whether_its_messages_block():
    """By default none does."""
    settings = {"payment.test": "dead_letter", "payment.*": "block"}
    consumer = LanesConfig.from_dict({"consumer": {"on_exhausted": settings}}).consumer

    kinds = ("payment.captured", "payment.test", "payment", "")
    assert [consumer.blocks(kind) for kind in kinds] == [True, False, False, False]
    assert not LanesConfig().consumer.blocks("payment.captured")


def test_a_brief_document_has_no_word_of_the_usual_engine():
    """Earlier releases read it too."""
    brief = LanesConfig.from_dict({"consumer": {"engine": "mappings"}}).to_dict(brief=True)

    assert set(brief["consumer"]) == {"reserved_concurrency", "function_timeout"}


names = st.lists(st.from_regex(r"[A-Z0-9]{1,8}", fullmatch=True), min_size=1, max_size=7, unique=True)


@given(names=names, data=st.data())
def test_a_resolved_configuration_reads_back_as_it_was(names, data):
    """What a deployment keeps is what was configured, whatever that was."""
    thresholds = data.draw(
        st.lists(st.integers(-1000, 1000), min_size=len(names), max_size=len(names), unique=True)
    )
    lanes = [
        {
            "name": name,
            "threshold": threshold,
            "batch_size": data.draw(st.integers(1, 10)),
            "yield_delay_max": data.draw(st.integers(5, 300)),
        }
        for name, threshold in zip(names, sorted(thresholds, reverse=True), strict=True)
    ]
    config = LanesConfig.from_dict(
        {
            "lanes": lanes,
            "consumer": {"idempotency": data.draw(st.booleans()), "recheck_interval": "0.25s"},
            "stages": {"x": {"enabled": data.draw(st.booleans())}},
        },
        stage="x",
    )

    assert config == LanesConfig.from_dict(config.to_dict())


@given(priority=st.integers(), thresholds=st.lists(st.integers(), min_size=1, max_size=7, unique=True))
def test_every_priority_has_exactly_the_lane_that_the_rule_says(priority, thresholds):
    """The highest lane at or below the priority, else the last one."""
    ordered = sorted(thresholds, reverse=True)
    lanes = tuple(Lane(name=str(at), threshold=at, position=place) for place, at in enumerate(ordered))

    lane = LanesConfig(lanes=lanes).lane_for(priority)

    reached = [threshold for threshold in ordered if threshold <= priority]
    assert (reached[0] if reached else ordered[-1]) == lane.threshold


def _lane(name):
    return {"name": name, "threshold": -ord(name), "maximum_concurrency": 2}


@pytest.mark.parametrize(
    ("consumer", "lane", "delays"),
    [
        ({}, {}, (5, 15)),
        ({"reserved_concurrency": 2}, {}, (15, 30)),
        ({"reserved_concurrency": 2}, {"max_wait": "1m"}, (5, 15)),
        ({"reserved_concurrency": 2}, {"yield_delay_max": 10}, (10, 10)),
        ({"reserved_concurrency": 2}, {"yield_delay_min": 20}, (20, 30)),
        (
            {"reserved_concurrency": 2},
            {"max_wait": "1m", "yield_delay_min": 15, "yield_delay_max": 30},
            (15, 30),
        ),
    ],
    ids=str,
)
def test_several_slots_that_are_throttled_park_for_longer(consumer, lane, delays):
    """Unless the lane has to see early what is overdue; a deployment keeps what was resolved."""
    config = LanesConfig.from_dict({"consumer": consumer, "lanes": [{"name": "MAIN", **lane}]})

    assert tuple(timedelta(seconds=one) for one in delays) == (
        config.last_lane.yield_delay_min,
        config.last_lane.yield_delay_max,
    )
    assert LanesConfig.from_dict(config.to_dict(brief=True)) == config


@pytest.mark.parametrize(
    ("engine", "slots", "seconds"),
    [
        ("mappings", 1, 0.25),
        ("mappings", 9, 0.25),
        ("mappings", 10, 0.15),
        ("pull", 1, 0.25),
        ("pull", 2, 0.4),
    ],
)
def test_how_often_higher_lanes_are_read_depends_on_the_slots(engine, slots, seconds):
    """Unless the file has an interval."""
    raw = {"consumer": {"reserved_concurrency": slots, "engine": engine}}

    assert LanesConfig.from_dict(raw).consumer.recheck_interval == timedelta(seconds=seconds)
    raw["consumer"]["recheck_interval"] = 0.5
    assert LanesConfig.from_dict(raw).consumer.recheck_interval == timedelta(seconds=0.5)


def test_two_lanes_share_the_slots_by_halves():
    """There is no middle one."""
    raw = {"consumer": {"reserved_concurrency": 5}, "lanes": [{"name": "A", "threshold": 0}, {"name": "B"}]}

    assert [lane.maximum_concurrency for lane in LanesConfig.from_dict(raw).lanes] == [2, 3]


def test_delays_may_be_as_long_as_their_bounds():
    """The bounds themselves are allowed."""
    raw = {
        "consumer": {"backoff_base": "1m", "backoff_max": "1m"},
        "outbox": {"retry_base": "1m", "retry_cap": "1m"},
    }

    assert LanesConfig.from_dict(raw).outbox.retry_cap == timedelta(minutes=1)


def test_producers_skip_a_closing_lane_and_its_place_stays():
    """Its messages go to the next lane below; its waiting messages keep their priority."""
    lanes = [{"name": "A", "threshold": 50, "closing": True}, {"name": "B", "threshold": 0}, {"name": "C"}]
    config = LanesConfig.from_dict({"lanes": lanes})

    assert [config.lane_for(priority).name for priority in (60, 10, -1)] == ["B", "B", "C"]
    assert [lane.name for lane in config.lanes_above(config.lane("B"))] == ["A"]
    assert any("lane A is closing" in note for note in config.notes())


def test_the_last_lane_can_not_close():
    """It takes the messages of all others."""
    with pytest.raises(ConfigurationError, match=r"lane B: closing is true, .* write another lane after it"):
        LanesConfig.from_dict({"lanes": [{"name": "A", "threshold": 1}, {"name": "B", "closing": True}]})


def test_without_the_table_there_are_the_defaults_and_no_outbox():
    """And what functions get stays as small as it was."""
    config = LanesConfig.from_dict({})

    assert config.outbox == OutboxSettings()
    assert not config.outbox.enabled
    assert "outbox" not in config.to_dict()


def test_a_stage_goes_over_the_general_settings():
    """Key by key."""
    raw = {"outbox": {"batch": 5, "tick": 2}, "stages": {"test": {"outbox": {"enabled": True, "batch": 6}}}}
    outbox = LanesConfig.from_dict(raw, stage="test").outbox

    assert (outbox.enabled, outbox.batch, outbox.tick) == (True, 6, timedelta(seconds=2))


def test_one_window_serves_all_lanes():
    """Or each has its own."""
    assert LanesConfig.from_dict({"outbox": {"lane_window": 9}}).outbox.lane_window == {
        "HIGH": 9,
        "MEDIUM": 9,
        "MAIN": 9,
    }


@pytest.mark.parametrize(
    ("outbox", "problem"),
    [
        ({"bach": 3}, "did you mean 'batch'"),
        ({"batch": 101}, "at most 100"),
        ({"enabled": 1}, "true or false"),
        ({"lock": "1s"}, "at least 2s"),
        ({"lock": "5m"}, "at most 150s"),
        ({"on_abandoned": "stop"}, "continue, hold"),
        ({"retry_base": "2h"}, "longer than retry_cap"),
        ({"retry_factor": 0.5}, "at least 1.0"),
        ({"lane_window": {"MIAN": 3}}, "did you mean 'MAIN'"),
        ({"lane_window": {"MAIN": 0}}, "at least 1"),
        ({"lane_window": 0}, "at least 1"),
        ({"lane_window": True}, "a number, or a table"),
        (True, "must be a table"),
    ],
    ids=str,
)
def test_what_is_wrong_is_said(outbox, problem):
    """With the key, the value and what is allowed."""
    with pytest.raises(ConfigurationError, match="outbox") as caught:
        LanesConfig.from_dict({"outbox": outbox})

    assert problem in str(caught.value)


NIGHTLY = {"name": "nightly", "kind": "statements.render", "cron": "0 3 * * *"}


def schedules(*tables, **root):
    """Read tables of schedules."""
    return LanesConfig.from_dict({"schedules": list(tables), **root}).schedules


def test_a_schedule_needs_its_name_its_kind_and_its_time():
    """The rest has defaults; its messages share a group, so that two never run at once."""
    assert schedules(NIGHTLY) == (Schedule(**NIGHTLY),)
    assert schedules(NIGHTLY)[0].message_group_id == "schedule-nightly"
    assert LanesConfig().schedules == ()


def test_every_setting_is_read():
    """Durations and named priorities as elsewhere in the file."""
    table = {
        "name": "tick",
        "kind": "t",
        "every": "5m",
        "priority": "BULK",
        "group": "g",
        "data": {"a": [1, None]},
        "overlap": "skip",
        "enabled": False,
    }

    assert schedules(table) == (
        Schedule(
            name="tick",
            kind="t",
            every=timedelta(minutes=5),
            priority=-100,
            group="g",
            data={"a": [1, None]},
            overlap=Overlap.SKIP,
            enabled=False,
        ),
    )


def test_what_is_written_is_read_again():
    """Also of an interval, for which a time zone is refused."""
    config = LanesConfig.from_dict({"schedules": [NIGHTLY, {"name": "tick", "kind": "t", "every": "5m"}]})

    assert LanesConfig.from_dict(config.to_dict()) == config


def test_a_stage_changes_a_schedule_and_adds_one():
    """By name, as with lanes."""
    stages = {"demo": {"schedules": [{"name": "nightly", "enabled": False}, {**NIGHTLY, "name": "b"}]}}
    config = LanesConfig.from_dict({"schedules": [NIGHTLY], "stages": stages}, stage="demo")

    assert [(one.name, one.enabled) for one in config.schedules] == [("nightly", False), ("b", True)]
    assert LanesConfig.from_dict(config.to_dict()) == config


def test_the_function_is_not_burdened_with_them():
    """Its variables have 4 KB, and it sends none of them."""
    config = LanesConfig.from_dict({"schedules": [NIGHTLY]})

    assert "schedules" not in config.to_dict(brief=True)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({**NIGHTLY, "name": "a b"}, "name is the string 'a b'; must have 1 to 60 letters"),
        ({"kind": "x", "cron": "0 3 * * *"}, "name is nothing"),
        ({**NIGHTLY, "kind": "a b"}, "kind is 'a b'"),
        ({**NIGHTLY, "kind": "ü"}, "must be ASCII"),
        ({**NIGHTLY, "kind": "k" * 100}, "107 characters long together; at most 96 fit"),
        ({**NIGHTLY, "every": "1h"}, "needs one of cron and every"),
        ({"name": "a", "kind": "b"}, "needs one of cron and every"),
        ({**NIGHTLY, "cron": "0 3 * *"}, "cron is the string '0 3 * *': it must have five fields"),
        ({**NIGHTLY, "cron": 3}, "cron is the number 3; must be a string"),
        ({"name": "a", "kind": "b", "every": "90s"}, "every is the string '90s': it must be a whole number"),
        ({"name": "a", "kind": "b", "every": "1h", "timezone": "UTC"}, "timezone has no effect on every"),
        ({**NIGHTLY, "timezone": "Europe/Zurch"}, "did you mean 'Europe/Zurich'"),
        ({**NIGHTLY, "timezone": "CET+1"}, "must be the name of a time zone"),
        ({**NIGHTLY, "priority": "URGENT"}, "one of BULK, LOW, NORMAL, HIGH, CRITICAL"),
        ({**NIGHTLY, "priority": True}, "priority is the boolean true"),
        ({**NIGHTLY, "group": "a b"}, "group is the string 'a b'"),
        ({**NIGHTLY, "data": {"x": float("nan")}}, "data is not JSON"),
        ({**NIGHTLY, "overlap": "drop"}, "must be one of queue, skip"),
        ({**NIGHTLY, "enabled": 1}, "enabled is the number 1"),
        ({**NIGHTLY, "chron": "x"}, "did you mean 'cron'"),
    ],
)
def test_a_mistake_is_named(table, problem):
    """With the schedule, the value, and what is allowed."""
    with pytest.raises(ConfigurationError) as raised:
        schedules(table)

    assert problem in str(raised.value)


def test_two_schedules_of_one_name_are_refused():
    """Their messages would have the same ids."""
    with pytest.raises(ConfigurationError, match="schedule nightly: named twice"):
        schedules(NIGHTLY, NIGHTLY)


def test_the_longest_name_and_kind_fit_an_id_of_sqs():
    """The deduplication id is written as it is, since Scheduler can't hash."""
    (schedule,) = schedules({**NIGHTLY, "kind": "k" * 89})

    assert len(f"schedules#{schedule.kind}#{schedule.name}@2026-11-28T03:00:00Z") == 128
