"""The consumer's protocol, searched exhaustively: crashes, yields, throttles, failing calls, lost answers."""

import pytest

from tests.model.consumer_protocol import Message, Mistakes, Protocol, State
from tests.model.search import Violation, explore

LIMIT = 2_000_000
PAIR = (Message(), Message())

SCENES = {
    "a group of two": State(messages=PAIR, yields=2, signals=0),
    "a group of two, one asks for the dead-letter queue": State(messages=PAIR),
    "a group of two, two crashes": State(messages=PAIR, crashes=2, failures=0, signals=0),
    "a group of two, two failing calls": State(messages=PAIR, crashes=0, failures=2, signals=0),
    "a group beside another": State(
        messages=(*PAIR, Message(group="h")), yields=2, crashes=0, failures=0, signals=0
    ),
    "a throttled batch, two slots": State(
        messages=PAIR, invocations=(None, None), yields=1, crashes=0, failures=0, expiries=1, signals=0
    ),
}


@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES)
def test_nothing_is_lost_out_of_order_miscounted_or_stuck(scene):
    """Every interleaving of the scene was visited."""
    states, without_end = explore(scene, Protocol(batch=3), limit=LIMIT)

    assert states > 100
    assert without_end[:1] == []


@pytest.mark.parametrize(
    ("mistake", "found"),
    [
        ("goes_on_after_a_yield", "message 1 is handled before message 0"),
        ("goes_on_after_a_failure", "message 1 is handled before message 0"),
        ("answers_empty_on_error", "is lost"),
        ("counts_receives_as_attempts", r"is dead-lettered after [01] counted attempts"),
        ("counts_yields_as_attempts", r"is dead-lettered after [01] counted attempts"),
        ("releases_one_record", "a record left behind keeps it hidden"),
        ("announces_nothing", "a second attempt of message 0 went uncounted"),
        ("gives_up_unnoted", "is done, and dead-lettered already"),
    ],
)
def test_a_known_mistake_is_found(mistake, found):
    """The search would not be worth much if it missed what others got wrong."""
    scene = State(messages=PAIR, yields=2, crashes=2)

    with pytest.raises(Violation, match=found):
        explore(scene, Protocol(Mistakes(**{mistake: True}), batch=3), limit=LIMIT)


def test_working_on_an_expired_batch_is_found():
    """A batch that lost its records while it was throttled would work on a group beside its new owner."""
    scene = SCENES["a throttled batch, two slots"]

    with pytest.raises(Violation, match="of a group are handled at once"):
        explore(scene, Protocol(Mistakes(enters_without_holding=True), batch=3), limit=LIMIT)


def test_a_note_that_comes_after_its_message_is_found():
    """The next invocation has noted an attempt by then, and the late note knows nothing of it."""
    scene = State(messages=(Message(),), invocations=(None, None), yields=2, crashes=1, failures=0, signals=0)
    explore(scene, Protocol(batch=3), limit=LIMIT)

    with pytest.raises(Violation, match=r"is dead-lettered after [0-9] counted attempts|went uncounted"):
        explore(scene, Protocol(Mistakes(lets_go_before_noting=True), batch=3), limit=LIMIT)
