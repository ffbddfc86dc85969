"""What any SQS FIFO queue does with groups, order and visibility."""

from datetime import timedelta

import pytest

from tests.conformance.subjects import RefusedError


def bodies(deliveries):
    """Return what was received, in order."""
    return [delivery.body for delivery in deliveries]


def test_messages_of_a_group_come_in_the_order_they_were_sent(queue):
    """A receive keeps the order of the group."""
    for body in ("A1", "A2", "A3"):
        queue.send(body)

    assert bodies(queue.receive()) == ["A1", "A2", "A3"]


def test_a_receive_takes_as_many_as_possible_of_one_group_first(queue):
    """Groups are not mixed message by message."""
    for body in ("A1", "B1", "A2", "B2", "C1"):
        queue.send(body, group=body[0])

    assert bodies(queue.receive()) == ["A1", "A2", "B1", "B2", "C1"]


def test_a_message_in_flight_blocks_those_behind_it_and_no_other_group(queue):
    """A group with its first message in flight gives nothing."""
    for body in ("A1", "A2", "B1"):
        queue.send(body, group=body[0])
    queue.receive(1)

    assert bodies(queue.receive()) == ["B1"]


def test_a_group_stays_blocked_until_its_last_message_in_flight_is_deleted(queue):
    """Deleting part of what was received does not free the group."""
    for body in ("A1", "A2", "A3"):
        queue.send(body)
    first, second = queue.receive(2)
    queue.delete(first.handle)
    blocked = queue.receive()
    queue.delete(second.handle)

    assert blocked == []
    assert bodies(queue.receive()) == ["A3"]


def test_messages_with_a_visibility_that_ended_come_up_to_one_that_is_extended(queue):
    """The rest of the batch waits behind the extended message."""
    for body in ("A1", "A2", "A3"):
        queue.send(body)
    _, second, _ = queue.receive(3, visibility=10)
    queue.change_visibility(second.handle, 20)
    queue.clock.advance(10)

    assert bodies(queue.receive(visibility=5)) == ["A1"]
    queue.clock.advance(10)
    assert bodies(queue.receive()) == ["A1", "A2", "A3"]


def returned_groups(queue):
    """Send to three groups, let messages of the first two return, and give all bodies of the next receive."""
    for body in ("A1", "A2", "B1", "C1"):
        queue.send(body, group=body[0])
    queue.receive(1, visibility=1)
    queue.receive(1, visibility=1)
    queue.clock.advance(1)
    return bodies(queue.receive())


def test_a_returned_message_is_behind_all_groups_that_waited(queue_of_order):
    """In the order `back`; in the order `oldest` it has its old place."""
    order, queue = queue_of_order

    expected = {"oldest": ["A1", "A2", "B1", "C1"], "back": ["C1", "A1", "A2", "B1"]}
    assert returned_groups(queue) == expected[order]


def test_a_group_keeps_its_place_when_its_received_messages_are_deleted(queue_of_order):
    """Its next message has not been received, so that it is behind older ones only."""
    _, queue = queue_of_order
    for body in ("A1", "B1", "A2", "B2", "A3", "C1"):
        queue.send(body, group=body[0])
    for delivery in queue.receive(2):
        queue.delete(delivery.handle)

    assert bodies(queue.receive()) == ["B1", "B2", "A3", "C1"]


def test_the_group_with_the_oldest_message_is_served_first(queue):
    """A group that was sent later waits behind an older backlog, unless that is in flight."""
    for number in range(3):
        queue.send(f"A{number}", group="A")
    queue.send("B0", group="B")
    (first,) = queue.receive(1)

    while_blocked = [delivery.group for delivery in queue.receive(1)]
    queue.delete(first.handle)
    afterwards = [delivery.group for delivery in queue.receive(1)]

    assert first.group == "A"
    assert while_blocked == ["B"]
    assert afterwards == ["A"]


def test_several_messages_return_in_order_when_their_visibility_ends(queue):
    """Three messages of a group received together come back together, first one first."""
    for body in ("A1", "A2", "A3", "A4"):
        queue.send(body)
    queue.receive(3, visibility=30)
    queue.clock.advance(29.9)
    early = queue.receive()
    queue.clock.advance(0.1)

    assert early == []
    assert bodies(queue.receive()) == ["A1", "A2", "A3", "A4"]


