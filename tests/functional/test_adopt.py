"""Moving the messages of an existing queue to a lane, on queues of moto with the corrections of this project."""

import json
from collections import Counter, defaultdict
from datetime import timedelta
from types import SimpleNamespace

import boto3
import botocore.client
import moto.sqs.models
import pytest
from moto import mock_aws

from lanes import Message
from lanes.aws.clients import Clients
from lanes.aws.queues import dead_letter_queues
from lanes.aws.stack.operations import Operations
from lanes.config import LanesConfig
from lanes.errors import AwsError, ConfigurationError
from lanes.operate.adopt import NO_HOLDS, Adoption, Grouped, priority_in
from lanes.operate.dead_letters.redrive import DeadLetterRun, Task
from lanes.testing.clock import FakeClock
from local import corrections
from local.corrections.sqs_queue import set_clock
from tests.support.dead_letters import Killed
from tests.support.operating import STACK, drain, make_deployment

FIFO = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
MOST_DOUBLED = 19
"""Nine that wait for their deletion, and the ten of the next call."""
LATE = timedelta(minutes=5, seconds=1).total_seconds()
"""After this SQS no longer knows a deduplication id."""


class Aws:
    """
    Calls of clients under a clock: each takes a moment, and one of them may be the last of its process.

    `kill_at` is the number of that call: AWS carries it out, and the process dies before the answer.
    """

    def __init__(self, clock):
        self.clock = clock
        self.calls = []
        self.kill_at = None

    def patch(self, monkeypatch):
        real = botocore.client.BaseClient._make_api_call

        def call(client, operation, parameters):
            self.calls.append(operation)
            # Also those of a `finally`: nothing runs in a process that was killed.
            if self.kill_at is not None and len(self.calls) > self.kill_at:
                raise Killed
            self.clock.advance(1.0 if operation == "ReceiveMessage" else 0.05)
            answer = real(client, operation, parameters)
            if len(self.calls) == self.kill_at:
                raise Killed
            return answer

        monkeypatch.setattr(botocore.client.BaseClient, "_make_api_call", call)

    def will_die(self, number):
        self.calls.clear()
        self.kill_at = number

    def lives_again(self):
        self.kill_at = None


@pytest.fixture
def clock(monkeypatch):
    """The clock of all queues and runs."""
    clock = FakeClock()
    set_clock(clock)
    for name, factor in (("unix_time", 1), ("unix_time_millis", 1000)):
        monkeypatch.setattr(moto.sqs.models, name, lambda factor=factor: clock() * factor)
    yield clock
    set_clock(None)


@pytest.fixture
def aws(clock, monkeypatch):
    """An empty account."""
    corrections.install()
    monkeypatch.setattr(dead_letter_queues, "WAIT_SECONDS", 0)
    aws = Aws(clock)
    with mock_aws():
        aws.patch(monkeypatch)
        yield aws


@pytest.fixture
def operations(aws):
    """What verbs call, for three lanes."""
    return Operations(deployment=make_deployment(boto3.client), clients=Clients(), stack_name=STACK)


def source(name="orders.fifo", **settings):
    """Make a queue; return its URL."""
    given = {**(FIFO if name.endswith(".fifo") else {}), **settings}
    return boto3.client("sqs").create_queue(QueueName=name, Attributes=given)["QueueUrl"]


def put(url, bodies, *, groups=None):
    """Send bodies in order, to groups in turn."""
    client = boto3.client("sqs")
    for place, body in enumerate(bodies):
        group = {} if groups is None else {"MessageGroupId": f"g{place % groups}"}
        client.send_message(QueueUrl=url, MessageBody=body, **group)


def adopt(operations, queue="orders.fifo", lane="MAIN", *, limit=None, clock=None, **how):
    """Run once; return the progress and what stays for want of a group."""
    found = operations.source(queue)
    calls = operations.adopted(found, lane=lane, adoption=Adoption(**how).checked(found))
    task = Task(lane=lane, wanted=Grouped(), copies=True, limit=limit, is_fifo=found.is_fifo)
    clock = clock or FakeClock()
    run = DeadLetterRun(task, queues=calls, holds=NO_HOLDS, clock=clock, pause=clock.advance)
    return SimpleNamespace(progress=run.run(), staying=calls.staying)


