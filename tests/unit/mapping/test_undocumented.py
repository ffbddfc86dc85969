"""The parameters for behaviour that AWS does not document."""

import random
from datetime import timedelta

from lanes.mapping.rules import MappingSettings, Scaling, ThrottleBackoff, Winner, start_order

MINUTE = timedelta(minutes=1)


def test_throttle_waits_double_up_to_a_cap():
    """Without jitter: a tenth of a second, doubled, at most the cap."""
    backoff = ThrottleBackoff(longest=timedelta(seconds=1), jitter=0)

    waits = [backoff.wait(tries, left=MINUTE, random=random.Random(0)) for tries in (1, 2, 3, 4, 5, 5000)]

    assert [wait.total_seconds() for wait in waits] == [0.1, 0.2, 0.4, 0.8, 1, 1]


def test_throttle_jitter_only_shortens_and_follows_its_seed():
    """The same seed gives the same waits."""
    backoff = ThrottleBackoff(longest=timedelta(seconds=1), jitter=0.5)

    waits = [
        [backoff.wait(5, left=MINUTE, random=source) for _ in range(20)]
        for source in (random.Random(7), random.Random(7))
    ]

    assert waits[0] == waits[1]
    assert all(timedelta(seconds=0.5) <= wait <= timedelta(seconds=1) for wait in waits[0])


def test_no_wait_exceeds_the_rest_of_the_visibility_timeout():
    """The batch is dropped instead."""
    backoff = ThrottleBackoff(jitter=0)

    assert backoff.wait(1, left=timedelta(milliseconds=50), random=random.Random(0)) is None
    assert backoff.wait(1, left=timedelta(seconds=-1), random=random.Random(0)) is None


def test_without_retries_a_batch_is_dropped_at_its_first_throttle():
    """It returns to the queue when its visibility timeout ends."""
    assert ThrottleBackoff(retries=False).wait(1, left=MINUTE, random=random.Random(0)) is None


def test_a_free_slot_has_the_winner_that_was_chosen():
    """The lowest rank wins; by chance there is no rank."""
    high, low = {"position": 0, "until": 20.0}, {"position": 2, "until": 10.0}

    assert Winner.CHANCE.rank(**high) is None
    assert Winner.HIGHEST.rank(**high) < Winner.HIGHEST.rank(**low)
    assert Winner.LOWEST.rank(**high) > Winner.LOWEST.rank(**low)
    assert Winner.OLDEST.rank(**high) > Winner.OLDEST.rank(**low)


def test_a_fraction_of_concurrency_is_added_by_chance():
    """On average as much as was set."""
    source = random.Random(1)

    added = [Scaling(per_second=0.25).added(1.0, random=source) for _ in range(1000)]

    assert set(added) == {0, 1}
    assert 200 < sum(added) < 300


def test_a_mapping_starts_with_no_more_than_its_maximum_concurrency():
    """All of it unless a first concurrency is set."""
    settings = MappingSettings(maximum_concurrency=4)

    assert [Scaling(first=first).start(settings) for first in (0, 2, 9)] == [4, 2, 4]


def test_the_first_poll_order_follows_the_seed_alone():
    """Every order occurs for some seed, the same one for the same seed."""
    lanes = ["HIGH", "MEDIUM", "MAIN"]

    orders = {tuple(start_order(lanes, seed=seed)) for seed in range(60)}

    assert len(orders) == 6
    assert start_order(lanes, seed=3) == start_order(reversed(lanes), seed=3)
