"""Assertions return what they found, and say what there was where they found nothing."""

import pytest

from lanes import Consumer, DeadLetter, LanesConfig
from lanes.testing import InMemoryLanes


@pytest.fixture
def lanes():
    """Lanes whose kinds do what they are called."""
    consumer = Consumer()
    consumer.handler("works")(lambda _message: None)

    @consumer.handler("fails")
    def _fails(message):
        raise ValueError(f"order {message.data['order']} fails")

    @consumer.handler("gives_up")
    def _gives_up(_message):
        raise DeadLetter("no such customer")

    return InMemoryLanes(consumer, config=LanesConfig.from_dict({"consumer": {"max_attempts": 2}}))


def message_of(error):
    """Give the lines of an assertion's message."""
    return str(error.value).splitlines()


def test_what_was_sent_is_found_by_any_of_its_properties(lanes):
    """Each criterion alone suffices."""
    sent = lanes.producer.send("works", {"order": 7, "to": "Bonn"}, group="c-1", priority=60, id="seven")
    lanes.producer.send("works", {"order": 8}, priority=0)

    found = [
        lanes.assert_sent(lane="HIGH"),
        lanes.assert_sent(group="c-1"),
        lanes.assert_sent(priority=60),
        lanes.assert_sent(id="seven"),
        lanes.assert_sent(order=7),
        lanes.assert_sent("works", data={"order": 7, "to": "Bonn"}),
    ]

    assert {message.id for message in found} == {sent.id}


def test_the_first_that_matches_is_returned(lanes):
    """In the order of sending."""
    lanes.producer.send("works", {"order": 7, "n": 1})
    lanes.producer.send("works", {"order": 7, "n": 2})

    assert lanes.assert_sent("works", order=7).data["n"] == 1


def test_a_miss_shows_what_was_sent_the_nearest_first(lanes):
    """The same kind comes before other kinds, then the fewest differences."""
    lanes.producer.send("works", {"order": 9}, priority=-100)
    lanes.producer.send("other", {"order": 7}, priority=50)
    lanes.producer.send("works", {"order": 8}, priority=50, group="c-1")

    with pytest.raises(AssertionError) as caught:
        lanes.assert_sent("works", lane="HIGH", order=7)

    assert message_of(caught) == [
        'no message was sent with kind="works", lane="HIGH", order=7',
        "the nearest of 3:",
        "  works, in HIGH, priority 50, group 'c-1', {\"order\": 8}",
        "      order is 8, not 7",
        '  works, in MAIN, priority -100, {"order": 9}',
        '      lane is "MAIN", not "HIGH"',
        "      order is 9, not 7",
        '  other, in HIGH, priority 50, {"order": 7}',
        '      kind is "other", not "works"',
    ]


def test_a_misspelt_kind_shows_what_became_of_its_message(lanes):
    """It was given up for want of a handler, or still waits; others of its data are no help."""
    lanes.producer.send("wroks", {"order": 7})
    lanes.producer.send("wroks", {"order": 8})
    lanes.producer.send("fails", {"order": 7})
    lanes.run_until_idle()
    lanes.producer.send("wokrs", {"order": 7})

    with pytest.raises(AssertionError) as caught:
        lanes.assert_handled("works", order=7)

    seven, unknown = '{"order": 7}', "no handler for kind 'wroks'; registered: fails, gives_up, works"
    assert message_of(caught) == [
        'no message was handled with kind="works", order=7',
        "with a similar kind, dead-lettered:",
        f"  wroks, in MEDIUM, priority 0, {seven}, {unknown!r} after 0 attempts",
        "with a similar kind, still waiting, until run_until_idle() or run_for(...) lets the lanes work:",
        f"  wokrs, in MEDIUM, priority 0, {seven}",
    ]


def test_only_the_nearest_few_are_shown(lanes):
    """A long list helps nobody; long data is cut."""
    for n in range(8):
        lanes.producer.send("works", {"order": n, "text": "x" * 1000})

    with pytest.raises(AssertionError) as caught:
        lanes.assert_sent("works", order=99)

    lines = message_of(caught)
    assert lines[2].startswith('  works, in MEDIUM, priority 0, {"order": 7,')
    assert lines[-1] == "  and 3 more"
    assert len(lines) == 13
    assert max(map(len, lines)) < 300


def test_a_miss_where_nothing_happened_says_just_that(lanes):
    """With nothing to compare."""
    with pytest.raises(AssertionError) as caught:
        lanes.assert_sent()

    assert message_of(caught) == ["no message was sent with anything"]


def test_data_without_the_key_is_told_apart_from_another_value(lanes):
    """Also where the data is no object at all."""
    lanes.producer.send("works", [1, 2])

    with pytest.raises(AssertionError, match="data has no 'order', 7 is wanted"):
        lanes.assert_sent("works", order=7)
    with pytest.raises(AssertionError, match=r"data is \[1, 2\], not \[1\]"):
        lanes.assert_sent("works", data=[1])
    with pytest.raises(AssertionError, match=r"data is \[1, 2\], not null"):
        lanes.assert_sent("works", data=None)


