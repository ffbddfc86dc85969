"""The outbox of the deployed stack: a commit wakes the relay through the table's stream, and the message is handled."""

import boto3
import pytest

from lanes.aws.clients import Clients, read_deployment
from lanes.outbox import DynamoOutbox, EntryState
from lanes.outbox.dynamodb.operations import DynamoDBOutboxOperations
from lanes.outbox.dynamodb.store import DynamoDBOutboxStore
from local.deploy import ROOT, CdkApp
from tests.support.waiting import until

STACK = "PriorityLanes-outbox"


# Beyond the limit of other tests: the stack is deployed, and a message passes two functions. Each step of that way
# has a quick test.
pytestmark = [pytest.mark.deep, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def platform(running_platform):
    """This repository's stack with its outbox."""
    running_platform.deploy(CdkApp(directory=ROOT, stage="outbox", context={"removal": "destroy"}))
    return running_platform


@pytest.fixture(scope="module")
def session(platform):
    """A session of boto3 for this machine's AWS."""
    variables = platform.variables()
    return boto3.Session(
        aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
        region_name=variables["AWS_REGION"],
    )


def test_a_commit_reaches_the_consumer_through_stream_and_relay(platform, lines, session):
    """Urgent and everyday entries of one transaction, and with no poll of the table."""
    outbox = DynamoOutbox.from_stack(STACK, endpoint_url=platform.endpoint_url, session=session)
    woken = platform.streams[outbox.table].invokes
    with outbox.transaction() as tx:
        urgent = tx.add("payment.captured", {"n": 1}, priority=100)
        everyday = tx.add("order.placed", {"n": 2}, group="customer-1")

    events = lines.wait_for_events("message_handled", urgent.id, everyday.id)
    assert [event["lane"] for event in events] == ["HIGH", "MEDIUM"]
    # The message may be handled before the relay that sent it has marked it and ended.
    until(lambda: platform.streams[outbox.table].invokes > woken)
    assert platform.streams[outbox.table].given_up == 0
    clients = Clients(endpoint_url=platform.endpoint_url, session=session)
    deployment = read_deployment(clients.ssm(), STACK)
    store = DynamoDBOutboxStore(table=deployment.outbox, client=clients.dynamodb())
    until(lambda: DynamoDBOutboxOperations(store).entry(urgent.id).state is EntryState.PUBLISHED)


def test_the_relays_own_marks_do_not_wake_it(platform, lines, session):
    """A commit of one entry is one invocation."""
    outbox = DynamoOutbox.from_stack(STACK, endpoint_url=platform.endpoint_url, session=session)
    mapping = platform.streams[outbox.table]
    before = mapping.invokes
    with outbox.transaction() as tx:
        entry = tx.add("order.placed", {"n": 3})
    lines.wait_for_events("message_handled", entry.id)
    with outbox.transaction() as tx:
        entry = tx.add("order.placed", {"n": 4})
    lines.wait_for_events("message_handled", entry.id)

    # One more may belong to the commit before these, where its entries came apart.
    assert mapping.invokes - before <= 3


def test_the_schedule_of_the_relay_runs_too(platform):
    """For retries and ended locks, once a minute as deployed."""
    (schedule,) = platform.schedules.values()

    assert schedule.settings.rate.total_seconds() == 60
    assert schedule.settings.enabled
    assert platform.outputs[STACK]["OutboxRelayFunctionName"] in schedule.settings.function_arns[0]
