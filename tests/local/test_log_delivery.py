"""Lines of functions arrive in their log groups, in order and within bounds."""

import threading

import pytest

from local import log_delivery
from local.deployed import make_client
from local.log_delivery import LogDelivery


@pytest.fixture
def client(server):
    """A client for log groups."""
    return make_client("logs", server.endpoint_url)


@pytest.fixture
def group(client, request):
    """A log group of the test's own."""
    name = f"/lanes/{request.node.name}"
    client.create_log_group(logGroupName=name)
    return name


@pytest.fixture
def delivery(server, group):
    """A delivery that runs."""
    running = LogDelivery(group_of=lambda _function: group)
    running.start(server.endpoint_url)
    yield running
    running.stop()


def lines_in(client, group):
    pages = client.get_paginator("filter_log_events").paginate(logGroupName=group)
    return [event["message"] for page in pages for event in page["events"]]


def wait_for(client, group, line):
    """Wait until a line has arrived; the test's own time limit ends it otherwise."""
    pause = threading.Event()
    while line not in (found := lines_in(client, group)):
        pause.wait(0.05)
    return found


def test_lines_arrive_in_their_order(client, group, delivery):
    """Each once, an empty one as a blank: CloudWatch takes no empty event."""
    for line in ("first", "", "last"):
        delivery.take("worker", line)

    assert wait_for(client, group, "last") == ["first", " ", "last"]


def test_old_streams_go_as_a_whole(client, group, delivery, monkeypatch):
    """What a log group keeps is bounded, also where a function prints for days."""
    monkeypatch.setattr(log_delivery, "_STREAM_LINES", 2)
    monkeypatch.setattr(log_delivery, "_STREAMS", 2)
    for number in range(5):
        delivery.take("worker", f"line {number}")
        wait_for(client, group, f"line {number}")

    assert lines_in(client, group) == ["line 2", "line 3", "line 4"]


def test_a_group_that_nobody_made_is_made(client, server):
    """As Lambda does for the default group of a function."""
    running = LogDelivery(group_of=lambda name: f"/aws/lambda/{name}")
    running.start(server.endpoint_url)
    client.create_log_group(logGroupName="/aws/lambda/newcomer-elsewhere")

    running.take("newcomer", "hello")
    while not client.describe_log_groups(logGroupNamePrefix="/aws/lambda/newcomer")["logGroups"][1:]:
        threading.Event().wait(0.05)

    assert wait_for(client, "/aws/lambda/newcomer", "hello") == ["hello"]
    running.stop()


def test_a_group_that_was_deleted_is_made_again(client, group, delivery, caplog):
    """The lines on their way are lost, with a warning; later ones arrive."""
    delivery.take("worker", "before")
    wait_for(client, group, "before")
    client.delete_log_group(logGroupName=group)

    delivery.take("worker", "lost")
    while not caplog.records:
        threading.Event().wait(0.02)
    delivery.take("worker", "after")
    while not client.describe_log_groups(logGroupNamePrefix=group)["logGroups"]:
        threading.Event().wait(0.02)

    assert wait_for(client, group, "after") == ["after"]


def test_what_waits_is_bounded():
    """A delivery that never starts keeps the latest lines only."""
    idle = LogDelivery(group_of=lambda _function: "group")

    for number in range(log_delivery._MOST_WAITING + 3):
        idle.take("worker", str(number))

    assert len(idle._waiting) == log_delivery._MOST_WAITING
    assert idle._waiting[0][2] == "3"


def test_times_never_run_backwards():
    """CloudWatch refuses a call whose events are not in the order of their times; clocks are set back."""
    moments = iter([10.0, 9.0, 11.0])
    idle = LogDelivery(group_of=lambda _function: "group", clock=lambda: next(moments))

    for line in "abc":
        idle.take("worker", line)

    assert [at for _, at, _ in idle._waiting] == [10_000, 10_000, 11_000]


def test_a_call_stays_within_what_cloudwatch_takes(monkeypatch):
    """By number and by size, with the 26 bytes that each event counts more."""
    monkeypatch.setattr(log_delivery, "_MOST_IN_CALL", 3)
    monkeypatch.setattr(log_delivery, "_MOST_BYTES", 100)
    events = [{"message": text} for text in ("a", "b", "c", "d", "x" * 60, "y" * 60)]

    sizes = [len(batch) for batch in log_delivery._batches(events)]

    assert sizes == [3, 1, 1, 1]