def test_what_must_not_be_sent_is_listed_where_it_was(lanes):
    """And passes where it was not."""
    lanes.producer.send("works", {"order": 7})
    lanes.assert_not_sent("works", order=8)
    lanes.assert_not_sent("other")

    with pytest.raises(AssertionError) as caught:
        lanes.assert_not_sent("works")

    assert message_of(caught) == [
        'sent with kind="works": 1',
        '  works, in MEDIUM, priority 0, {"order": 7}',
    ]


def test_what_was_not_handled_comes_with_the_errors_of_its_handler(lanes):
    """Or one would have to look for them."""
    lanes.producer.send("works", {"order": 1})
    lanes.producer.send("fails", {"order": 7})
    lanes.run_until_idle()

    with pytest.raises(AssertionError) as caught:
        lanes.assert_handled("fails", order=7)

    assert message_of(caught)[-5:-1] == [
        "failed attempts:",
        '  fails, in MEDIUM, priority 0, {"order": 7}, attempt 1, ValueError: order 7 fails',
        '  fails, in MEDIUM, priority 0, {"order": 7}, attempt 2, ValueError: order 7 fails',
        "dead-lettered:",
    ]


def test_what_was_given_up_without_a_handler_says_so_where_it_was_to_be_handled(lanes):
    """A kind that nobody registered never fails an attempt."""
    lanes.producer.send("unheard", {"order": 7})
    lanes.run_until_idle()

    with pytest.raises(AssertionError) as caught:
        lanes.assert_handled("unheard", attempt=1)

    heading, given_up = message_of(caught)[-2:]
    assert heading == "dead-lettered:"
    assert given_up.startswith('  unheard, in MEDIUM, priority 0, {"order": 7}, ')


@pytest.mark.parametrize("assertion", ["assert_handled", "assert_dead_lettered"])
def test_what_nobody_let_run_is_said_to_wait(lanes, assertion):
    """The usual slip of a first test."""
    lanes.producer.send("works", {"order": 7})

    with pytest.raises(AssertionError) as caught:
        getattr(lanes, assertion)("works")

    heading, waiting = message_of(caught)[-2:]
    assert heading.startswith("still waiting, until run_until_idle()")
    assert waiting == '  works, in MEDIUM, priority 0, {"order": 7}'


def test_what_was_handled_says_so_where_it_was_to_be_given_up(lanes):
    """Whatever reason was wanted."""
    lanes.producer.send("works", {"order": 7})
    lanes.run_until_idle()

    with pytest.raises(AssertionError) as caught:
        lanes.assert_dead_lettered("works", reason="no such customer")

    assert message_of(caught)[-2:] == ["handled:", '  works, in MEDIUM, priority 0, {"order": 7}, attempt 1']


@pytest.mark.parametrize(
    "assertion", ["assert_sent", "assert_not_sent", "assert_handled", "assert_dead_lettered"]
)
def test_a_lane_that_there_is_not_is_refused(lanes, assertion):
    """An assertion that nothing was sent to it could never fail."""
    with pytest.raises(KeyError, match="no lane 'HIHG'; the lanes are HIGH, MEDIUM, MAIN"):
        getattr(lanes, assertion)("works", lane="HIHG")


def test_the_attempt_that_succeeded_can_be_asked_for(lanes):
    """The lane it came by too."""
    lanes.producer.send("works", {}, priority=50)
    lanes.run_until_idle()

    lanes.assert_handled("works", lane="HIGH", attempt=1)
    with pytest.raises(AssertionError, match="attempt is 1, not 2"):
        lanes.assert_handled("works", attempt=2)


def test_a_dead_letter_is_found_by_part_of_its_reason(lanes):
    """Another reason is a near miss."""
    lanes.producer.send("gives_up", {"order": 7})
    lanes.run_until_idle()

    assert lanes.assert_dead_lettered("gives_up", reason="customer").data == {"order": 7}
    with pytest.raises(AssertionError) as caught:
        lanes.assert_dead_lettered("gives_up", reason="exhausted")
    assert message_of(caught)[-1] == "      reason is 'no such customer', without 'exhausted'"


def test_what_waits_is_listed_with_what_it_waits_for(lanes):
    """New ones, those in backoff, and those behind their group."""
    lanes.assert_nothing_waiting()
    lanes.producer.send("fails", {"order": 1}, group="g")
    lanes.producer.send("works", {"order": 2}, group="g")
    lanes.run_for(1)
    lanes.producer.send("works", {"order": 3})

    with pytest.raises(AssertionError) as caught:
        lanes.assert_nothing_waiting()

    first, failed, behind, new = message_of(caught)
    assert first == "there are messages that wait:"
    assert 'order": 1}: failed, returns in ' in failed
    assert 'order": 2}: returned, returns in ' in behind
    assert new.endswith('{"order": 3}: not received yet, or behind its group')
    lanes.run_until_idle()
    lanes.assert_nothing_waiting()


def test_data_that_json_has_no_words_for_is_shown_all_the_same(lanes):
    """A criterion may be anything that compares."""
    lanes.producer.send("works", {"order": 7})

    with pytest.raises(AssertionError, match=r"order is 7, not \{8\}"):
        lanes.assert_sent("works", order={8})


def test_names_of_data_that_are_also_arguments_are_compared_through_data(lanes):
    """`lane=` means the lane; a key of that name is no loss."""
    lanes.producer.send("works", {"lane": "slow"})

    assert lanes.assert_sent("works", data={"lane": "slow"}).data == {"lane": "slow"}
