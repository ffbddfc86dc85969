"""Long polls of corrected moto: they sleep, and wake when there is something for them."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from moto.sqs.models import sqs_backends

from local.corrections.sqs_queue import LOCK, LocalQueue, look_again, set_clock

WAIT_SECONDS = 20
PATIENCE_SECONDS = 10


class Probe(threading.Condition):
    """A condition that tells when somebody starts to wait, and how often that was."""

    def __init__(self):
        super().__init__(LOCK)
        self.waits = 0
        self.entered = threading.Event()

    def wait(self, timeout=None):
        """Wait as a condition does; the lock is held until the waiter is listed."""
        self.waits += 1
        self.entered.set()
        return super().wait(timeout)


@pytest.fixture
def probe(corrected):
    """The probe in place of the queue's own condition; polls wait in real time."""
    set_clock(corrected.clock, polls_wait=True)
    probe = Probe()
    backend = sqs_backends["123456789012"]["eu-central-1"]
    LocalQueue.of(backend.queues["queue.fifo"])._changed = probe
    return probe


def poll_until(corrected, probe, wake):
    """Start a long poll, wake it once it waits, and return the bodies it got."""
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(
            corrected.client.receive_message, QueueUrl=corrected.url, WaitTimeSeconds=WAIT_SECONDS
        )
        assert probe.entered.wait(PATIENCE_SECONDS)
        wake()
        return [message["Body"] for message in poll.result(PATIENCE_SECONDS).get("Messages", [])]


def test_a_send_wakes_a_waiting_receive(corrected, probe):
    """The message is answered at once."""
    assert poll_until(corrected, probe, lambda: corrected.send("A1")) == ["A1"]
    assert probe.waits == 1


def test_a_delete_that_frees_the_group_wakes_a_waiting_receive(corrected, probe):
    """The next message of the group is answered, and the poll slept until then."""
    corrected.send("A1")
    corrected.send("A2")
    (delivery,) = corrected.receive(1)

    assert poll_until(corrected, probe, lambda: corrected.delete(delivery.handle)) == ["A2"]
    assert probe.waits == 1


def test_giving_a_message_back_wakes_a_waiting_receive(corrected, probe):
    """A visibility of zero is seen at once."""
    corrected.send("A1")
    (delivery,) = corrected.receive()

    assert poll_until(corrected, probe, lambda: corrected.change_visibility(delivery.handle, 0)) == ["A1"]


def test_the_end_of_a_visibility_timeout_wakes_a_waiting_receive(corrected, probe):
    """Under a test clock, when the clock moves."""
    corrected.send("A1")
    corrected.receive(visibility=600)

    def pass_time():
        corrected.clock.advance(600)
        look_again()

    assert poll_until(corrected, probe, pass_time) == ["A1"]


def test_a_waiting_receive_looks_again_by_itself_when_a_visibility_ends(corrected, probe):
    """In real time nobody has to wake it."""
    set_clock(None)
    corrected.send("A1")
    corrected.receive(visibility=2)
    answer = corrected.client.receive_message(QueueUrl=corrected.url, WaitTimeSeconds=WAIT_SECONDS)

    assert [message["Body"] for message in answer["Messages"]] == ["A1"]
    assert 1 <= probe.waits <= 3


def test_a_dead_letter_wakes_a_receive_of_its_queue(corrected, probe):
    """Redrive counts as an arrival."""
    corrected.configure(max_receive_count=1)
    corrected.send("A1")
    corrected.receive(visibility=0)
    backend = sqs_backends["123456789012"]["eu-central-1"]
    LocalQueue.of(backend.queues["dead.fifo"])._changed = dead_probe = Probe()
    with ThreadPoolExecutor(1) as pool:
        poll = pool.submit(
            corrected.client.receive_message, QueueUrl=corrected.dead_url, WaitTimeSeconds=WAIT_SECONDS
        )
        assert dead_probe.entered.wait(PATIENCE_SECONDS)
        corrected.receive()
        answer = poll.result(PATIENCE_SECONDS)

    assert [message["Body"] for message in answer["Messages"]] == ["A1"]


def test_under_a_test_clock_an_empty_long_poll_answers_at_once(corrected):
    """Nobody moves the clock while the only thread waits."""
    answer = corrected.client.receive_message(QueueUrl=corrected.url, WaitTimeSeconds=WAIT_SECONDS)

    assert "Messages" not in answer
