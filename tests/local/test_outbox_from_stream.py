"""The outbox of the deployed stack: a commit wakes the relay through the table's stream, and the message is handled."""

import json
import threading

import boto3
import pytest

from lanes.aws.clients import Clients
from lanes.aws.outbox_operations import DynamoDBOutboxOperations
from lanes.aws.outbox_store import DynamoDBOutboxStore
from lanes.aws.parameters import read_deployment
from lanes.outbox import EntryState, Outbox
from local.deploy import CdkApp
from local.platform import ROOT, Platform
from tests.support.waiting import until

STACK = "PriorityLanes-outbox"


class Handled:
    """Waits for messages that the consumer has handled."""

    def __init__(self):
        self._changed = threading.Condition()
        self._ids = {}

    def __call__(self, _function, line):
        if '"message_handled"' in line:
            with self._changed:
                event = json.loads(line)
                self._ids[event["id"]] = event
                self._changed.notify_all()

    def wait_for(self, *ids):
        """Give the events of these messages once all of them have come."""
        with self._changed:
            assert self._changed.wait_for(lambda: set(ids) <= self._ids.keys(), 90), self._ids
            return [self._ids[one] for one in ids]


@pytest.fixture(scope="module")
def handled():
    """What the consumer has handled."""
    return Handled()


@pytest.fixture(scope="module")
def platform(tmp_path_factory, handled):
    """This repository's stack with its outbox."""
    app = CdkApp(directory=ROOT, stage="outbox", context={"removal": "destroy"})
    with Platform(app=app, on_line=handled, build_directory=tmp_path_factory.mktemp("build")) as running:
        yield running


@pytest.fixture(scope="module")
def session(platform):
    """A session of boto3 for this machine's AWS."""
    variables = platform.variables()
    return boto3.Session(
        aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
        region_name=variables["AWS_REGION"],
    )


def test_a_commit_reaches_the_consumer_through_stream_and_relay(platform, handled, session):
    """Urgent and everyday entries of one transaction, and with no poll of the table."""
    outbox = Outbox.from_stack(STACK, endpoint_url=platform.endpoint_url, session=session)
    woken = platform.streams[outbox.table].invokes
    with outbox.transaction() as tx:
        urgent = tx.add("payment.captured", {"n": 1}, priority=100)
        everyday = tx.add("order.placed", {"n": 2}, group="customer-1")

    events = handled.wait_for(urgent.id, everyday.id)
    assert [event["lane"] for event in events] == ["HIGH", "MEDIUM"]
    # The message may be handled before the relay that sent it has marked it and ended.
    until(lambda: platform.streams[outbox.table].invokes > woken)
    assert platform.streams[outbox.table].given_up == 0
    clients = Clients(endpoint_url=platform.endpoint_url, session=session)
    deployment = read_deployment(clients.ssm(), STACK)
    store = DynamoDBOutboxStore(table=deployment.outbox, client=clients.dynamodb())
    until(lambda: DynamoDBOutboxOperations(store).entry(urgent.id).state is EntryState.PUBLISHED)


def test_the_relays_own_marks_do_not_wake_it(platform, handled, session):
    """A commit of one entry is one invocation."""
    outbox = Outbox.from_stack(STACK, endpoint_url=platform.endpoint_url, session=session)
    mapping = platform.streams[outbox.table]
    before = mapping.invokes
    with outbox.transaction() as tx:
        entry = tx.add("order.placed", {"n": 3})
    handled.wait_for(entry.id)
    with outbox.transaction() as tx:
        entry = tx.add("order.placed", {"n": 4})
    handled.wait_for(entry.id)

    # One more may belong to the commit before these, where its entries came apart.
    assert mapping.invokes - before <= 3


def test_the_schedule_of_the_relay_runs_too(platform):
    """For retries and ended locks, once a minute as deployed."""
    (schedule,) = platform.schedules.values()

    assert schedule.settings.rate.total_seconds() == 60
    assert schedule.settings.enabled
    assert platform.outputs[STACK]["OutboxRelayFunctionName"] in schedule.settings.function_arns[0]
