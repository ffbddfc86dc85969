"""Ringing: the bell's queue as moto plays it, and every sender that rings it."""

import json
import logging

import boto3
import pytest
from botocore.stub import Stubber

from lanes import LanesConfig, Message, Producer
from lanes.aws.bell import BellQueue, SenderBell, sender_bell
from lanes.aws.clients import Clients
from lanes.aws.dead_letters import DeadLetterQueueCalls
from lanes.aws.sending import SqsSender
from lanes.aws.stack import Operations
from lanes.config.deployment import Deployment, LaneQueues
from lanes.errors import AwsError
from lanes.operate.dead_letters import DeadLetteredMessage
from lanes.outbox.dynamodb.relay_function import relay_producer
from lanes.producer.outgoing import SendEntry

SLOTS = 12
FIFO = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
NOON = 1_800_014_400.0
DATE = "Fri, 15 Jan 2027 12:00:00 GMT"
LANES = {"url": "MAIN", "other": "HIGH"}
ENTRY = SendEntry(entry_id="0", body="{}", message_group_id="g", message_deduplication_id="d")


@pytest.fixture
def url(sqs):
    """Make the queue of a bell."""
    return sqs.create_queue(QueueName="bell.fifo", Attributes=FIFO)["QueueUrl"]


@pytest.fixture
def deployment(sqs, url):
    """Make a lane beside the bell."""
    config = LanesConfig.from_dict(
        {"consumer": {"engine": "pull", "reserved_concurrency": SLOTS}, "lanes": [{"name": "MAIN"}]}
    )
    main, dead = (
        sqs.create_queue(QueueName=name, Attributes=FIFO)["QueueUrl"] for name in ("MAIN.fifo", "dead.fifo")
    )
    queues = {"MAIN": LaneQueues(url=main, dead_letter_url=dead)}
    return Deployment(config=config, queues=queues, table="t", bell=url)


def rings(sqs, url):
    """Return the deduplication ids of all messages in the bell's queue; each is received once."""
    found = []
    while messages := sqs.receive_message(
        QueueUrl=url, MaxNumberOfMessages=10, MessageSystemAttributeNames=["All"]
    ).get("Messages"):
        found += [message["Attributes"]["MessageDeduplicationId"] for message in messages]
    return found


def test_a_ring_reaches_every_slot(sqs, url, deployment):
    """In as many calls as it takes, under an id of its second."""
    BellQueue(url, deployment.config, sqs, lambda: NOON + 0.7).ring(range(SLOTS))

    assert sorted(rings(sqs, url)) == sorted(f"slot-{slot}-1800014400" for slot in range(SLOTS))


def test_the_second_is_that_of_the_send(sqs, url, deployment):
    """The clock of this process may be wrong."""
    BellQueue(url, deployment.config, sqs, lambda: 0.0).ring_for("MAIN", at=NOON)

    assert rings(sqs, url) == ["slot-0-1800014400"]


def test_two_processes_ring_once_in_a_second(sqs, url, deployment):
    """SQS drops the second ring by its id, and a process does not even send it."""
    sent = []
    sqs.meta.events.register("before-send.sqs.SendMessageBatch", lambda **call: sent.append(call))
    one, other = (BellQueue(url, deployment.config, sqs) for _ in range(2))

    one.ring(range(2), at=NOON)
    one.ring(range(2), at=NOON + 0.9)
    other.ring(range(2), at=NOON + 0.5)

    assert len(sent) == 2
    assert len(rings(sqs, url)) == 2
    one.ring(range(2), at=NOON + 1)
    assert len(sent) == 3


def test_a_ring_that_fails_for_a_slot_is_an_error_and_is_rung_again(sqs, url, deployment):
    """A batch may fail in part while its HTTP status is 200."""
    bell = BellQueue(url, deployment.config, sqs)
    refused = {"Id": "1", "Code": "InternalError", "SenderFault": False}
    accepted = {"Id": "0", "MessageId": "m", "MD5OfMessageBody": "5"}
    with Stubber(sqs) as stubber:
        stubber.add_response("send_message_batch", {"Successful": [accepted], "Failed": [refused]})
        with pytest.raises(AwsError, match="SendMessageBatch: InternalError") as caught:
            bell.ring(range(2), at=NOON)
    assert caught.value.retryable

    bell.ring(range(2), at=NOON)

    assert len(rings(sqs, url)) == 2


def test_a_message_of_the_bell_returns_when_its_slot_says(sqs, url, deployment):
    """As the heartbeat does."""
    bell = BellQueue(url, deployment.config, sqs)
    bell.ring([0])
    assert bell.has_rings()
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    assert not bell.has_rings()

    bell.return_after(message["ReceiptHandle"], 0)

    assert len(rings(sqs, url)) == 1
    with pytest.raises(AwsError, match="ChangeMessageVisibility"):
        bell.return_after(message["ReceiptHandle"], 20)