@pytest.mark.parametrize("order", [(2, 1, 0), (1, 2, 0)])
def test_messages_given_back_wait_for_those_in_front_of_them(queue, order):
    """Setting visibility to zero one by one never lets a later message pass an earlier one."""
    for body in ("A1", "A2", "A3", "A4"):
        queue.send(body)
    received = queue.receive(3)
    between = []
    for index in order:
        between += queue.receive()
        queue.change_visibility(received[index].handle, 0)

    assert between == []
    assert bodies(queue.receive()) == ["A1", "A2", "A3", "A4"]


def test_a_message_given_back_comes_while_later_ones_are_in_flight(queue):
    """A message in flight blocks only the messages behind it."""
    for body in ("A1", "A2", "A3", "A4", "A5"):
        queue.send(body)
    first, second, third, _ = queue.receive(4)
    queue.change_visibility(second.handle, 0)
    behind_the_first = queue.receive()
    queue.change_visibility(first.handle, 0)
    front = queue.receive()
    queue.change_visibility(third.handle, 0)

    assert behind_the_first == []
    assert bodies(front) == ["A1", "A2"]
    assert queue.receive() == []


def test_a_changed_visibility_counts_from_the_call(queue):
    """The new timeout replaces what was left of the old one."""
    queue.send("A1")
    (delivery,) = queue.receive(visibility=30)
    queue.clock.advance(20)
    queue.change_visibility(delivery.handle, 20)
    queue.clock.advance(19)
    hidden = queue.receive()
    queue.clock.advance(1)

    assert hidden == []
    assert bodies(queue.receive()) == ["A1"]


def test_a_changed_visibility_holds_for_one_receive_only(queue):
    """The next receive goes by the queue's own timeout again."""
    queue.configure(visibility_timeout=timedelta(seconds=30))
    queue.send("A1")
    (delivery,) = queue.receive()
    queue.change_visibility(delivery.handle, 1)
    queue.clock.advance(1)
    queue.receive()
    queue.clock.advance(29)

    assert queue.counts() == (0, 1, 0)


def test_visibility_may_not_reach_beyond_twelve_hours_from_the_receive(queue):
    """An extension that goes too far is refused and changes nothing."""
    queue.send("A1")
    (delivery,) = queue.receive()
    queue.change_visibility(delivery.handle, 43_200)
    queue.clock.advance(3600)

    with pytest.raises(RefusedError) as refused:
        queue.change_visibility(delivery.handle, 43_200)

    assert refused.value.code == "InvalidParameterValue"
    queue.change_visibility(delivery.handle, 39_600)


def test_visibility_of_a_message_not_in_flight_cannot_be_changed(queue):
    """Once the timeout has ended there is nothing to extend."""
    queue.send("A1")
    (delivery,) = queue.receive(visibility=1)
    queue.clock.advance(1)

    with pytest.raises(RefusedError) as refused:
        queue.change_visibility(delivery.handle, 30)

    assert refused.value.code == "MessageNotInflight"


def test_visibility_of_a_deleted_message_cannot_be_changed(queue):
    """The handle belongs to nothing any more."""
    queue.send("A1")
    (delivery,) = queue.receive()
    queue.delete(delivery.handle)

    with pytest.raises(RefusedError) as refused:
        queue.change_visibility(delivery.handle, 30)

    assert refused.value.code == "InvalidParameterValue"


def test_a_repeated_attempt_gets_the_same_messages_and_hides_them_anew(queue):
    """A caller that lost the answer loses no time; another attempt gets other messages."""
    for group in "AAB":
        queue.send("body", group=group)
    first = queue.receive(2, visibility=30, attempt="one")
    queue.clock.advance(20)
    again = queue.receive(2, visibility=30, attempt="one")
    other = queue.receive(2, visibility=300, attempt="two")

    assert again == first
    assert [one.group for one in other] == ["B"]
    queue.clock.advance(20)
    assert queue.receive() == []
    assert queue.receive(2, visibility=30, attempt="one") == first
    queue.clock.advance(30)
    assert [one.receive_count for one in queue.receive(visibility=30)] == [2, 2]


@pytest.mark.parametrize("change", ["delete", "change_visibility", "expire"])
def test_an_attempt_that_has_been_worked_on_is_refused(queue, change):
    """It can't be repeated, and its id is not free for another receive."""
    for group in "ABC":
        queue.send("body", group=group)
    first = queue.receive(2, visibility=30, attempt="one")
    if change == "delete":
        queue.delete(first[0].handle)
    elif change == "change_visibility":
        queue.change_visibility(first[0].handle, 60)
    else:
        queue.clock.advance(30)

    with pytest.raises(RefusedError) as refused:
        queue.receive(10, visibility=30, attempt="one")

    assert refused.value.code == "InvalidParameterValue"
    assert "C" in [one.group for one in queue.receive(visibility=30, attempt="two")]


