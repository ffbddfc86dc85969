"""A measured profile in the place of assumptions: its typical values, and its spread as the range."""

from datetime import timedelta

import pytest

from lanes.config import LanesConfig
from lanes.errors import ConfigurationError
from lanes.probe.profile import read_profile
from simulator.measured import all_measured_variants, measured_unknowns, measured_variants
from simulator.parameters import Unknowns, all_variants, variants
from simulator.scenario import resolve

HEAD = 'format = 2\nmeasured_at = "2026-11-22T15:00:00+00:00"\nregion = "eu-central-1"\n'
WHOLE = """
[throttle]
retried = 1.0
longest_wait = { low = 1.8, typical = 2.0, high = 2.4, samples = 50 }
receives = 1
samples = 50

[order]
next = "turn"
same_after_return = 0.0
same_after_delete = 0.0
samples = 40

[polls]
missed = { low = 0.02, typical = 0.03, high = 0.04, samples = 1000 }

[bell]
start = { low = 0.02, typical = 0.03, high = 0.06, samples = 100 }
follow = { low = 0.02, typical = 0.03, high = 0.06, samples = 100 }
groups = 4
peak = 4

[calls]
receive = { low = 0.006, typical = 0.012, high = 0.030, samples = 200 }
delete = { low = 0.004, typical = 0.008, high = 0.020, samples = 200 }
get_queue_attributes = { low = 0.003, typical = 0.006, high = 0.020, samples = 200 }
update_item = { low = 0.003, typical = 0.008, high = 0.020, samples = 200 }
sigma = 0.4
"""
MEASURED = {
    *(
        "backoff up to 0.3 s",
        "backoff up to 10 s",
        "throttled batches dropped",
        "dropped, groups at the back",
    ),
    *("groups in turn", "returned groups at the back", "short polls miss 1 in 10", "short polls miss 1 in 3"),
    *("calls of 25 ms, spread", "receives of 25 ms"),
}


@pytest.fixture
def profile_of(tmp_path):
    """Write a profile and read it."""

    def read(sections, head=HEAD):
        path = tmp_path / "aws-profile.toml"
        path.write_text(head + sections)
        return read_profile(path)

    return read


def test_typical_values_replace_the_defaults(profile_of):
    """Each measured unknown has its typical value; the others keep theirs."""
    unknowns = measured_unknowns(profile_of(WHOLE), Unknowns())

    assert unknowns.backoff.longest == timedelta(seconds=2)
    assert (unknowns.group_order, unknowns.missed_polls, unknowns.call_spread) == ("turn", 0.03, 0.4)
    assert (unknowns.call, unknowns.receive, unknowns.poll, unknowns.delete) == (0.007, 0.012, 0.012, 0.008)
    # Of the 30 ms to a start, the receive takes 12 and the invocation 7.
    assert unknowns.notice == pytest.approx(2 * (0.030 - 0.012 - 0.007))
    assert (unknowns.cold_start, unknowns.stale) == (Unknowns().cold_start, Unknowns().stale)


def test_the_range_is_the_spread_of_the_measurements(profile_of):
    """Every assumed variant is gone but those that a probe does not measure."""
    profile = profile_of(WHOLE)
    base = measured_unknowns(profile, Unknowns())
    found = all_measured_variants(profile, base)

    assert found["as given"] == base
    assert all_variants(Unknowns()).keys() - found.keys() == MEASURED
    ends = [name for name in found if "as measured" in name]
    assert {found[name].backoff.longest.total_seconds() for name in ends} == {1.8, 2.0, 2.4}
    assert {found[name].missed_polls for name in ends} == {0.02, 0.03, 0.04}
    assert {found[name].call for name in ends} == {0.003, 0.007, 0.02}