class Recorded:
    """A bell that remembers when it was rung, and may be broken."""

    def __init__(self):
        self.rung = []
        self.broken = False

    def ring_for(self, lane, *, messages, at):
        """Ring, or fail."""
        self.rung.append((lane, messages, at))
        if self.broken:
            raise AwsError(operation="SendMessageBatch", code="AccessDenied", retryable=False)


def test_a_sender_rings_once_in_a_second_of_sqs():
    """That of the `Date` header; without one the bell's own clock decides."""
    bell = Recorded()
    sender = SenderBell(bell, LANES)

    for date in (DATE, DATE, "Fri, 15 Jan 2027 12:00:01 GMT", None, "yesterday"):
        sender.answered("url", date)

    assert bell.rung == [("MAIN", 1, at) for at in (NOON, NOON + 1, None, None)]


def test_a_sender_rings_again_in_a_second_for_more_messages_or_another_lane():
    """A call of ten starts more slots than the single message before it; a queue that is no lane's starts none."""
    bell = Recorded()
    sender = SenderBell(bell, LANES)

    for url, messages in (("url", 1), ("url", 10), ("url", 3), ("other", 1), ("foreign", 1)):
        sender.answered(url, DATE, messages=messages)

    assert bell.rung == [("MAIN", 1, NOON), ("MAIN", 10, NOON), ("HIGH", 1, NOON)]


def test_a_resumed_lane_rings_for_all_of_its_slots(sqs, url, deployment):
    """Any number of messages may wait in it."""
    sender_bell(deployment, sqs).resumed("MAIN")

    assert len(rings(sqs, url)) == SLOTS


def test_a_broken_bell_costs_a_warning_and_no_send(caplog):
    """One warning for all seconds, and one try for each."""
    bell = Recorded()
    bell.broken = True
    sender = SenderBell(bell, LANES)

    with caplog.at_level(logging.WARNING):
        for date in (DATE, DATE, "Fri, 15 Jan 2027 12:00:01 GMT"):
            sender.answered("url", date)

    assert len(bell.rung) == 2
    assert len(caplog.records) == 1
    assert "the bell could not be rung, so messages may start 20 s late" in caplog.text
    assert "AccessDenied" in caplog.text


class Answering:
    """A client whose batch calls are all answered alike."""

    def __init__(self, **answer):
        self._answer = {"ResponseMetadata": {"HTTPHeaders": {"date": DATE}}, **answer}

    def send_message_batch(self, **_):
        """Answer."""
        return self._answer


def test_a_batch_rings_if_sqs_has_accepted_an_entry_of_it():
    """A refused one starts nothing."""
    bell = Recorded()
    refused = [{"Id": "0", "Code": "InvalidMessageContents", "SenderFault": True}]

    SqsSender(Answering(Failed=refused), SenderBell(bell, LANES)).send_batch("url", [ENTRY])
    assert bell.rung == []
    accepted = [{"Id": "0", "MessageId": "m"}]
    SqsSender(Answering(Successful=accepted), SenderBell(bell, LANES)).send_batch("url", [ENTRY])
    assert bell.rung == [("MAIN", 1, NOON)]


def letter():
    """Return a dead letter of the lane."""
    return DeadLetteredMessage(
        lane="MAIN",
        message_id="m",
        receipt_handle="r",
        body="{}",
        group="g",
        sent_at=NOON,
        first_received_at=0.0,
        receive_count=1,
        attributes={},
        note={},
    )


SENDERS = {
    "a producer": lambda deployment: Producer.from_deployment(deployment).send("k", {}),
    "a producer of many": lambda deployment: Producer.from_deployment(deployment).send_many(
        [Message(kind="k", group=f"g{number}") for number in range(30)]
    ),
    "an outbox relay": lambda deployment: relay_producer(deployment, Clients()).send("k", {}),
    "an operator": lambda deployment: (
        Operations(deployment=deployment, clients=Clients(), stack_name="s")
        .producer(source="lanes send")
        .send("k", {})
    ),
    "a redrive": lambda deployment: DeadLetterQueueCalls(
        deployment=deployment, client=boto3.client("sqs")
    ).copy([letter()]),
}


@pytest.mark.parametrize("send", SENDERS.values(), ids=SENDERS)
def test_all_senders_ring(sqs, url, deployment, send):
    """For one slot a message, in each second in which they send."""
    send(deployment)

    found = {ring.rpartition("-")[0] for ring in rings(sqs, url)}
    assert found <= {f"slot-{slot}" for slot in range(SLOTS)}
    assert (len(found) >= 10) is (send is SENDERS["a producer of many"])
    assert found


@pytest.mark.parametrize("send", SENDERS.values(), ids=SENDERS)
def test_senders_do_without_the_bell(sqs, url, deployment, send, caplog):
    """A bell that is gone, or that they may not ring, fails none of their sends."""
    sqs.delete_queue(QueueUrl=url)

    send(deployment)

    received = sqs.receive_message(QueueUrl=deployment.queues["MAIN"].url)["Messages"]
    assert received[0]["Body"] == "{}" or json.loads(received[0]["Body"])["type"] == "k"
    assert [record.levelname for record in caplog.records if "bell" in record.message] == ["WARNING"]