def in_lane(operations, lane="MAIN"):
    """Take all messages out of a lane; return groups and bodies."""
    taken = drain(boto3.client("sqs"), operations.deployment.queues[lane].url)
    return [(one["Attributes"]["MessageGroupId"], one["Body"]) for one in taken]


def left_in(url):
    """Count the messages of a queue, hidden ones too."""
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    found = boto3.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return sum(map(int, found.values()))


def firsts(arrived):
    """Give the numbers of each group in the order in which each arrived first."""
    groups = defaultdict(dict)
    for group, body in arrived:
        groups[group].setdefault(json.loads(body)["number"])
    return {group: list(numbers) for group, numbers in groups.items()}


def test_a_message_arrives_as_it_was(operations, clock):
    """Its body to the last character, its group and its attributes; its queue is empty then."""
    url = source()
    body = '{ "amount": 1.10, "note": "ü" }'
    boto3.client("sqs").send_message(
        QueueUrl=url,
        MessageBody=body,
        MessageGroupId="customer-7",
        MessageAttributes={"tenant": {"DataType": "String", "StringValue": "acme"}},
    )

    done = adopt(operations, url, clock=clock).progress

    (arrived,) = drain(boto3.client("sqs"), operations.deployment.queues["MAIN"].url)
    assert (done.done, done.left, left_in(url)) == (1, 0, 0)
    assert (arrived["Body"], arrived["Attributes"]["MessageGroupId"]) == (body, "customer-7")
    assert arrived["MessageAttributes"]["tenant"]["StringValue"] == "acme"
    assert arrived["Attributes"]["MessageDeduplicationId"].startswith("adopted-")


@pytest.mark.parametrize(("name", "wait"), [("orders.fifo", 0.0), ("orders.fifo", LATE), ("orders", LATE)])
def test_a_run_killed_at_any_call_loses_nothing_and_keeps_the_order(operations, aws, name, wait):
    """A repeat within five minutes doubles nothing; a later one what the killed run had sent and not deleted."""
    how = {} if name.endswith(".fifo") else {"group_by": "customer"}
    bodies = [json.dumps({"number": number, "customer": f"g{number % 3}"}) for number in range(14)]
    expected = {f"g{rest}": list(range(rest, 14, 3)) for rest in range(3)}
    url, number, most, killed = source(name), 0, 0, True

    while killed:
        number += 1
        put(url, bodies, groups=3 if name.endswith(".fifo") else None)
        aws.will_die(number)
        killed = False
        try:
            adopt(operations, name, clock=aws.clock, **how)
        except Killed:
            killed = True
        aws.lives_again()
        aws.clock.advance(wait)
        adopt(operations, name, clock=aws.clock, **how)
        arrived = in_lane(operations)
        doubled = sum(count - 1 for count in Counter(arrived).values())
        most = max(most, doubled)

        assert left_in(url) == 0, number
        assert {group: sorted(numbers) for group, numbers in firsts(arrived).items()} == expected, number
        if name.endswith(".fifo"):
            assert firsts(arrived) == expected, number
        # The same bodies again in the next round: SQS must not know them.
        aws.clock.advance(LATE)

    assert number > 10
    assert most == 0 if wait == 0 else 0 < most <= MOST_DOUBLED


def test_what_an_interrupted_run_has_sent_is_not_sent_again_much_later(operations, aws, clock, monkeypatch):
    """Its repeat reads what the first run wrote down as it ended."""
    url = source()
    put(url, [json.dumps({"number": number}) for number in range(10)], groups=10)
    real = botocore.client.BaseClient._make_api_call

    def interrupt(client, operation, parameters):
        if operation == "DeleteMessageBatch":
            raise KeyboardInterrupt
        return real(client, operation, parameters)

    with monkeypatch.context() as patch:
        patch.setattr(botocore.client.BaseClient, "_make_api_call", interrupt)
        with pytest.raises(KeyboardInterrupt):
            adopt(operations, clock=clock)
    clock.advance(LATE)
    adopt(operations, clock=clock)

    assert len(in_lane(operations)) == 10
    assert left_in(url) == 0


