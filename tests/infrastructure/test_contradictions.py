"""Contradictory settings are refused at synth, with an error for each."""

from dataclasses import replace
from datetime import timedelta

import pytest
from aws_cdk import Stack

from cdk import LaneQueues
from cdk.queues.contradictions import refuse_contradictions
from lanes.errors import ConfigurationError
from lanes.operate.check_rules import minimum_max_receive_count, receives_within
from tests.support.infrastructure import lanes_config, new_app

FORTNIGHT = timedelta(days=14)


def problems_of(
    *, retention=FORTNIGHT, max_receive_count=1000, consumer=None, names=None, existing=(), lanes=1, **lane
):
    """Give the problems of a one-lane configuration with these settings."""
    config = lanes_config(lanes, **(consumer or {}))
    config = replace(config, lanes=(replace(config.lanes[0], **lane), *config.lanes[1:]))
    try:
        refuse_contradictions(
            config,
            retention=retention,
            max_receive_count=max_receive_count,
            names=names or {},
            existing=existing,
        )
    except ConfigurationError as error:
        return error.problems
    return []


@pytest.mark.parametrize(
    ("lane", "problem"),
    [
        (
            {"visibility_timeout": timedelta(seconds=179)},
            "visibility_timeout 179s is under 6 times the function",
        ),
        ({"batch_size": 0}, "batch_size is 0; must be at least 1"),
        ({"batch_size": 11}, "batch_size is 11; must be at most 10"),
        ({"maximum_concurrency": 1}, "maximum_concurrency is 1; must be at least 2"),
        ({"maximum_concurrency": 1001}, "maximum_concurrency is 1001; must be at most 1000"),
        ({"yield_delay_min": timedelta(minutes=1)}, "yield_delay_min 1m is longer than yield_delay_max 15s"),
    ],
    ids=str,
)
def test_a_setting_of_code_is_read_as_one_of_a_file(lane, problem):
    """By the same declaration, so that no bound has a second copy."""
    (found,) = problems_of(**lane)

    assert problem in found


def test_the_bounds_themselves_are_allowed():
    """Six function timeouts are enough."""
    assert problems_of(visibility_timeout=timedelta(seconds=180), batch_size=10, maximum_concurrency=2) == []


@pytest.mark.parametrize("count", [0, 1001])
def test_a_receive_limit_that_sqs_refuses_is_refused(count):
    """SQS allows one to a thousand."""
    assert f"max_receive_count is {count}: SQS allows 1 to 1000; omit it for 1000" in problems_of(
        max_receive_count=count
    )


def test_a_receive_limit_that_yields_could_reach_is_refused():
    """Ten receives would dead-letter a message that never failed; the text says how many are enough."""
    (problem,) = problems_of(max_receive_count=10)

    assert "max_receive_count is 10, which a message that only yields or waits for a resource" in problem
    assert "set at least 1000" in problem


def test_the_least_receive_limit_is_exact():
    """One receive fewer than the bound is refused, the bound is not."""
    assert problems_of(max_receive_count=999) != []
    assert problems_of(max_receive_count=1000) == []


def test_a_shorter_retention_needs_fewer_receives():
    """Four days can't use up eight hundred."""
    assert problems_of(max_receive_count=800) != []
    assert problems_of(max_receive_count=800, retention=timedelta(days=4)) == []


@pytest.mark.parametrize("attempts", [1, 100, 500])
def test_the_highest_receive_limit_is_never_refused(attempts):
    """With a thousand receives there is nothing better to ask for."""
    assert problems_of(consumer={"max_attempts": attempts}) == []


@pytest.mark.parametrize("retention", [timedelta(seconds=59), timedelta(days=15)])
def test_a_retention_that_sqs_refuses_is_refused(retention):
    """SQS keeps messages one minute to two weeks."""
    (problem,) = problems_of(retention=retention)

    assert "SQS keeps messages 1m to 14d" in problem


def test_all_problems_of_all_lanes_are_reported_at_once():
    """One synth shows everything there is to mend."""
    config = lanes_config(2)
    broken = tuple(replace(lane, batch_size=11, maximum_concurrency=1) for lane in config.lanes)

    with pytest.raises(ConfigurationError) as caught:
        LaneQueues(
            Stack(new_app(), "Stack"), "Lanes", config=replace(config, lanes=broken), max_receive_count=5
        )

    assert len(caught.value.problems) == 5


@pytest.mark.parametrize(("days", "receives"), [(14, 995), (4, 713), (1, 559), (0.25, 504)])
def test_yields_and_outages_spend_receives_more_slowly_the_more_there_were(days, receives):
    """And the attempts come on top, within what SQS allows."""
    retention = timedelta(days=days)

    assert receives_within(retention) == receives
    assert minimum_max_receive_count(retention=retention, max_attempts=5) == receives + 5


@pytest.mark.parametrize("name", ["orders", "orders fifo.fifo", f"{'o' * 71}.fifo", ".fifo"])
def test_a_name_that_no_queue_can_have_is_refused(name):
    """With room for the name of the dead-letter queue."""
    (problem,) = problems_of(names={"L0": name})

    assert f"queue_names has {name!r} for L0; a name has 1 to 70 letters" in problem


def test_names_of_no_lane_of_an_existing_queue_and_of_two_queues_are_refused():
    """A dead-letter queue has a name too."""
    names = {"HIGH": "high.fifo", "L0": "orders.fifo", "L1": "orders-dead.fifo"}

    assert [problem.partition(";")[0] for problem in problems_of(names=names, existing={"L1"}, lanes=2)] == [
        "queue_names has 'HIGH', which is not a lane",
        "queue_names has L1, of which existing has the queue",
        "queue_names needs 'orders-dead.fifo' for more than one queue",
    ]
