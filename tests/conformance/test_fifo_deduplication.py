"""What any SQS FIFO queue does with repeated deduplication ids, and with messages received too often."""

from __future__ import annotations

from datetime import timedelta


def test_a_duplicate_answers_with_the_message_it_repeats(queue):
    """Message id and sequence number are those of the first send, and nothing is added."""
    first = queue.send("A1", deduplication_id="same")
    again = queue.send("other body", deduplication_id="same")

    assert first == again
    assert queue.counts() == (1, 0, 0)


def test_a_duplicate_is_dropped_also_after_the_delete(queue):
    """The five minutes do not end with the message."""
    queue.send("A1", deduplication_id="same")
    (delivery,) = queue.receive()
    queue.delete(delivery.handle)
    queue.clock.advance(299)
    queue.send("A2", deduplication_id="same")

    assert queue.counts() == (0, 0, 0)


def test_the_interval_counts_from_the_send_that_was_accepted(queue):
    """A duplicate does not extend it, and after five minutes the id is new."""
    queue.send("A1", deduplication_id="same")
    queue.clock.advance(200)
    queue.send("A2", deduplication_id="same")
    queue.clock.advance(100)
    queue.send("A3", deduplication_id="same")

    assert queue.counts() == (2, 0, 0)


def test_by_default_the_scope_is_the_whole_queue(queue):
    """The same id in two groups is a duplicate."""
    queue.send("A1", group="A", deduplication_id="same")
    queue.send("B1", group="B", deduplication_id="same")

    assert queue.counts() == (1, 0, 0)


def test_the_scope_can_be_the_message_group(queue):
    """The same id in two groups is two messages."""
    queue.configure(deduplicate_by_group=True)
    queue.send("A1", group="A", deduplication_id="same")
    queue.send("A2", group="A", deduplication_id="same")
    queue.send("B1", group="B", deduplication_id="same")

    assert queue.counts() == (2, 0, 0)


def test_an_id_of_before_a_switch_of_scope_is_a_duplicate_in_every_group(queue):
    """For its five minutes; later ids are the group's."""
    queue.send("A1", group="A", deduplication_id="before")
    queue.configure(deduplicate_by_group=True)
    queue.send("B1", group="B", deduplication_id="before")
    for group in "AB":
        queue.send("new", group=group, deduplication_id="after")
    assert queue.counts() == (3, 0, 0)

    queue.clock.advance(300)
    queue.send("B1", group="B", deduplication_id="before")

    assert queue.counts() == (4, 0, 0)


def test_a_purge_forgets_the_ids(queue):
    """What was purged can be sent again."""
    queue.send("A1", deduplication_id="same")
    queue.purge()
    queue.send("A1", deduplication_id="same")

    assert queue.counts() == (1, 0, 0)


def test_content_based_deduplication_goes_by_the_body(queue):
    """Equal bodies are duplicates unless they have ids of their own."""
    queue.configure(content_based_deduplication=True)
    first = queue.send("same")
    again = queue.send("same")
    queue.send("same", deduplication_id="own")
    queue.send("other")

    assert first == again
    assert queue.counts() == (3, 0, 0)


def test_sequence_numbers_rise(queue):
    """Twenty digits, larger with each accepted message of the queue."""
    numbers = [queue.send(f"A{index}", group=str(index % 3)).sequence_number for index in range(12)]

    assert sorted(set(numbers)) == numbers
    assert {20} == {len(str(number)) for number in numbers}
    assert numbers[0] == queue.receive(1)[0].sequence_number


def test_the_interval_holds_over_a_long_time_of_sending(queue):
    """Ids are remembered for five minutes at any point of the queue's life."""
    queue.configure(retention=timedelta(days=14))
    for index in range(40):
        queue.send("body", group=str(index), deduplication_id=f"id-at-{index}")
        queue.clock.advance(47)
        queue.send("body", group=str(index), deduplication_id=f"id-at-{max(index - 5, 0)}")

    assert queue.counts() == (40, 0, 0)


def receive_often(queue, times):
    """Receive the first message again and again, without deleting it."""
    for _ in range(times):
        queue.receive(1, visibility=1)
        queue.clock.advance(1)


def test_a_message_moves_on_the_receive_after_the_last_allowed_one(queue):
    """With a maximum of two, the third receive moves it and gives the next message of the group."""
    queue.configure(max_receive_count=2)
    queue.send("A1")
    queue.send("A2")
    receive_often(queue, 2)
    before = queue.counts()
    received = queue.receive(1)

    assert before == (2, 0, 0)
    assert [delivery.body for delivery in received] == ["A2"]
    assert [delivery.body for delivery in queue.receive_dead()] == ["A1"]


def test_a_moved_message_keeps_its_identity_and_its_sending_starts_anew(queue):
    """Id, group, sequence number and receive count stay; deduplication id and time of sending are those of the move."""
    queue.configure(max_receive_count=2)
    sent = queue.send("A1")
    receive_often(queue, 2)
    queue.clock.advance(100)
    queue.receive()
    (dead,) = queue.receive_dead()

    assert (sent.message_id, sent.sequence_number) == (dead.message_id, dead.sequence_number)
    assert (dead.group, dead.receive_count, dead.source) == ("A", 3, "queue.fifo")
    assert dead.deduplication_id == dead.message_id
    assert queue.clock() == dead.sent_at


def test_without_a_limit_a_message_is_received_for_ever(queue):
    """No redrive policy, no dead letters."""
    queue.send("A1")
    receive_often(queue, 30)

    assert queue.receive()[0].receive_count == 31


def test_several_messages_move_in_order(queue):
    """A whole group that was received too often arrives in its order."""
    queue.configure(max_receive_count=1)
    for body in ("A1", "A2", "A3"):
        queue.send(body)
    queue.receive(3, visibility=1)
    queue.clock.advance(1)
    received = queue.receive()

    assert received == []
    assert [delivery.body for delivery in queue.receive_dead()] == ["A1", "A2", "A3"]
    assert queue.counts() == (0, 0, 0)
