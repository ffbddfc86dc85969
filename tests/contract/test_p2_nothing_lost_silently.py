"""
P2: nothing is lost silently.

What could not be sent is raised with the messages in the error. A message over 1 MiB, a group or id over 128
characters, or one that is not JSON is refused before any call.
"""

import subprocess
import sys
import threading
from datetime import timedelta

import pytest

from lanes.errors import (
    AwsError,
    InvalidMessageError,
    MessageTooLargeError,
)
from lanes.message import LARGEST_BODY_BYTES, Message
from lanes.priority import Priority, processing_priority
from lanes.producer import Pacing, PartialSendError, Producer, RefusedMessagesError
from lanes.retries import RetryPolicy
from lanes.testing.clock import FakeClock
from tests.support.sending import (
    ACCEPT,
    REFUSE,
    THROTTLE,
    FakeSqs,
    make_deployment,
    make_producer,
    messages,
    queue_url,
)


def test_what_is_no_message_is_refused_before_any_call():
    """A dict with the same keys is the usual slip."""
    sqs = FakeSqs()

    with pytest.raises(TypeError, match=r"accepts Message\(kind=\.\.\., data=\.\.\.\), not dict"):
        make_producer(sqs).send_many([Message(kind="k"), {"kind": "k"}])

    assert not sqs.queues


def test_one_wrong_message_is_refused_as_what_it_is():
    """`send` raises the error of its one message, before any call."""
    sqs = FakeSqs()
    producer = make_producer(sqs)

    with pytest.raises(InvalidMessageError, match="not JSON"):
        producer.send("k", {1, 2})
    with pytest.raises(InvalidMessageError, match="group"):
        producer.send("k", {}, group="g" * 129)
    with pytest.raises(InvalidMessageError, match="id is"):
        producer.send("k", {}, id="")
    with pytest.raises(InvalidMessageError, match="must be an int"):
        producer.send("k", {}, priority=True)
    with pytest.raises(MessageTooLargeError):
        producer.send("k", "x" * LARGEST_BODY_BYTES)
    assert sqs.calls == []


def test_all_wrong_messages_are_refused_together_and_nothing_is_sent():
    """A list is sent as a whole or mended first."""
    sqs = FakeSqs()
    wrong = [Message(kind="k"), Message(kind=""), Message(kind="k", data={1}), Message(kind="k", group="")]

    with pytest.raises(RefusedMessagesError) as caught:
        make_producer(sqs).send_many(wrong)

    assert [(place, message) for place, message, _ in caught.value.refusals] == list(enumerate(wrong))[1:]
    assert "message 2 ('k')" in str(caught.value)
    assert sqs.calls == []


def test_what_was_not_sent_is_raised_with_its_reason():
    """And with what was sent, each in the caller's order."""
    sqs = FakeSqs(lambda identity: REFUSE if identity == "0002" else ACCEPT)

    with pytest.raises(PartialSendError) as caught:
        make_producer(sqs).send_many(messages("ababab"))

    assert [record.id for record in caught.value.sent] == ["0000", "0001", "0003", "0005"]
    assert [unsent.message.id for unsent in caught.value.failed] == ["0002", "0004"]
    assert "not for us" in caught.value.failed[0].reason
    assert "0002" in caught.value.failed[1].reason


def test_unsent_messages_can_be_sent_again_as_they_are():
    """With the priority they had, also outside of the block."""
    full = FakeSqs(lambda _: REFUSE)
    with processing_priority(Priority.BULK), pytest.raises(PartialSendError) as caught:
        make_producer(full).send_many(messages("ab"))

    again = make_producer(FakeSqs()).send_many([unsent.message for unsent in caught.value.failed])

    assert {record.lane for record in again} == {"MAIN"}


def test_a_lane_that_refuses_us_is_asked_once_and_others_go_on():
    """No right to send to one lane: one call tells it, and the other lanes get theirs."""

    class OneClosed(FakeSqs):
        def send_batch(self, queue_url, entries):
            if "MAIN" in queue_url:
                self.calls.append((queue_url, []))
                raise AwsError(operation="SendMessageBatch", code="AccessDenied", retryable=False)
            return super().send_batch(queue_url, entries)

    sqs = OneClosed()
    bulk = [Message(kind="k", priority=-100) for _ in range(100)]
    with pytest.raises(PartialSendError) as caught:
        make_producer(sqs).send_many([*bulk, Message(kind="k", id="urgent", priority=100)], concurrency=1)

    assert [record.id for record in caught.value.sent] == ["urgent"]
    assert len(caught.value.failed) == 100
    assert len(sqs.calls) == 2
    assert isinstance(caught.value.__cause__, AwsError)


