"""Reading `lanes.toml`: stages, and every problem at once."""

from datetime import timedelta

import pytest

from lanes.config import LanesConfig
from lanes.errors import ConfigurationError

FILE = """
enabled = true

[consumer]
function_timeout = "20s"
max_attempts = 3

[[lanes]]
name = "FAST"
threshold = 10
[[lanes]]
name = "REST"
batch_size = 10

[stages.demo]
enabled = false
[stages.demo.consumer]
max_attempts = 9
[[stages.demo.lanes]]
name = "REST"
batch_size = 1
max_wait = "5m"
[[stages.demo.lanes]]
name = "NEW"
threshold = 0
"""


@pytest.fixture
def path(tmp_path):
    """Give a file with a stage."""
    path = tmp_path / "lanes.toml"
    path.write_text(FILE)
    return path


def test_a_file_is_read_without_its_stages(path):
    """No stage, general settings."""
    config = LanesConfig.load(path)

    assert [lane.name for lane in config.lanes] == ["FAST", "REST"]
    assert config.consumer.max_attempts == 3
    assert timedelta(seconds=20) == config.consumer.function_timeout
    assert config.enabled
    assert config.stage is None


def test_a_stage_goes_over_the_general_settings(path):
    """Lanes are merged by name and a new one finds its place by its threshold."""
    config = LanesConfig.load(path, stage="demo")

    assert [lane.name for lane in config.lanes] == ["FAST", "NEW", "REST"]
    assert config.lane("REST").batch_size == 1
    assert timedelta(minutes=5) == config.lane("REST").max_wait
    assert config.consumer.max_attempts == 9
    assert timedelta(seconds=20) == config.consumer.function_timeout
    assert not config.enabled
    assert config.stage == "demo"


def test_an_unknown_stage_names_the_nearest(path):
    """A mistyped stage does not fall back to the general settings."""
    with pytest.raises(ConfigurationError, match="did you mean 'demo'"):
        LanesConfig.load(path, stage="dmeo")


def test_a_missing_file_is_a_configuration_error(tmp_path):
    """One kind of error for everything that is wrong with the configuration."""
    with pytest.raises(ConfigurationError, match="cannot read"):
        LanesConfig.load(tmp_path / "none.toml")


@pytest.mark.parametrize("content", [b"lanes = [", b"\xff\xfe", b"lanes = " + b"[" * 10_000 + b"]" * 10_000])
def test_a_file_that_is_no_toml_is_a_configuration_error(tmp_path, content):
    """Neither syntax nor encoding errors escape as they are, nor what is nested too deep."""
    path = tmp_path / "lanes.toml"
    path.write_bytes(content)

    with pytest.raises(ConfigurationError, match="not a TOML file"):
        LanesConfig.load(path)


def test_a_byte_order_mark_is_no_content(tmp_path):
    """Some editors begin a file with one."""
    path = tmp_path / "lanes.toml"
    path.write_bytes(b"\xef\xbb\xbfenabled = false\n")

    assert LanesConfig.load(path).enabled is False


def test_a_file_chooses_no_stage(tmp_path):
    """A stage is chosen when the file is loaded, so the key would do nothing."""
    path = tmp_path / "lanes.toml"
    path.write_text('stage = "prod"')

    with pytest.raises(ConfigurationError, match="unknown key 'stage'"):
        LanesConfig.load(path)


def _pull(**settings):
    """Give a file with the pull engine and these settings."""
    return {"consumer": {"engine": "pull", **settings}}


