"""Concurrency, visibility and throttles of one mapping."""

from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from lanes.mapping.rules import (
    DEFAULT_CONCURRENCY,
    MappingRules,
    MappingSettings,
    Scaling,
    ThrottleBackoff,
    is_expired,
)
from lanes.testing.clock import FakeClock
from lanes.testing.fifo.message import FifoSettings
from lanes.testing.fifo.queue import FifoQueue

SETTINGS = MappingSettings(maximum_concurrency=3)
TIMEOUT = timedelta(seconds=30)


class Message(NamedTuple):
    message_id: str
    group: str = "g"


def rules_for(settings=SETTINGS, **options):
    return MappingRules(settings, visibility_timeout=TIMEOUT, random=Random(1), **options)


def test_without_maximum_concurrency_a_mapping_has_the_default():
    """AWS documents none for FIFO queues."""
    rules = rules_for(MappingSettings())

    assert [rules.start() for _ in range(DEFAULT_CONCURRENCY + 1)] == [True] * DEFAULT_CONCURRENCY + [False]


def test_a_finished_batch_makes_room_for_a_receive():
    """An answered, a dropped and an empty receive alike."""
    rules = rules_for()
    while rules.start():
        pass

    rules.finish()

    assert rules.start()
    assert not rules.start()


def test_a_disabled_mapping_receives_nothing_until_it_is_enabled():
    """Batches that it has received go on meanwhile."""
    rules = rules_for()
    rules.start()
    rules.update(replace(SETTINGS, enabled=False), visibility_timeout=TIMEOUT)

    assert not rules.start()
    assert rules.running == 1

    rules.update(SETTINGS, visibility_timeout=TIMEOUT)
    assert rules.start()


def test_a_deploy_changes_concurrency_and_visibility_of_later_receives():
    """A batch that was received before keeps its visibility timeout."""
    rules = rules_for()
    before = rules.take([Message("m1")], now=100.0)
    rules.update(MappingSettings(maximum_concurrency=7), visibility_timeout=timedelta(seconds=5))

    assert rules.concurrency == 7
    assert before.until == 130.0
    assert rules.take([Message("m2")], now=100.0).until == 105.0


def test_a_throttled_batch_is_retried_until_its_visibility_timeout_ends():
    """Then it is dropped."""
    rules = rules_for(backoff=ThrottleBackoff(jitter=0))
    batch = rules.take([Message("m1")], now=0.0)

    waits = [rules.throttled(batch, now=now) for now in (0.0, 0.1, 0.3, 29.8)]

    assert waits == [timedelta(seconds=0.1), timedelta(seconds=0.2), timedelta(seconds=0.3), None]
    assert batch.throttles == 4
    assert not is_expired(batch, now=29.9)
    assert is_expired(batch, now=30.0)


def test_a_mapping_scales_to_its_maximum_concurrency():
    """Step by step, and no further."""
    rules = rules_for(scaling=Scaling(first=1, per_second=1.0))
    assert rules.concurrency == 1
    assert rules.can_scale

    assert [rules.scale(1.0) for _ in range(3)] == [1, 1, 0]

    assert rules.concurrency == 3
    assert not rules.can_scale


@given(
    st.integers(2, 6),
    st.integers(1, 4),
    st.integers(1, 10),
    st.lists(st.sampled_from(["send", "receive", "finish", "disable", "enable"]), max_size=60),
)
def test_concurrency_never_exceeds_maximum_concurrency_or_message_groups(concurrency, groups, size, steps):
    """For every order of sends, receives, answers and switches."""
    clock = FakeClock()
    queue = FifoQueue(clock, name="jobs.fifo", settings=FifoSettings(visibility_timeout=TIMEOUT))
    settings = MappingSettings(maximum_concurrency=concurrency, batch_size=size)
    rules = rules_for(settings)
    running = []
    for number, step in enumerate(steps):
        if step == "send":
            queue.send("{}", group=f"g{number % groups}", deduplication_id=str(number))
        elif step == "receive" and queue.is_receivable() and rules.start():
            assert rules.settings.enabled
            running.append(rules.take(queue.receive(rules.settings.receive_size), now=clock()))
        elif step == "finish" and running:
            for message in running.pop(0).messages:
                queue.delete(message.receipt_handle)
            rules.finish()
        elif step in {"disable", "enable"}:
            rules.update(replace(settings, enabled=step == "enable"), visibility_timeout=TIMEOUT)

        assert rules.running == len(running) <= min(concurrency, groups)
        assert all(len(batch.messages) <= size for batch in running)