def test_a_thread_that_dies_loses_nothing_silently():
    """Whatever ended it, its messages are in the error and marked as perhaps sent."""

    class Dying(FakeSqs):
        def send_batch(self, queue_url, entries):
            raise MemoryError

    with pytest.raises(PartialSendError) as caught:
        make_producer(Dying()).send_many(messages(map(str, range(30))), concurrency=2)

    assert len(caught.value.failed) == 30
    assert caught.value.failed[0].maybe_sent
    assert isinstance(caught.value.__cause__, MemoryError)


@pytest.mark.parametrize("concurrency", [1, 3])
@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_carries_the_account(interrupt, concurrency):
    """Ctrl-C stops the sending, stays Ctrl-C, and says what was sent."""

    class Interrupted(FakeSqs):
        def send_batch(self, queue_url, entries):
            if any(entry.message_deduplication_id == "lanes#k#0025" for entry in entries):
                raise interrupt
            return super().send_batch(queue_url, entries)

    sqs = Interrupted()
    given_messages = messages(map(str, range(100)))
    with pytest.raises(interrupt) as caught:
        make_producer(sqs).send_many(given_messages, concurrency=concurrency)

    account = caught.value.__cause__
    assert isinstance(account, PartialSendError)
    in_queue = {record.id for record in account.sent}
    assert in_queue == set(sqs.ids(queue_url("MEDIUM")))
    assert sorted([*in_queue, *(unsent.message.id for unsent in account.failed)]) == [
        message.id for message in given_messages
    ]
    assert [unsent.message.id for unsent in account.failed if unsent.maybe_sent] == [
        f"{place:04}" for place in range(20, 30)
    ]


def test_messages_kept_back_by_a_throttle_are_sent_although_its_message_was_given_up():
    """No retry is due then, and no call in flight: the end of the pause is all there is to wait for."""
    busy, clock = iter([THROTTLE]), FakeClock()
    sqs = FakeSqs(lambda _: next(busy, ACCEPT))
    pacing = Pacing(
        retries=RetryPolicy(give_up_after=timedelta(0)), clock=clock, pause=clock.advance, max_concurrency=1
    )
    large = "x" * (LARGEST_BODY_BYTES // 2)
    given = [Message(kind="k", id=group, data=large, group=group) for group in "abc"]

    with pytest.raises(PartialSendError) as caught:
        Producer(deployment=make_deployment(), sqs=sqs, pacing=pacing).send_many(given)

    assert [unsent.message.id for unsent in caught.value.failed] == ["a"]
    assert sqs.ids(queue_url("MEDIUM")) == ["b", "c"]


def test_an_interrupt_of_the_waiting_caller_waits_for_the_calls_on_their_way():
    """Ctrl-C hits the thread that waits; what the others send meanwhile counts as sent."""
    release = threading.Event()

    class Slow(FakeSqs):
        def send_batch(self, queue_url, entries):
            if entries[0].message_deduplication_id == "lanes#k#0000":
                release.wait(timeout=60)
                return super().send_batch(queue_url, entries)
            raise AwsError(operation="SendMessageBatch", code="Throttled", retryable=True)

    clock = FakeClock()
    moments = iter(range(6))

    def interrupted_clock():
        if next(moments, None) is None and not release.is_set():
            release.set()
            raise KeyboardInterrupt
        return clock()

    sqs = Slow()
    producer = Producer(
        deployment=make_deployment(), sqs=sqs, pacing=Pacing(clock=interrupted_clock, pause=clock.advance)
    )
    with pytest.raises(KeyboardInterrupt) as caught:
        producer.send_many(messages(map(str, range(20))), concurrency=2)

    account = caught.value.__cause__
    assert [record.id for record in account.sent] == [f"{place:04}" for place in range(10)]
    assert [unsent.message.id for unsent in account.failed] == [f"{place:04}" for place in range(10, 20)]


def test_an_interrupt_in_mid_accounting_reports_what_it_left_as_perhaps_sent():
    """It may strike between an answer and its record; then nothing is claimed and nothing forgotten."""

    def interrupted():
        raise KeyboardInterrupt

    sqs = FakeSqs()
    with pytest.raises(KeyboardInterrupt) as caught:
        make_producer(sqs, jitter=interrupted).send_many(messages("abab"), concurrency=1)

    failed = caught.value.__cause__.failed
    assert [unsent.message.id for unsent in failed] == ["0000", "0001", "0002", "0003"]
    assert [unsent.maybe_sent for unsent in failed] == [True, True, False, False]


def test_messages_can_be_sent_while_the_interpreter_exits():
    """Python starts no thread any more then, so the calls are made in the calling one."""
    code = """
import atexit
from lanes import Message
from tests.support.sending import FakeSqs, make_producer

def flush():
    sqs = FakeSqs()
    sent = make_producer(sqs).send_many([Message(kind="k") for _ in range(35)], concurrency=4)
    print(len(sent), len(sqs.calls))

atexit.register(flush)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert (done.stdout, done.stderr) == ("35 4\n", "")