WITHOUT_A_GROUP = [
    "plain",
    '{"customer": {}}',
    '{"customer": {"id": null}}',
    '{"customer": {"id": 1.5}}',
    '{"customer": {"id": true}}',
    '{"customer": [{"id": 1}]}',
    '{"customer": {"id": ""}}',
]


def test_messages_without_a_group_stay_and_are_named(operations, clock):
    """The others go. Each is received once, since its queue may give up after few receives."""
    dead = source("dead")
    arn = boto3.client("sqs").get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])
    policy = json.dumps({"deadLetterTargetArn": arn["Attributes"]["QueueArn"], "maxReceiveCount": 3})
    url = source("orders", RedrivePolicy=policy)
    put(url, [*WITHOUT_A_GROUP, *['{"customer": {"id": 7}}'] * 12])

    run = adopt(operations, "orders", clock=clock, group_by="customer.id")

    assert (run.progress.done, run.progress.kept, run.progress.left) == (12, 7, 7)
    assert ["no text and no whole number at customer.id" in why for why in run.staying.values()] == [True] * 7
    assert {group for group, _ in in_lane(operations)} == {"7"}
    stay = drain(boto3.client("sqs"), url)
    assert sorted(one["Body"] for one in stay) == sorted(WITHOUT_A_GROUP)
    assert {one["Attributes"]["ApproximateReceiveCount"] for one in stay} == {"2"}


def test_a_place_in_a_list_is_a_group_too(operations, clock):
    """As in the records of S3."""
    put(source("orders"), ['{"Records": [{"bucket": {"name": "b"}}]}'])

    adopt(operations, "orders", clock=clock, group_by="Records.0.bucket.name")

    assert [group for group, _ in in_lane(operations)] == ["b"]


def test_one_group_for_all(operations, clock):
    """Bodies need no form then."""
    put(source("orders"), ["one", "two"])

    adopt(operations, "orders", clock=clock, group="all")

    assert sorted(in_lane(operations)) == [("all", "one"), ("all", "two")]


def test_one_group_of_a_standard_queue_goes_in_tens(operations, aws, clock):
    """It has no order that a refused entry could break."""
    put(source("orders"), [str(number) for number in range(40)])
    aws.calls.clear()

    adopt(operations, "orders", clock=clock, group="all")

    assert len(in_lane(operations)) == 40
    assert aws.calls.count("SendMessageBatch") <= 5


def test_a_message_that_is_too_large_stops_none_of_a_standard_queue(operations, clock):
    """All in one group would stay behind it."""
    lane = operations.deployment.queues["MAIN"].url
    boto3.client("sqs").set_queue_attributes(QueueUrl=lane, Attributes={"MaximumMessageSize": "1024"})
    put(source("orders"), ["x" * 1025, *map(str, range(30))])

    run = adopt(operations, "orders", clock=clock, group="all")

    assert len(in_lane(operations)) == 30
    assert (run.progress.done, run.progress.left) == (30, 1)
    assert ["takes at most 1024" in why for why in run.progress.failed.values()] == [True]


@pytest.mark.parametrize(("body", "data"), [('{"amount": 1.10}', '{"amount": 1.10}'), ("plain", '"plain"')])
def test_a_body_becomes_the_data_of_a_message_of_a_kind(operations, clock, body, data):
    """With the id that SQS gave it, and a priority of the lane."""
    put(source(), [body], groups=1)

    adopt(operations, lane="HIGH", clock=clock, kind="order.placed", priority=50)

    ((group, arrived),) = in_lane(operations, "HIGH")
    message = Message.from_body(arrived)
    assert (group, message.kind, message.priority, message.source) == (
        "g0",
        "order.placed",
        50,
        "lanes adopt",
    )
    assert f'"data":{data}' in arrived


@pytest.mark.parametrize(("lane", "priority"), [("HIGH", 50), ("MEDIUM", 0), ("MAIN", -1)])
def test_the_priority_of_such_a_message_is_of_its_lane(lane, priority):
    """The closest to NORMAL."""
    config = LanesConfig()

    found = priority_in(config, next(one for one in config.lanes if one.name == lane))

    assert (found, config.lane_for(found).name) == (priority, lane)


