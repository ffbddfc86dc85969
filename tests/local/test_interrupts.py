"""Interrupts: one ends what goes on, and none tears a start of a process apart."""

import signal
import threading

import pytest

from local.interrupts import interrupt_once, uninterrupted


@pytest.fixture(autouse=True)
def _signals_as_before():
    """The tests' own handlers come back."""
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    interrupt_once()
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_interrupts_and_a_second_one_does_not(number):
    """Cleaning up is left in peace."""
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)

    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGTERM)


def test_the_first_signal_shows_a_notice(capfd):
    """The end of a deploy takes seconds."""
    interrupt_once("stopping ...\n")
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)

    assert capfd.readouterr().err == "stopping ...\n"


def test_another_thread_needs_no_protection():
    """Signals reach the main thread alone, at once."""
    entered, left = threading.Event(), threading.Event()

    def start_something():
        with uninterrupted():
            entered.set()
            left.wait(10)

    thread = threading.Thread(target=start_something)
    thread.start()
    entered.wait()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    left.set()
    thread.join()


def test_an_interrupt_waits_for_what_must_not_be_torn_apart():
    """And is raised right after it, not after a part of it."""
    done = []

    def start_something():
        with uninterrupted():
            with uninterrupted():
                signal.raise_signal(signal.SIGINT)
                done.append("inner")
            done.append("outer")

    with pytest.raises(KeyboardInterrupt):
        start_something()

    assert done == ["inner", "outer"]


def test_nothing_is_raised_where_nothing_has_come():
    """The usual case."""
    with uninterrupted():
        pass