def _weighted(weight, *, engine="pull", policy="weighted"):
    """Give a file with a lane of this weight."""
    consumer = {"engine": engine, "policy": policy}
    return {"consumer": consumer, "lanes": [{"name": "A", "threshold": 0, "weight": weight}, {"name": "B"}]}


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ([], "must be a table, not a list"),
        ({"enabled": {}}, "enabled is a table; must be true or false"),
        ({"enabled": "yes"}, "enabled is the string 'yes'"),
        ({"lanez": []}, "unknown key 'lanez'; did you mean 'lanes'?"),
        ({"engine": "pull"}, "unknown key 'engine'; it belongs in [consumer]"),
        (
            {"lanes": [{"name": "A", "max_rate": 5}]},
            "lane A: unknown key 'max_rate'; it belongs in [consumer]",
        ),
        ({"consumer": {"batch_size": 5}}, "consumer: unknown key 'batch_size'; it belongs in [[lanes]]"),
        ({"outbox": {"idempotency": True}}, "outbox: unknown key 'idempotency'; it belongs in [consumer]"),
        ({"consumer": {"lane_window": {}}}, "consumer: unknown key 'lane_window'; it belongs in [outbox]"),
        ({"consumer": True}, "consumer: must be a table, not the boolean true"),
        ({"consumer": {"max_attemps": 3}}, "did you mean 'max_attempts'?"),
        ({"consumer": {"max_attempts": True}}, "max_attempts is the boolean true; must be a whole number"),
        ({"consumer": {"max_attempts": 0}}, "must be at least 1"),
        ({"consumer": {"idempotency": 1}}, "idempotency is the number 1; must be true or false"),
        ({"consumer": {"recheck_interval": "2s"}}, "recheck_interval is 2s; must be at most 1s"),
        ({"consumer": {"reserve": 0.6}}, "must be at most 0.5"),
        ({"consumer": {"reserve": -0.1}}, "must be at least 0.0"),
        ({"consumer": {"reserve": float("nan")}}, "reserve is nan"),
        ({"consumer": {"reserve": "much"}}, "must be a number"),
        ({"consumer": {"function_timeout": "16m"}}, "must be at most 15m"),
        ({"consumer": {"function_timeout": "4s"}}, "must be at least 5s"),
        ({"consumer": {"function_timeout": "1500ms"}}, "whole seconds"),
        ({"consumer": {"function_timeout": "soon"}}, "a number of seconds or a string"),
        ({"consumer": {"function_timeout": True}}, "function_timeout is the boolean true"),
        ({"consumer": {"function_timeout": -1}}, "function_timeout is the number -1"),
        ({"consumer": {"function_timeout": float("inf")}}, "function_timeout is the number inf"),
        ({"consumer": {"backoff_base": "1h"}}, "backoff_base 1h is longer than backoff_max 15m"),
        ({"consumer": {"record_time": "30s"}}, "no record would ever start"),
        ({"consumer": {"engine": "push"}}, "engine is the string 'push'; must be one of mappings, pull"),
        ({"consumer": {"engine": 1}}, "engine is the number 1; must be one of mappings, pull"),
        (_pull(policy="fair"), "policy is the string 'fair'; must be one of strict, weighted"),
        (_pull(linger="31s"), "linger 31s is longer than function_timeout 30s; must be at most that"),
        (_pull(linger=-1), "linger is the number -1"),
        (_pull(max_rate="fast"), "max_rate is the string 'fast'; must be a number of records a second or a"),
        (_pull(max_rate="600"), "max_rate is the string '600'; must be a number of records a second or a"),
        (_pull(max_rate="600/h"), "max_rate is the string '600/h'; must be"),
        (_pull(max_rate=True), "max_rate is the boolean true; must be a number of records a second"),
        (_pull(max_rate=float("inf")), "max_rate is the number inf; must be a number of records a second"),
        (_pull(max_rate=10**400), "must be a number of records a second"),
        (_pull(max_rate="9" * 400 + "/s"), "must be a number of records a second"),
        (_pull(max_rate=0), 'max_rate is the number 0; must be at least one record a minute, "1/min"'),
        (_pull(max_rate=-5), "max_rate is the number -5; must be at least one record a minute"),
        (_pull(max_rate=0.016), "max_rate is the number 0.016; must be at least one record a minute"),
        (_pull(max_rate="0.9/min"), "max_rate is the string '0.9/min'; must be at least one record a minute"),
        (_pull(max_rates=5), "consumer.max_rates: must be a table, not the number 5"),
        ({"stages": {"": {}}}, 'stages: a stage has the name ""; give it one'),
        (_pull(max_rates={"mail": 0}), "consumer.max_rates: mail is the number 0; must be at least one"),
        (_weighted(0), "lane A: weight is 0; must be at least 0.01"),
        (_weighted(-2), "lane A: weight is -2; must be at least 0.01"),
        (_weighted(101), "lane A: weight is 101; must be at most 100"),
        (_weighted(float("nan")), "lane A: weight is nan; must be"),
        (_weighted("more"), "lane A: weight is the string 'more'; must be a number"),
        (
            _weighted(2, policy="strict"),
            'weight takes effect with engine = "pull" and policy = "weighted" only',
        ),
        (
            _weighted(2, engine="mappings"),
            'weight takes effect with engine = "pull" and policy = "weighted" on',
        ),
        (
            {"consumer": {"linger": 1}},
            'linger takes effect with engine = "pull" only; remove it, or set that',
        ),
        ({"consumer": {"policy": "strict"}}, 'policy takes effect with engine = "pull" only'),
        ({"consumer": {"max_rate": 1}}, 'max_rate takes effect with engine = "pull" only'),
        (
            {"consumer": {"on_exhausted": {"a": "hold"}}},
            "consumer.on_exhausted: a is the string 'hold'; must be one of dead_letter, block",
        ),
        ({"consumer": {"on_exhausted": "block"}}, "consumer.on_exhausted: must be a table, not the string"),
        ({"consumer": {"on_dead_letter": {"a": "hold"}}}, "unknown key 'on_dead_letter'"),
        ({"lanes": []}, "must have at least one lane"),
        ({"lanes": True}, "a list of tables"),
        ({"lanes": [3]}, "lanes[0]: must be a table, not the number 3"),
        ({"lanes": [{"threshold": 1}]}, "lanes[0]: name is missing"),
        ({"lanes": [{"name": []}]}, "name is a list; must be a string"),
        ({"lanes": [{"name": ""}]}, "is invalid"),
        ({"lanes": [{"name": "low"}]}, "is invalid"),
        ({"lanes": [{"name": "A" * 41}]}, "is invalid"),
        ({"lanes": [{"name": "A"}, {"name": "B"}]}, "lane A: threshold is missing; only the last"),
        ({"lanes": [{"name": "A", "threshold": 1}, {"name": "A"}]}, "lane A: named twice"),
        ({"lanes": [{"name": "Default"}]}, "lane Default: the name is one of a template's own; use another"),
        ({"lanes": [{"name": "Resource"}]}, "lane Resource: the name is one of a template's own"),
        ({"lanes": [{"name": "Bell"}]}, "lane Bell: the name is one of a template's own"),
        ({"lanes": [{"name": "A-B", "threshold": 1}, {"name": "AB"}]}, "equals A-B"),
        ({"lanes": [{"name": "A", "threshold": 1}, {"name": "A_DeadLetter"}]}, "the dead-letter queue of A "),
        (
            {"lanes": [{"name": "ADeadLetter", "threshold": 1}, {"name": "A"}]},
            "that of lane ADeadLetter",
        ),
        ({"lanes": [{"name": "A", "threshold": 1}, {"name": "B", "threshold": 1}]}, "also that of A"),
        ({"lanes": [{"name": "A", "threshold": 1}, {"name": "B", "threshold": 2}]}, "is above 1 of A"),
        ({"lanes": [{"name": "A", "threshold": True}]}, "threshold is the boolean true"),
        ({"lanes": [{"name": "A", "threshold": 1.5}]}, "threshold is the number 1.5"),
        ({"lanes": [{"name": "A", "position": 1}]}, "unknown key 'position'; known: "),
        ({"lanes": [{"name": "A", "batch_size": 11}]}, "batch_size is 11; must be at most 10"),
        ({"lanes": [{"name": "A", "maximum_concurrency": 1}]}, "must be at least 2"),
        ({"lanes": [{"name": "A", "visibility_timeout": "2m"}]}, "must be at least 3m"),
        ({"lanes": [{"name": "A", "visibility_timeout": "13h"}]}, "must be at most 12h"),
        ({"lanes": [{"name": "A", "yield_delay_min": "20s"}]}, "is longer than yield_delay_max 15s"),
        ({"lanes": [{"name": "A", "yield_delay_min": 0}]}, "must be at least 1s"),
        ({"lanes": [{"name": "A", "yield_delay_max": "13h"}]}, "must be at most 12h"),
        ({"lanes": [{"name": "A", "max_wait": 0}]}, "max_wait is 0s; must be at least 1s"),
        ({"lanes": [{"name": "A", "kinds": "a.*"}]}, "kinds is the string 'a.*'; must be a list of strings"),
        (
            {"lanes": [{"name": "A", "kinds": ["a.*", ""]}]},
            "kinds is a list; must be a list of strings, none",
        ),
        (
            {"lanes": [{"name": "A", "kinds": [1]}]},
            "kinds is a list; must be a list of strings, none of them",
        ),
        ({"stages": True}, "stages: must be a table of stages"),
        ({"stages": {"prod": 1}}, "stages.prod: must be a table, not the number 1"),
        ({"stages": {"prod": {"lane": []}}}, "stages.prod: unknown key 'lane'; did you mean 'lanes'?"),
        ({"stages": {"prod": {"consumer": {"memory_mb": 1}}}}, "stage prod: consumer: memory_mb is 1"),
        ({"stages": {"prod": {"consumer": 5}}}, "stage prod: consumer: must be a table"),
        ({"stages": {"prod": {"lanes": [{"name": "MAIN"}, {"name": "MAIN"}]}}}, "lane MAIN: named twice"),
        ({"stages": {"prod": {"lanes": [{"name": "NEW"}]}}}, "stage prod: lane MAIN: threshold is missing"),
        ({"stage": 3}, "unknown key 'stage'"),
        ({"stage": "x", "stages": {"x": {}}}, "unknown key 'stage'"),
    ],
)
def test_a_wrong_setting_is_named_with_its_place_and_what_is_allowed(raw, problem):
    """What is wrong, the value, what would be right."""
    with pytest.raises(ConfigurationError) as caught:
        LanesConfig.from_dict(raw)

    assert [text for text in caught.value.problems if problem in text], caught.value.problems


