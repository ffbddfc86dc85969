"""The error tree and the signals of handlers."""

import copy
import pickle
from datetime import timedelta

import pytest

from lanes import errors
from lanes.message import Message
from lanes.producer.outgoing import PartialSendError, RefusedMessagesError, SentMessage, UnsentMessage

SENT = SentMessage(id="1", lane="MAIN", message_id="m", sequence_number="1")


def unsent(count):
    """Give messages that could not be sent."""
    return [
        UnsentMessage(message=Message(kind="k", id=str(place)), lane="MAIN", reason="why", code="Why")
        for place in range(count)
    ]


ALL = [
    errors.ConfigurationError(["one", "two"]),
    errors.InvalidMessageError(["one"]),
    errors.MessageTooLargeError(size_bytes=2, limit_bytes=1),
    errors.MessageDecodeError("why"),
    RefusedMessagesError([(0, Message(kind="k"), errors.MessageDecodeError("why"))]),
    PartialSendError(sent=[SENT], failed=unsent(2)),
    errors.UnknownKindError(kind="k", known=["b", "a"]),
    errors.DuplicateHandlerError(kind="k"),
    errors.AwsError(operation="SendMessage", code="Throttled", retryable=True),
]


@pytest.mark.parametrize("error", ALL, ids=lambda error: type(error).__name__)
def test_every_error_is_one_of_ours_and_says_something(error):
    """One `except LanesError` catches them all."""
    assert isinstance(error, errors.LanesError)
    assert str(error)


class TooEarlyError(errors.Retry):
    """A signal of an application, with a constructor of its own."""

    def __init__(self, *, order):
        super().__init__(timedelta(minutes=1), f"order {order} is not paid", counts=False)


SIGNALS = [
    errors.Retry(),
    errors.Retry(timedelta(seconds=3), "busy", counts=False),
    errors.Unavailable(reason="the bank is closed"),
    errors.DeadLetter("too old"),
    TooEarlyError(order=7),
]


@pytest.mark.parametrize("error", [*ALL, *SIGNALS], ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("trip", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])  # noqa: S301
def test_an_error_survives_the_way_between_processes(error, trip):
    """Workers of other processes report with their fields, and a handler may leave its work to one."""
    arrived = trip(error)

    assert type(arrived) is type(error)
    assert str(arrived) == str(error)
    assert vars(arrived).keys() == vars(error).keys()
    if error in SIGNALS:
        assert vars(arrived) == vars(error)


def test_long_lists_are_cut_in_the_text_and_whole_in_the_fields():
    """A hundred thousand failures must not make a log line of megabytes."""
    error = PartialSendError(sent=[], failed=unsent(1000))

    assert "995 more" in str(error)
    assert len(error.failed) == 1000


def test_signals_are_no_errors_of_ours():
    """What a handler asks for is not what went wrong."""
    assert not issubclass(errors.Retry, errors.LanesError)
    assert not issubclass(errors.DeadLetter, errors.LanesError)
    assert errors.DeadLetter("too old").reason == "too old"
    assert errors.Retry(timedelta(seconds=3), "busy").after == timedelta(seconds=3)
    assert errors.Retry().after is None


def test_retry_takes_a_duration():
    """Three of what?"""
    with pytest.raises(TypeError, match="timedelta"):
        errors.Retry(3)
    with pytest.raises(ValueError, match="negative"):
        errors.Retry(timedelta(seconds=-1))
