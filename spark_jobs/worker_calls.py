"""Clients and connections that the tasks of a worker use one after the other."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lanes.aws.queues.batch_calls import open_calls

from .sending.task import CONCURRENCY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lanes.aws.clients import Clients
    from lanes.config.deployment import Deployment
    from lanes.producer.outgoing import BatchCalls

    from .options import WriterOptions

# Credentials in a file or a variable may be replaced between two tasks; botocore refreshes those of roles.
MAX_AGE_SECONDS = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCalls:
    """
    What a task sends with.

    Attributes:
        clients: Creates further clients, with the same credentials.
        calls: Makes the batch calls.
        used_for: Place and limits that they are made for.
        made_at: Their age begins here, in monotonic seconds.
    """

    clients: Clients
    calls: BatchCalls[Any]
    used_for: tuple[object, ...]
    made_at: float


# Those of the last task that ended well. Making them takes 25 ms, as long as 200 rows.
_kept: list[WorkerCalls] = []


@contextmanager
def worker_calls(
    options: WriterOptions, deployment: Deployment, *, clock: Callable[[], float] = time.monotonic
) -> Iterator[WorkerCalls]:
    """
    Lend clients and connections to a task; after an error they are closed, and the next task has new ones.

    Args:
        options: The options of the write.
        deployment: The lanes.
        clock: Monotonic seconds.
    """
    used_for = (options.region, options.endpoint_url, deployment)
    found = _take(used_for, clock())
    if found is None:
        clients = options.clients()
        calls = open_calls(clients, concurrency=CONCURRENCY, deployment=deployment)
        found = WorkerCalls(clients=clients, calls=calls, used_for=used_for, made_at=clock())
    try:
        yield found
    except BaseException:
        found.calls.close()
        raise
    _kept.append(found)


def _take(used_for: tuple[object, ...], now: float) -> WorkerCalls | None:
    kept = _kept.pop() if _kept else None
    if kept is not None and (kept.used_for != used_for or now - kept.made_at >= MAX_AGE_SECONDS):
        kept.calls.close()
        return None
    return kept
