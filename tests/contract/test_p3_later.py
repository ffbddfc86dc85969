"""A message with `not_before` never starts before its time, is one if it is sent twice, and can be refused by name."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanes import Consumer, Message
from lanes.config import LanesConfig
from lanes.errors import AwsError, ConfigurationError, InvalidMessageError, MessageTooLargeError
from lanes.producer import Pacing, PartialSendError, Producer, RefusedMessagesError
from lanes.runs import State
from lanes.testing import InMemoryLanes
from tests.support.memory import consumer_of

MINUTE = timedelta(minutes=1)


class Handled:
    """Lanes whose handler notes each start; the handler of `x` takes no time."""

    def __init__(self, **config):
        consumer = Consumer()
        self.starts = []

        @consumer.handler("x")
        def note(message):
            self.starts.append((message.id, message.group, self.lanes.clock()))

        self.lanes = InMemoryLanes(
            consumer, config=LanesConfig.from_dict(config), handler_time=timedelta(milliseconds=1)
        )

    @property
    def ids(self):
        """The ids in the order of their starts."""
        return [one[0] for one in self.starts]


moments = st.integers(-60, 3600)


@given(
    sends=st.lists(st.tuples(st.integers(0, 6), moments, st.booleans()), min_size=1, max_size=12),
    engine=st.sampled_from(["mappings", "pull"]),
)
def test_no_message_starts_before_its_time_nor_twice(sends, engine):
    """Whatever was sent before and after it, now and for later; with idempotency an id is one message."""
    made = Handled(consumer={**consumer_of(engine), "idempotency": True})
    lanes, due = made.lanes, {}
    for number, seconds, is_aware in sends:
        moment = lanes.clock.time + timedelta(seconds=seconds)
        not_before = moment if is_aware else timedelta(seconds=seconds)
        sent = lanes.producer.send("x", number, id=str(number), group="g", not_before=not_before)
        due.setdefault(str(number), []).append(moment.timestamp())
        assert sent.id == str(number)
    lanes.run_for(timedelta(hours=2))

    assert sorted(made.ids) == sorted(due)
    for name, _, started in made.starts:
        assert started >= min(due[name])


def test_it_joins_its_group_when_it_is_due():
    """Messages sent meanwhile come first."""
    made = Handled()
    made.lanes.producer.send("x", 1, id="later", group="g", not_before=MINUTE)
    made.lanes.producer.send("x", 2, id="now", group="g")
    made.lanes.run_for(2 * MINUTE)

    assert made.ids == ["now", "later"]
    assert made.starts[1][2] - made.lanes.clock.started_at == pytest.approx(60, abs=1)


def test_the_first_time_of_a_message_holds():
    """A second send with its id says so."""
    lanes = Handled().lanes
    first = lanes.producer.send("x", 1, id="a", not_before=MINUTE)
    second = lanes.producer.send("x", 1, id="a", not_before=5 * MINUTE)

    assert second.not_before == first.not_before == lanes.clock.time + MINUTE
    assert [message.id for message in lanes.scheduled] == ["a"]


def test_it_goes_to_the_lane_of_its_priority_with_what_it_was_sent_with():
    """As a message that is sent now does."""
    lanes = Handled().lanes
    sent = lanes.producer.send(
        "x", {"a": 1}, priority=50, group="g", expires=timedelta(hours=1), not_before=MINUTE
    )
    lanes.run_for(MINUTE + timedelta(seconds=1))

    assert (sent.lane, sent.message_id, sent.sequence_number) == ("HIGH", "", "")
    assert lanes.assert_handled("x", lane="HIGH").data == {"a": 1}


@pytest.mark.parametrize("not_before", [timedelta(0), -MINUTE, datetime(2020, 1, 1, tzinfo=UTC)], ids=str)
def test_the_past_is_sent_now(not_before):
    """It is in its lane with the return of the call."""
    lanes = Handled().lanes

    assert lanes.producer.send("x", 1, not_before=not_before).message_id
    assert not lanes.scheduled


@pytest.mark.parametrize(
    ("not_before", "problem"),
    [
        (datetime(2027, 1, 1), "without a time zone"),  # noqa: DTZ001 - the mistake
        (timedelta(days=367), "at most 366 days ahead"),
        ("tomorrow", "pass a datetime with a time zone"),
        (60, "pass a datetime with a time zone"),
    ],
    ids=str,
)
def test_a_time_that_is_none_is_refused(not_before, problem):
    """Before any call."""
    lanes = Handled().lanes

    with pytest.raises(InvalidMessageError, match=problem):
        lanes.producer.send("x", 1, not_before=not_before)
    assert not lanes.scheduled
    assert not lanes.journal.sent


def test_a_message_that_expires_before_its_time_is_refused():
    """No handler would get it."""
    lanes = Handled().lanes

    with pytest.raises(
        InvalidMessageError, match=r"not after not_before .*, so no handler would get the message"
    ):
        lanes.producer.send("x", 1, not_before=MINUTE, expires=timedelta(seconds=30))
    assert not lanes.scheduled


def test_a_message_that_scheduler_cannot_hold_is_refused_with_the_others():
    """Its input is at most 256 KB, a quarter of a message of SQS."""
    lanes = Handled().lanes
    messages = [Message(kind="x", data="a"), Message(kind="x", data="a" * 270_000)]

    with pytest.raises(RefusedMessagesError) as raised:
        lanes.producer.send_many(messages, not_before=MINUTE)
    ((index, _, error),) = raised.value.refusals
    assert index == 1
    assert isinstance(error, MessageTooLargeError)
    assert not lanes.scheduled


def test_a_deployment_without_a_scheduler_says_what_to_do():
    """Rather than a message that is sent at once."""
    lanes = Handled().lanes
    producer = Producer(deployment=lanes.deployment, sqs=lanes._sender, clock=lanes.clock)

    with pytest.raises(ConfigurationError, match="write scheduler = true"):
        producer.send("x", 1, not_before=MINUTE)


def test_members_of_a_run_for_later_are_followed_to_their_end():
    """It is sealed with them, and open until they are handled."""
    made = Handled()
    with made.lanes.producer.run("nov", expected=10) as run:
        run.send_many([Message(kind="x", data=1, id="now")])
        run.send_many([Message(kind="x", data=2, id="later")], not_before=timedelta(hours=1))
    table = made.lanes._stack.runs
    made.lanes.run_until_idle()
    assert (made.ids, table.head("nov").state) == (["now"], State.SEALED)

    made.lanes.run_for(timedelta(hours=2))
    assert (made.ids, table.head("nov").state) == (["now", "later"], State.ENDED)


def test_a_member_of_a_run_beyond_its_record_is_refused():
    """Its end could not be written."""
    lanes = Handled().lanes

    with (
        pytest.raises(InvalidMessageError, match="at most 30 days ahead"),
        lanes.producer.run("nov", expected=1) as run,
    ):
        run.send_many([Message(kind="x", data=1, id="a")], not_before=timedelta(days=31))


class Faulty:
    """Fails for some messages, by their data: never answers, throttles twice, or refuses."""

    def __init__(self):
        self.created, self.calls = [], []

    def create(self, name, *, expression, target):
        """Create it or fail as AWS does."""
        data = json.loads(json.loads(target)["MessageBody"])["data"]
        self.calls.append(data)
        if data == "silent":
            raise error_of("ReadTimeoutError", answered=False)
        if data == "throttled" and self.calls.count(data) < 3:
            raise error_of("ThrottlingException")
        if data == "refused":
            raise error_of("ValidationException", retryable=False)
        if data == "forbidden":
            raise error_of("AccessDeniedException", retryable=False)
        self.created.append(name)
        return expression


def error_of(code, *, retryable=True, answered=True):
    """Return the error of a call."""
    return AwsError(operation="CreateSchedule", code=code, retryable=retryable, answered=answered)


def faulty(**more):
    """Return a producer over a faulty Scheduler, whose pauses take no time, and that Scheduler."""
    lanes, later = Handled().lanes, Faulty()
    pacing = Pacing(clock=lanes.clock, pause=lanes.clock.advance, jitter=lambda: 0.5, **more)
    producer = Producer(
        deployment=lanes.deployment, sqs=lanes._sender, later=lambda: later, clock=lanes.clock, pacing=pacing
    )
    return producer, later


@pytest.mark.parametrize("first", ["ok", "silent", "throttled", "refused"])
def test_what_could_not_be_scheduled_is_in_the_error(first):
    """With whether it may have been; what AWS throttles is tried again, and the others are scheduled."""
    producer, later = faulty(max_concurrency=1)
    order = [first, *(data for data in ("ok", "silent", "throttled", "refused") if data != first)]
    messages = {data: Message(kind="x", data=data) for data in order}

    with pytest.raises(PartialSendError) as raised:
        producer.send_many(messages.values(), not_before=MINUTE)

    failed = {one.message.data: one.maybe_sent for one in raised.value.failed}
    assert failed.keys() == {"silent", "refused"}
    assert failed["silent"]
    assert {one.id for one in raised.value.sent} == {messages["ok"].id, messages["throttled"].id}
    assert all(one.not_before for one in raised.value.sent)
    assert len(later.created) == 2


def test_a_missing_right_is_found_with_the_first_call():
    """A thousand more would fail as well."""
    producer, later = faulty(max_concurrency=1)

    with pytest.raises(PartialSendError) as raised:
        producer.send_many([Message(kind="x", data="forbidden") for _ in range(1000)], not_before=MINUTE)

    assert len(raised.value.failed) == 1000
    assert len(later.calls) == 1


def test_progress_and_a_stop_reach_messages_for_later():
    """As those that are sent now."""
    producer, later = faulty(max_concurrency=1)
    counted = []

    with pytest.raises(PartialSendError) as raised:
        producer.send_many(
            [Message(kind="x", data="ok") for _ in range(100)],
            not_before=MINUTE,
            progress=counted.append,
            should_stop=lambda: len(later.created) >= 30,
        )

    assert counted == [10, 20, 30]
    assert {one.code for one in raised.value.failed} == {"Interrupted"}
    assert (len(raised.value.sent), len(raised.value.failed)) == (30, 70)


@pytest.mark.parametrize("concurrency", [1, 4])
def test_an_interrupt_makes_no_more_calls_and_lists_what_was_scheduled(concurrency):
    """Ctrl-C in the middle of a thousand."""
    producer, later = faulty()
    create = later.create

    def interrupted(name, **call):
        if len(later.created) == 25:
            raise KeyboardInterrupt
        return create(name, **call)

    later.create = interrupted
    with pytest.raises(KeyboardInterrupt) as raised:
        producer.send_many(
            [Message(kind="x", data="ok") for _ in range(1000)], not_before=MINUTE, concurrency=concurrency
        )

    listed = raised.value.__cause__
    assert len(listed.sent) + len(listed.failed) == 1000
    assert len(later.created) < 100
