"""The thread that does errands beside a handler."""

import os
import threading

import pytest

from lanes.consumer.background import BackgroundThread, NoBackground
from tests.support.waiting import PATIENCE, until

NEVER = 3_600.0


@pytest.fixture
def background():
    return BackgroundThread()


def test_an_errand_is_done_by_another_thread(background):
    """Without anybody waiting for it."""
    done_by = []
    background.after(0.0, lambda: done_by.append(threading.current_thread()))

    until(lambda: done_by)

    assert done_by[0] is not threading.current_thread()
    assert done_by[0].daemon


def test_an_errand_that_has_not_begun_is_dropped(background):
    """Its moment passes, and the one after it is done."""
    done = []
    background.after(NEVER, lambda: done.append("dropped")).end()
    background.after(0.0, lambda: done.append("kept"))

    until(lambda: done)

    assert done == ["kept"]


def test_whoever_ends_an_errand_waits_until_it_is_done(background):
    """What it changes is whole then."""
    began, may_end, done = threading.Event(), threading.Event(), []

    def act():
        began.set()
        assert may_end.wait(PATIENCE)
        done.append("done")

    errand = background.after(0.0, act)
    assert began.wait(PATIENCE)
    threading.Timer(0.05, may_end.set).start()
    errand.end()

    assert done == ["done"]


def test_one_thread_does_all_errands(background):
    """One after the other; it stays when there is nothing to do."""
    threads = set()
    for _ in range(3):
        noted = threading.Event()

        def act(noted=noted):
            threads.add(threading.get_ident())
            noted.set()

        errand = background.after(0.0, act)
        assert noted.wait(PATIENCE)
        errand.end()

    assert len(threads) == 1


def test_an_errand_that_was_done_is_ended_without_waiting(background):
    """Also more than once."""
    done = []
    errand = background.after(0.0, lambda: done.append("done"))
    until(lambda: done)

    errand.end()
    errand.end()

    assert done == ["done"]


def test_where_no_thread_can_be_started_an_errand_is_left_undone(background, monkeypatch):
    """A handler may have used up what the process may have of them; there is one when it may have more again."""
    done, start = [], threading.Thread.start

    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    background.after(0.0, lambda: done.append("undone")).end()
    monkeypatch.setattr(threading.Thread, "start", start)
    background.after(0.0, lambda: done.append("done"))

    until(lambda: done)

    assert done == ["done"]


def test_in_a_forked_process_nobody_waits_for_an_errand_of_the_one_before(background, monkeypatch):
    """The thread that did it is not there; one of its own does the next."""
    began, may_end, done = threading.Event(), threading.Event(), []

    def act():
        began.set()
        assert may_end.wait(PATIENCE)

    background.after(0.0, act)
    assert began.wait(PATIENCE)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    ends = threading.Thread(target=background.end, daemon=True)
    ends.start()
    ends.join(PATIENCE)
    assert not ends.is_alive()
    background.after(0.0, lambda: done.append("done"))
    until(lambda: done)
    may_end.set()

    assert done == ["done"]


def test_without_a_background_nothing_is_done():
    """What needs it is done where it is needed."""
    done = []

    NoBackground().after(0.0, lambda: done.append("done")).end()

    assert done == []
