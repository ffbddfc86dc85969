"""Clients and connections that the tasks of a worker use one after the other."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from lanes.aws.batch_calls import open_calls

from .sending.task import CONCURRENCY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lanes.aws.clients import Clients
    from lanes.config.deployment import Deployment
    from lanes.producer.outgoing import BatchCalls

    from .options import WriterOptions

# Credentials in a file or a variable may be replaced between two tasks; botocore refreshes those of roles.
MAX_AGE_SECONDS = 60.0


class WorkerCalls(NamedTuple):
    """What a task sends with, to the place `used_for`."""

    used_for: tuple[object, ...]
    made_at: float
    clients: Clients
    calls: BatchCalls[Any]


# Those of the last task that ended well. Making them takes 25 ms, as long as 200 rows.
_kept: list[WorkerCalls] = []


@contextmanager
def worker_calls(
    options: WriterOptions, deployment: Deployment, *, clock: Callable[[], float] = time.monotonic
) -> Iterator[WorkerCalls]:
    """Lend clients and connections to a task; after an error they are closed, and the next task has new ones."""
    used_for = (options.region, options.endpoint_url, deployment)
    found = _kept.pop() if _kept else None
    if found is not None and (found.used_for != used_for or clock() - found.made_at >= MAX_AGE_SECONDS):
        found.calls.close()
        found = None
    if found is None:
        clients = options.clients()
        calls = open_calls(clients, concurrency=CONCURRENCY, deployment=deployment)
        found = WorkerCalls(used_for, clock(), clients, calls)
    try:
        yield found
    except BaseException:
        found.calls.close()
        raise
    _kept.append(found)
