"""The events of a receive: order, size, and groups that failed."""

import json
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from lanes.mapping.event import MAX_EVENT_BYTES, payloads, sqs_record

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
