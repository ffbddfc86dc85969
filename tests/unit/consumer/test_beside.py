"""Calls beside the handler, in threads of this process."""

import threading

import pytest

from lanes.consumer import engines
from lanes.consumer.engines import Threads


@pytest.fixture
def waits(monkeypatch):
    """Give the times for which calls wait to be asked."""
    found = []

    class Asked(threading.Event):
        def wait(self, timeout=None):
            # A thread that starts waits as well, without a limit.
            found.extend([] if timeout is None else [timeout])
            return super().wait(timeout)

    monkeypatch.setattr(engines.threading, "Event", Asked)
    return found


@pytest.mark.parametrize(("after", "expected"), [({}, []), ({"after": 3600.0}, [3600.0])])
def test_a_call_for_later_is_made_as_soon_as_its_result_is_asked_for(waits, after, expected):
    """And one without a delay at once."""
    assert Threads(1).start(lambda: "answer", **after).result() == "answer"
    assert waits == expected


def test_a_call_that_is_cancelled_is_never_made_and_keeps_no_thread():
    """There is one timer for each record, and few threads."""
    threads, made = Threads(1), []
    timers = [threads.start(lambda: made.append("timer"), after=3600.0) for _ in range(3)]

    assert [timer.cancel() for timer in timers] == [True] * 3
    assert threads.start(lambda: "next").result() == "next"
    assert made == []


def test_a_call_that_has_begun_can_not_be_cancelled():
    """Whoever cancels it waits for its end instead."""
    threads, begun, gate = Threads(1), threading.Event(), threading.Event()
    timer = threads.start(lambda: (begun.set(), gate.wait())[1], after=0.001)
    begun.wait()

    assert not timer.cancel()
    gate.set()
    assert timer.result()


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
