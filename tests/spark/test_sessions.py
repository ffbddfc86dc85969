"""A test that runs out of time fails alone, not all Spark tests after it."""

import contextlib
import threading
import time

import pytest


def killed(session):
    """Kill the JVM."""
    session.sparkContext._gateway.proc.kill()
    session.sparkContext._gateway.proc.wait()


def at_work(session):
    """Leave a job that never ends."""
    endless = session.sparkContext.parallelize([0], 1).map(lambda _: time.sleep(600))

    def wait():
        with contextlib.suppress(Exception):
            endless.collect()

    threading.Thread(target=wait, daemon=True).start()
    while not session.sparkContext.statusTracker().getActiveJobsIds():
        time.sleep(0.05)


# Each starts a JVM, and is about our tests alone.
@pytest.mark.nightly
@pytest.mark.parametrize(
    "leave", [at_work, killed, lambda session: session.stop()], ids=["busy", "killed", "stopped"]
)
def test_a_session_that_a_test_has_left_is_replaced(spark_sessions, leave):
    """By one that works; a session that is free stays."""
    before = spark_sessions.give()
    leave(before)

    after = spark_sessions.give()

    assert after is not before
    assert after.range(3).count() == 3
    assert spark_sessions.give() is after