def test_all_problems_are_reported_at_once():
    """Nobody mends a file one run at a time."""
    with pytest.raises(ConfigurationError) as caught:
        LanesConfig.from_dict(
            {
                "enabled": 1,
                "consumer": {"max_attempts": 0, "reserve": 1},
                "lanes": [{"name": "A"}, {"name": "B", "batch_size": 11}],
                "stages": {"prod": {"consumer": {"memory_mb": 1}}},
            }
        )

    assert len(caught.value.problems) == 6, caught.value.problems
    assert all(problem in str(caught.value) for problem in caught.value.problems)


@pytest.mark.parametrize("wrong", [{"engine": "pul"}, {"policy": "weigthed"}], ids=str)
def test_an_unknown_name_is_no_reason_to_refuse_what_depends_on_it(wrong):
    """One mistake, one line."""
    raw = _weighted(3)
    raw["consumer"] |= {"linger": 2, **wrong}
    with pytest.raises(ConfigurationError) as caught:
        LanesConfig.from_dict(raw)

    assert len(caught.value.problems) == 1, caught.value.problems


def test_a_problem_of_the_general_settings_is_not_repeated_for_each_stage():
    """One mistake, one line."""
    with pytest.raises(ConfigurationError) as caught:
        LanesConfig.from_dict({"consumer": {"max_attempts": 0}, "stages": {"a": {}, "b": {}}})

    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250ms", 0.25), ("30s", 30), ("15m", 900), ("1d", 86400), (0.5, 0.5), (7, 7), (" 1.5 h ", 5400)],
)
def test_durations_are_seconds_or_texts_with_a_unit(text, seconds):
    """Both forms read the same."""
    config = (
        LanesConfig.from_dict({"consumer": {"backoff_base": text, "backoff_max": "12h"}})
        if (seconds <= 43200)
        else LanesConfig.from_dict({"consumer": {"idempotency_window": text}})
    )
    consumer = config.consumer

    assert timedelta(seconds=seconds) in (consumer.backoff_base, consumer.idempotency_window)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        (50, 50),
        (0.5, 0.5),
        ("50/s", 50),
        ("600/min", 10),
        ("1/min", 1 / 60),
        (1 / 60, 1 / 60),
        (" 1.5 / s ", 1.5),
    ],
)
def test_rates_are_records_a_second_or_texts_with_a_unit(text, rate):
    """Both forms read the same, down to one record a minute."""
    assert LanesConfig.from_dict(_pull(max_rate=text)).consumer.max_rate == rate


def test_a_slot_may_linger_for_as_long_as_its_function_runs():
    """The bound itself is allowed."""
    raw = _pull(linger="10s", function_timeout="10s")

    assert LanesConfig.from_dict(raw).consumer.linger == timedelta(seconds=10)