def test_a_message_that_is_too_large_stops_its_group_and_no_other(operations, clock):
    """One that comes later in its group would overtake it."""
    lane = operations.deployment.queues["MAIN"].url
    boto3.client("sqs").set_queue_attributes(QueueUrl=lane, Attributes={"MaximumMessageSize": "1024"})
    url = source()
    put(url, ["a", "b", "x" * 1025, "c", "d", "e"], groups=2)

    run = adopt(operations, clock=clock)

    assert sorted(in_lane(operations)) == [("g0", "a"), ("g1", "b"), ("g1", "c"), ("g1", "e")]
    assert (run.progress.done, len(run.progress.failed), run.progress.left) == (4, 2, 2)
    assert any("takes at most 1024" in why for why in run.progress.failed.values())
    assert [one["Body"] for one in drain(boto3.client("sqs"), url)] == ["x" * 1025, "d"]


def test_a_limit_leaves_the_rest(operations, clock):
    """The first ones of the group go."""
    url = source()
    put(url, [json.dumps({"number": number}) for number in range(15)], groups=1)

    assert adopt(operations, clock=clock, limit=4).progress.done == 4
    assert firsts(in_lane(operations)) == {"g0": [0, 1, 2, 3]}
    assert left_in(url) == 11


def test_a_queue_is_found_by_name_url_and_arn(operations):
    """A trailing slash of a copied URL does not matter."""
    url = source()
    arn = boto3.client("sqs").get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])["Attributes"]

    for asked in ("orders.fifo", f"{url}/", arn["QueueArn"]):
        found = operations.source(asked)
        assert (found.name, found.url, found.is_fifo) == ("orders.fifo", url, True)


def test_another_queue_is_refused(operations):
    """Before anything is received."""
    for queue, why in (
        ("nowhere", "there is no queue 'nowhere' in"),
        ("or ders", "is not the name, URL or ARN"),
        ("", "is not the name, URL or ARN"),
        ("arn:aws:sns:eu-central-1:123456789012:orders", "is not the ARN of a queue"),
        ("arn:aws:sqs:xx-north-9:123456789012:orders", "is in another region"),
        ("https://sqs.xx-north-9.amazonaws.com/123456789012/orders.fifo", "is in another region"),
        ("https://vpce-1.sqs.us-gov-east-1.vpce.amazonaws.com/123456789012/orders", "is in another region"),
        ("HIGH.fifo", "is the queue of lane HIGH; to move its messages use `lanes prioritize`"),
        ("HIGH-dead.fifo", "use `lanes dead-letters redrive HIGH`"),
    ):
        with pytest.raises(ConfigurationError, match=why):
            operations.source(queue)


def test_what_does_not_fit_the_queue_is_refused(operations):
    """With the option to give in its place."""
    for name, how, why in (
        ("orders", {}, "is a standard queue"),
        ("orders", {"group": "g", "group_by": "a"}, "is a standard queue"),
        ("orders", {"group": "two words"}, "--group is 'two words'; it must have 1 to 128"),
        ("orders", {"group_by": "a..b"}, "--group-by: 'a..b' is not a path; give keys joined by dots"),
        ("orders.fifo", {"group": "g"}, "keep their groups; leave out --group"),
        ("orders.fifo", {"group_by": "a"}, "keep their groups; leave out --group-by"),
        ("orders.fifo", {"kind": "two words"}, "kind is 'two words'"),
    ):
        source(name)
        with pytest.raises(ConfigurationError, match=why):
            adopt(operations, name, **how)


def test_a_queue_that_may_not_be_asked_for_is_an_error_of_aws(operations, monkeypatch):
    """And no queue that does not exist."""

    def deny(*_call):
        raise botocore.exceptions.ClientError({"Error": {"Code": "AccessDenied"}}, "GetQueueUrl")

    operations._sqs  # noqa: B018 - made before its calls are denied
    monkeypatch.setattr(botocore.client.BaseClient, "_make_api_call", deny)

    with pytest.raises(AwsError, match="AccessDenied"):
        operations.source("orders")