def test_an_attempt_is_forgotten_after_five_minutes(queue):
    """Later the id is new."""
    queue.send("A1")
    queue.send("B1", group="B")
    queue.receive(1, visibility=600, attempt="one")
    queue.clock.advance(300)

    assert [one.body for one in queue.receive(visibility=600, attempt="one")] == ["B1"]


def test_a_receive_with_visibility_zero_leaves_the_group_open(queue):
    """The messages are handed out, counted and stay visible."""
    queue.send("A1")
    queue.send("A2")
    first = queue.receive(visibility=0)

    assert bodies(first) == ["A1", "A2"]
    assert [delivery.receive_count for delivery in queue.receive()] == [2, 2]


def test_each_receive_counts_and_the_first_one_is_remembered(queue):
    """Receive count rises, first receive time stays."""
    queue.send("A1")
    queue.clock.advance(5)
    (first,) = queue.receive(visibility=10)
    queue.clock.advance(10)
    (second,) = queue.receive()

    assert (first.receive_count, second.receive_count) == (1, 2)
    assert first.first_received_at == second.first_received_at == first.sent_at + 5


def test_each_receive_gives_a_new_handle_and_the_old_one_is_refused(queue):
    """Only the handle of the latest receive deletes."""
    queue.send("A1")
    (first,) = queue.receive(visibility=1)
    queue.clock.advance(1)
    (second,) = queue.receive()

    assert first.handle != second.handle
    with pytest.raises(RefusedError) as refused:
        queue.delete(first.handle)
    assert refused.value.code == "InvalidParameterValue"
    queue.delete(second.handle)
    assert queue.counts() == (0, 0, 0)


def test_a_delete_after_the_visibility_ended_is_refused(queue):
    """The message may be received again, so the late delete must not look successful."""
    queue.send("A1")
    (delivery,) = queue.receive(visibility=1)
    queue.clock.advance(1)

    with pytest.raises(RefusedError):
        queue.delete(delivery.handle)

    assert bodies(queue.receive()) == ["A1"]


def test_deleting_twice_succeeds(queue):
    """A repeated delete of a message that is gone is no error."""
    queue.send("A1")
    (delivery,) = queue.receive()
    queue.delete(delivery.handle)
    queue.delete(delivery.handle)

    assert queue.counts() == (0, 0, 0)


@pytest.mark.parametrize("handle", ["nonsense", "", "1.1"])
def test_a_handle_that_was_never_given_out_is_refused(queue, handle):
    """Deleting with it is an error of its own kind."""
    queue.send("A1")
    queue.receive()

    with pytest.raises(RefusedError) as refused:
        queue.delete(handle)

    assert refused.value.code == "ReceiptHandleIsInvalid"


def test_counts_tell_visible_in_flight_and_delayed_apart(queue):
    """Messages behind a blocked group count as visible."""
    for body in ("A1", "A2", "B1"):
        queue.send(body, group=body[0])
    queue.receive(1)
    queue.configure(delay=timedelta(seconds=10))
    queue.send("C1", group="C")

    assert queue.counts() == (2, 1, 1)


def test_the_queue_delay_holds_messages_back(queue):
    """A delayed message becomes visible when the delay has passed."""
    queue.configure(delay=timedelta(seconds=10))
    queue.send("A1")
    early = queue.receive()
    queue.clock.advance(10)

    assert early == []
    assert bodies(queue.receive()) == ["A1"]


def test_messages_older_than_the_retention_vanish(queue):
    """Retention drops waiting messages, oldest first."""
    queue.configure(retention=timedelta(seconds=60))
    queue.send("A1")
    queue.clock.advance(30)
    queue.send("A2")
    queue.clock.advance(30)

    assert queue.counts() == (1, 0, 0)
    assert bodies(queue.receive()) == ["A2"]


def test_a_message_that_expires_in_flight_frees_its_group(queue):
    """Retention also ends a message in flight."""
    queue.configure(retention=timedelta(seconds=60))
    queue.send("A1")
    queue.clock.advance(30)
    queue.receive(visibility=600)
    queue.send("A2")
    queue.clock.advance(30)

    assert bodies(queue.receive()) == ["A2"]


def test_a_purge_empties_the_queue_and_opens_its_groups(queue):
    """What was in flight is gone as well."""
    queue.send("A1")
    queue.send("A2")
    (delivery,) = queue.receive(1)
    queue.purge()
    queue.send("A3")

    assert bodies(queue.receive()) == ["A3"]
    queue.delete(delivery.handle)
    assert queue.counts() == (0, 1, 0)
