"""What any SQS FIFO queue does when a message was received too often."""


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
