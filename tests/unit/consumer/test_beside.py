"""Calls beside the handler, in threads of this process."""

import threading

import pytest

from lanes.consumer.engines import Threads


@pytest.mark.parametrize("after", [0.0, 3600.0])
def test_a_call_for_later_is_made_as_soon_as_its_result_is_asked_for(after):
    """And one without a delay at once."""
    assert Threads(1).start(lambda: "answer", after=after).result() == "answer"


def test_no_more_calls_than_threads_run_at_once():
    """The next one begins when one of them has ended, and those that waited are all made."""
    threads, gate, made = Threads(2), threading.Event(), []
    blocked = [threads.start(gate.wait) for _ in range(2)]
    waiting = [threads.start(lambda number=number: made.append(number)) for number in range(3)]

    assert not any(call.done() for call in waiting)
    gate.set()
    for call in (*blocked, *waiting):
        call.result()
    assert sorted(made) == [0, 1, 2]


def test_a_call_that_is_cancelled_is_never_made_and_keeps_no_thread():
    """There is one timer for each record, and few threads."""
    threads, made = Threads(1), []
    timers = [threads.start(lambda: made.append("timer"), after=3600.0) for _ in range(3)]

    assert [timer.cancel() for timer in timers] == [True] * 3
    assert threads.start(lambda: "next").result() == "next"
    assert made == []


def test_an_error_of_a_call_is_raised_where_its_result_is_asked_for():
    """Not in the thread."""
    failing = Threads(1).start(lambda: 1 // 0)

    with pytest.raises(ZeroDivisionError):
        failing.result()


def test_waiting_ends_with_the_first_call():
    """The other one goes on."""
    threads, gate = Threads(2), threading.Event()
    blocked = threads.start(gate.wait)
    long = threads.start(lambda: sum(range(1_000_000)))

    threads.wait([blocked, long])

    assert (blocked.done(), long.done()) == (False, True)
    gate.set()
    blocked.result()
