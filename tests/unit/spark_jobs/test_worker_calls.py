"""Tasks of one worker send with the same clients and connections, as long as those are good."""

from __future__ import annotations

import pytest

from spark_jobs import sending as module
from spark_jobs.options import WriterOptions
from spark_jobs.sending import MAX_AGE_SECONDS, worker_calls
from tests.support.sending import make_deployment


@pytest.fixture(autouse=True)
def new_worker():
    """Begin and end as a worker without clients."""
    _close_all()
    yield
    _close_all()


def _close_all():
    # Those of other tests as well: a socket that is only dropped is an error of whichever test runs then.
    while module._kept:
        module._kept.pop().calls.close()


def options(**more):
    """Give the options of a write."""
    return WriterOptions(deployment=make_deployment(), region="eu-central-1", kind="a.kind", **more)


def lent(*, now=0.0, **more):
    """Run a task and give what it sent with."""
    with worker_calls(options(**more), make_deployment(), clock=lambda: now) as found:
        return found


def test_a_second_task_makes_nothing_anew():
    """No session, client, form or connection."""
    assert lent() is lent(now=MAX_AGE_SECONDS - 1)


def test_two_tasks_at_once_share_nothing():
    """Threads of a program may send at the same time."""
    with (
        worker_calls(options(), make_deployment()) as first,
        worker_calls(options(), make_deployment()) as second,
    ):
        assert first is not second


def test_after_an_error_the_next_task_has_new_ones():
    """Their credentials may have expired, or calls may be in flight."""
    with pytest.raises(RuntimeError), worker_calls(options(), make_deployment()) as failed:
        raise RuntimeError

    assert lent() is not failed


def test_credentials_that_were_replaced_are_found(monkeypatch):
    """A file or a variable is read again after a minute."""
    first = lent()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDTWO")

    second = lent(now=MAX_AGE_SECONDS)

    assert first.clients.credentials()().access_key != second.clients.credentials()().access_key == "AKIDTWO"


def test_another_place_has_others():
    """A worker may serve several jobs."""
    assert lent() is not lent(endpoint_url="http://127.0.0.1:1")
