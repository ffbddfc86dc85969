"""Event source mappings: their settings, events and answers, concurrency, visibility and throttles."""

import json
import random
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lanes.mapping.event import MAX_EVENT_BYTES, payloads, sqs_record
from lanes.mapping.rules import (
    DEFAULT_CONCURRENCY,
    BatchOutcome,
    MappingRules,
    MappingSettings,
    Scaling,
    ThrottleBackoff,
    Winner,
    is_expired,
    judge,
    read_answer,
    start_order,
)
from lanes.testing.clock import FakeClock
from lanes.testing.fifo.message import FifoSettings
from lanes.testing.fifo.queue import FifoQueue


def test_settings_are_read_from_the_lambda_api():
    """Batch size, concurrency, answer type and state are those of the deployed mapping."""
    settings = MappingSettings.from_api(
        {
            "BatchSize": 4,
            "ScalingConfig": {"MaximumConcurrency": 3},
            "State": "Disabled",
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
        }
    )

    assert settings == MappingSettings(
        batch_size=4, maximum_concurrency=3, enabled=False, reports_failures=True
    )


def test_a_receive_asks_for_no_more_than_a_receive_can_bring():
    """Even if a standard queue's batch is larger."""
    assert MappingSettings(batch_size=100).receive_size == 10


ARN = "arn:aws:sqs:eu-central-1:123456789012:jobs.fifo"


class Message(NamedTuple):
    message_id: str
    group: str = "g"
    body: str = "{}"


def record_of(message):
    return sqs_record(
        message_id=message.message_id,
        receipt_handle="handle",
        body=message.body,
        md5_of_body="",
        attributes={"MessageGroupId": message.group},
        queue_arn=ARN,
    )


def large(number, group="g"):
    return Message(f"m{number}", group, "x" * 1_000_000)


def ids(payload):
    return [message.message_id for message in payload.messages]


def test_one_receive_is_one_event_with_its_groups_mixed_and_in_order():
    """Ten messages of several groups travel together, in the order of the receive."""
    received = [Message(f"m{number}", f"g{number % 3}") for number in range(10)]

    (payload,) = payloads(received, record_of)

    records = json.loads(payload.event)["Records"]
    assert (
        [record["messageId"] for record in records] == ids(payload) == [f"m{number}" for number in range(10)]
    )


def test_later_events_leave_out_the_groups_that_failed():
    """A later message of a failed group must not overtake the failed one."""
    received = [large(number, group="ab"[number % 2]) for number in range(10)]
    failed_groups = set()
    made = []
    for payload in payloads(received, record_of, failed_groups=failed_groups):
        made.append(ids(payload))
        failed_groups.add("a")

    assert made == [[f"m{n}" for n in range(6)], ["m7", "m9"]]


def test_no_event_is_made_where_every_group_failed():
    """An empty batch is not sent."""
    assert list(payloads([Message("m1"), Message("m2")], record_of, failed_groups={"g"})) == []


@settings(max_examples=30)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 1_500_000)), max_size=10))
def test_no_event_is_larger_than_an_invocation_and_none_is_missing(messages):
    """For every mix of sizes and groups."""
    received = [Message(f"m{number}", group, "x" * size) for number, (group, size) in enumerate(messages)]

    made = list(payloads(received, record_of))

    assert all(len(payload.event) <= MAX_EVENT_BYTES for payload in made)
    assert [one for payload in made for one in payload.messages] == received


IDS = ("m1", "m2", "m3")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(IDS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["batchItemFailures", "itemIdentifier", "x"]), inner, max_size=3)
    ),
)


def verdict(answer, *, function_error=None, reports_failures=True):
    payload = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    return judge(payload, message_ids=IDS, function_error=function_error, reports_failures=reports_failures)


@pytest.mark.parametrize(
    "answer",
    [b"", b" ", b"null", b"{}", {"batchItemFailures": []}, {"batchItemFailures": None}, {"statusCode": 200}],
)
def test_an_empty_or_null_answer_is_success(answer):
    """Nothing reported means that every message is deleted."""
    assert verdict(answer).outcome is BatchOutcome.SUCCEEDED
    assert not verdict(answer).failed_ids


@pytest.mark.parametrize(
    "answer",
    [
        b"{not json",
        b"\xff",
        b'"done"',
        b"[]",
        b"0",
        {"batchItemFailures": "m1"},
        {"batchItemFailures": ""},
        {"batchItemFailures": {}},
        {"batchItemFailures": [{"itemIdentifier": ""}]},
        {"batchItemFailures": [{"itemIdentifier": None}]},
        {"batchItemFailures": [{"messageId": "m1"}]},
        {"batchItemFailures": ["m1"]},
        {"batchItemFailures": [{"itemIdentifier": "m1"}, {"itemIdentifier": "unknown"}]},
    ],
)
def test_an_unusable_answer_fails_the_whole_batch(answer):
    """Malformed JSON, wrong keys and empty, null or unknown ids keep every message."""
    found = verdict(answer)

    assert found.outcome is BatchOutcome.FAILED
    assert found.failed_ids == set(IDS)
    assert found.reason


def test_a_function_error_fails_the_whole_batch_despite_its_answer():
    """An exception or a timeout deletes nothing."""
    assert verdict({"batchItemFailures": []}, function_error="Unhandled").failed_ids == set(IDS)


@given(JSON)
def test_every_answer_deletes_either_nothing_or_all_but_its_ids(answer):
    """No JSON raises, and none keeps a message of another batch."""
    found = read_answer(answer, message_ids=IDS)

    assert found.failed_ids <= set(IDS)
    assert bool(found.reason) is (found.outcome is BatchOutcome.FAILED)
    if found.outcome is BatchOutcome.FAILED:
        assert found.failed_ids == set(IDS)
    if found.outcome is BatchOutcome.PARTIAL:
        assert {one["itemIdentifier"] for one in answer["batchItemFailures"]} == found.failed_ids


@given(st.binary(max_size=30))
def test_every_payload_gets_a_verdict(payload):
    """Bytes that are no text fail the batch like malformed JSON."""
    assert verdict(payload).failed_ids <= set(IDS)


SETTINGS = MappingSettings(maximum_concurrency=3)
TIMEOUT = timedelta(seconds=30)


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
