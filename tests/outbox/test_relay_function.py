"""The relay as a function: its events, its figures, its limits of time."""

import json
import time
from datetime import timedelta
from types import SimpleNamespace

import boto3
import pytest
from moto import mock_aws

from lanes.config import LanesConfig, OutboxSettings
from lanes.config.deployment import Deployment, LaneQueues
from lanes.config.settings import LONGEST_LOCK
from lanes.errors import ConfigurationError
from lanes.outbox import EntryFilter, Operator, SqlOutbox
from lanes.outbox.dynamodb.operations import begun_effects
from lanes.outbox.dynamodb.relay_function import RelayFunction, relay_from_env
from lanes.outbox.entry import EntryState
from local import corrections
from tests.support.outbox import DynamoDBSubject

FIFO = {"FifoQueue": "true", "DeduplicationScope": "messageGroup"}


@pytest.fixture
def place():
    """Lanes and an outbox on moto, and the variables of the function."""
    corrections.install()
    with mock_aws():
        yield make_place()


def make_place(**outbox):
    sqs = boto3.client("sqs")
    config = LanesConfig.from_dict({"outbox": {"enabled": True, **outbox}})
    queues = {
        lane.name: LaneQueues(
            url=sqs.create_queue(QueueName=f"{lane.name}.fifo", Attributes=FIFO)["QueueUrl"],
            dead_letter_url="none",
        )
        for lane in config.lanes
    }
    deployment = Deployment(config=config, queues=queues, table="ledger", outbox="outbox")
    return SimpleNamespace(
        subject=DynamoDBSubject(),
        outbox=SqlOutbox(config=config),
        deployment=deployment,
        environ={"LANES_DEPLOYMENT": deployment.to_json(), "POWERTOOLS_SERVICE_NAME": "shop"},
        count=lambda lane: int(
            sqs.get_queue_attributes(
                QueueUrl=queues[lane].url, AttributeNames=["ApproximateNumberOfMessages"]
            )["Attributes"]["ApproximateNumberOfMessages"]
        ),
    )


def context(seconds=60):
    return SimpleNamespace(get_remaining_time_in_millis=lambda: seconds * 1000)


def figures(capfd):
    """Read the metric object that was printed."""
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines() if line.startswith("{")]
    return [line for line in lines if "_aws" in line][-1]


def test_a_stream_event_publishes_everything_that_is_due(place, capfd):
    """Batch after batch, with counts and latency."""
    place.subject.write(*(place.outbox.prepare("k", number) for number in range(60)))

    RelayFunction(lambda: relay_from_env(place.environ)).handle({"Records": []}, context())
    assert place.count("MEDIUM") == 60
    told = figures(capfd)
    assert told["OutboxPublished"] == [60.0]
    assert len(told["OutboxPublishLatency"]) == 60
    assert "OutboxPending" not in told


def test_an_entry_that_the_index_shows_late_is_found_all_the_same(place):
    """The stream told of it; where another relay has taken it, the looks end soon."""
    entry = place.outbox.prepare("k", None)
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        if len(pauses) == 1:
            place.subject.write(entry)

    function = RelayFunction(lambda: relay_from_env(place.environ), pause=pause)
    function.handle({"Records": [{}]}, context())
    assert place.count("MEDIUM") == 1
    function.handle({"Records": [{}]}, context())
    assert pauses == [0.25, 0.25, 0.25]


def test_a_scheduled_event_reports_how_the_outbox_stands(place, capfd, monkeypatch):
    """After it has published what it could."""
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "shop")
    place.subject.write(place.outbox.prepare("k", None))

    RelayFunction(lambda: relay_from_env(place.environ)).handle({"source": "aws.events"}, context())
    told = figures(capfd)
    assert told["OutboxPending"] == [0.0]
    assert told["OutboxAbandoned"] == [0.0]
    assert told["service"] == "shop"


def test_without_time_one_batch_is_published_and_the_rest_waits(place):
    """The next event goes on; nothing is cut off in the middle."""
    place.subject.write(*(place.outbox.prepare("k", number) for number in range(140)))

    now = time.time()
    runtime = relay_from_env(place.environ, clock=lambda: now)
    RelayFunction(lambda: runtime, clock=lambda: now).handle({"Records": []}, context(seconds=15))
    assert place.count("MEDIUM") == 100


def test_a_full_lane_is_filled_up_as_it_empties():
    """A scheduled relay looks again while entries are held back, since no event tells of consumers' work."""
    corrections.install()
    with mock_aws():
        place = make_place(lane_window=2)
        place.subject.write(*(place.outbox.prepare("k", number) for number in range(3)))
        now = SimpleNamespace(time=0.0)
        looks = []
        operator = Operator(store=place.subject.operations, config=place.deployment.config, who="ops")

        def pause(seconds):
            now.time += 10
            looks.append(place.count("MEDIUM"))

        function = RelayFunction(lambda: relay_from_env(place.environ), clock=lambda: now.time, pause=pause)
        function.handle({"source": "aws.events"}, context(seconds=45))

        assert looks == [2, 2, 2]
        assert operator.cancel(EntryFilter()) == 1
        now.time = 0.0
        function.handle({"source": "aws.events"}, context(seconds=45))
        assert len(looks) == 3


def test_a_stack_without_an_outbox_has_no_relay(place):
    """The mistake is named."""
    without = Deployment(config=LanesConfig(), queues=place.deployment.queues, table="ledger")

    with pytest.raises(ConfigurationError, match="has no outbox"):
        relay_from_env({"LANES_DEPLOYMENT": without.to_json()})


def test_an_invocation_ends_its_calls_in_time_and_returns_the_rest(place):
    """A call that has begun ends within five seconds; the entries that were not sent are candidates at once."""
    place.subject.write(*(place.outbox.prepare("k", number, group="g") for number in range(25)))
    now = SimpleNamespace(time=time.time())
    runtime = relay_from_env(place.environ, clock=lambda: now.time)
    sender = runtime.relay._publication._producer._sqs
    send = sender.send_batch

    def slow(*arguments):
        now.time += 3
        return send(*arguments)

    sender.send_batch = slow
    RelayFunction(lambda: runtime, clock=lambda: now.time).handle({"Records": []}, context(seconds=20))

    assert 1 <= place.count("MEDIUM") < 25
    left = [entry for entry in place.subject.operations.entries({EntryState.PENDING}) if not entry.is_parked]
    assert len(left) == 25 - place.count("MEDIUM")
    assert place.subject.store.status().counts.get(EntryState.PROCESSING, 0) == 0


@pytest.mark.parametrize("lock", [OutboxSettings().lock, LONGEST_LOCK])
def test_a_repeat_after_a_lock_lies_within_the_five_minutes_of_sqs(lock):
    """A relay dies after its first call; the next one begins within a minute, and sends for half of its lock."""
    assert lock + timedelta(minutes=1) + lock / 2 < timedelta(minutes=5)
    assert lock <= LONGEST_LOCK


def test_the_consumers_ledger_tells_what_was_handled(place):
    """By their identity, as its idempotency notes effects."""
    client = place.subject.client
    client.create_table(
        TableName="ledger",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    client.put_item(TableName="ledger", Item={"pk": {"S": "effect#lanes#k#done"}})
    named = [("k", "done"), ("k", "open"), ("other", "done")]
    entries = [place.outbox.prepare(kind, None, id=one) for kind, one in named]

    assert begun_effects(client, "ledger", entries) == {"lanes#k#done"}