def test_sections_that_are_missing_keep_their_assumptions(profile_of):
    """Only the short polls were measured."""
    profile = profile_of("[polls]\nmissed = { low = 0.0, typical = 0.1, high = 0.2, samples = 9 }\n")
    base = measured_unknowns(profile, Unknowns())
    gone = variants(Unknowns()).keys() - measured_variants(profile, base).keys()

    assert gone == {"short polls miss 1 in 10", "short polls miss 1 in 3"}
    assert measured_variants(None, Unknowns()) == variants(Unknowns())


def test_dropped_batches_are_the_rule_or_part_of_the_range(profile_of):
    """By the share that was retried."""
    dropped = profile_of("[throttle]\nretried = 0.0\nreceives = 2\nsamples = 20\n")
    assert not measured_unknowns(dropped, Unknowns()).backoff.retries

    mixed = profile_of(
        "[throttle]\nretried = 0.5\nreceives = 1.5\nsamples = 20\n"
        "longest_wait = { low = 1, typical = 1, high = 1, samples = 10 }\n"
    )
    found = measured_variants(mixed, measured_unknowns(mixed, Unknowns()))
    assert not found["some throttled batches dropped"].backoff.retries


def test_a_mixed_order_of_groups_keeps_both_orders(profile_of):
    """It was measured, but names no rule."""
    profile = profile_of(
        '[order]\nnext = "mixed"\nsame_after_return = 0.5\nsame_after_delete = 0.5\nsamples = 9\n'
    )

    assert measured_variants(profile, Unknowns()) == variants(Unknowns())


def test_unknowns_of_a_scenario_have_priority_over_the_profile(profile_of):
    """You typed them for this load."""
    raw = {"arrivals": {"MAIN": {"backlog": 1}}, "unknowns": {"missed_polls": 0.5}}
    load = resolve(raw, LanesConfig(), profile=profile_of(WHOLE))

    assert load.unknowns.missed_polls == 0.5
    assert load.unknowns.receive == 0.012
    assert load.variants["as given"] == load.unknowns


def test_a_written_profile_reads_back(profile_of):
    """Four significant digits are kept."""
    profile = profile_of(WHOLE)

    assert profile_of("", head=profile.to_toml()) == profile


@pytest.mark.parametrize(
    ("sections", "problem"),
    [
        ("[throttel]\n", "unknown key 'throttel'; did you mean 'throttle'?"),
        ("[throttle]\nsamples = 3\n", "throttle: retried is missing"),
        ("[throttle]\nretried = 2\n", "throttle: retried is 2; must be at most 1"),
        ("[polls]\n", "polls: missed is missing"),
        ("[polls]\nmissed = 5\n", "polls: missed: must be a table, not the number 5"),
        ("[polls]\nmissed = { low = 0, high = 1 }\n", "polls: missed: typical missing"),
        (
            "[polls]\nmissed = { low = 0.5, typical = 0.2, high = 0.9 }\n",
            "polls: missed: low 0.5, typical 0.2 and high 0.9 must rise",
        ),
        (
            "[polls]\nmissed = { low = 0, typical = 0, high = 2 }\n",
            "polls: missed: high is 2; must be at most 1",
        ),
        ('[order]\nnext = "nobody"\n', "order: next is the string 'nobody'; must be one of"),
        ("polls = 3\n", "polls: must be a table, not the number 3"),
    ],
)
def test_a_wrong_profile_names_its_problem(profile_of, sections, problem):
    """With the value and what is allowed."""
    with pytest.raises(ConfigurationError) as caught:
        profile_of(sections)

    assert any(one.startswith(problem) for one in caught.value.problems), caught.value.problems


def test_a_profile_of_another_format_is_refused(profile_of):
    """It may have other meanings."""
    with pytest.raises(ConfigurationError, match="format is the number 1; must be 2"):
        profile_of("", head="format = 1\n")


def test_a_file_that_is_no_toml_is_refused(profile_of):
    """With the place of the error."""
    with pytest.raises(ConfigurationError, match=r"not a TOML file: .*line 1"):
        profile_of("", head="format 2\n")
