"""A task sends its rows in order, in chunks, and names the row that can't be sent."""

from collections import Counter

import pytest

from lanes.errors import MessageError, RefusedMessagesError
from lanes.outgoing import SentMessage
from spark_jobs.pace import SendPace
from spark_jobs.rows import RowReader, RowRefusedError
from spark_jobs.sending import MOST_AT_ONCE, SendingTask


class Lanes:
    """Takes messages as a producer does: all of a call, or none where one breaks a rule."""

    def __init__(self):
        self.calls = []

    def send_many(self, messages):
        """Take all or none."""
        messages = list(messages)
        refusals = []
        for index, message in enumerate(messages):
            try:
                message.to_body()
            except MessageError as error:
                refusals.append((index, message, error))
        if refusals:
            raise RefusedMessagesError(refusals)
        self.calls.append(messages)
        return [
            SentMessage(id=message.id, lane=f"P{message.priority}", message_id="m", sequence_number="1")
            for message in messages
        ]


def task(lanes, *, rate=None, wait=None):
    """Make the task of partition 3."""
    return SendingTask(
        partition=3,
        reader=RowReader(kind="a.kind", priority=-100),
        producer=lanes,
        pace=SendPace(rate=rate, clock=lambda: 0.0, wait=wait or (lambda _: None)),
    )


def test_rows_are_sent_in_order_and_counted_by_lane():
    """Chunks hold a bounded number of messages, whatever the length of the partition."""
    lanes = Lanes()
    rows = ({"data": str(number), "priority": number % 2} for number in range(MOST_AT_ONCE + 50))

    counts = task(lanes).send(rows)

    assert [message.data for call in lanes.calls for message in call] == list(range(MOST_AT_ONCE + 50))
    assert [len(call) for call in lanes.calls] == [MOST_AT_ONCE, 50]
    assert counts == Counter({"P0": 125, "P1": 125})


def test_an_empty_partition_sends_nothing():
    """No rows, no call."""
    lanes = Lanes()

    assert task(lanes).send([]) == Counter()
    assert lanes.calls == []


def test_the_rate_is_kept_after_each_chunk():
    """The pause after a chunk is what its messages cost, the last chunk's too."""
    waits = []

    task(Lanes(), rate=4, wait=waits.append).send({"data": str(number)} for number in range(3))

    assert waits == [0.5, 0.75]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"data": "1", "group": "not a group"}, "group is 'not a group'"),
        ({"data": "{", "group": "g"}, "its data is no JSON document"),
        ({"data": {"text": "x" * 2**20}, "group": "g"}, "SQS takes 1,048,576"),
    ],
)
def test_a_row_that_cannot_be_sent_is_named(row, reason):
    """The error says which row it is and why, whoever found out."""
    rows = [{"data": str(number)} for number in range(MOST_AT_ONCE + 1)]

    with pytest.raises(RowRefusedError, match=reason) as caught:
        task(Lanes()).send([*rows, row])

    assert (caught.value.partition, caught.value.position) == (3, MOST_AT_ONCE + 2)
    assert f"row {MOST_AT_ONCE + 2} of partition 3 (group {row['group']!r}) can't be sent" in str(
        caught.value
    )
