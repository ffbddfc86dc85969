"""The event loop of handlers that are coroutine functions: one for each execution environment."""

from __future__ import annotations

import contextlib
import contextvars
import inspect
import logging
import threading
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from asyncio import Runner, Task
    from collections.abc import Awaitable, Callable

_logger = logging.getLogger(__name__)


class HandlerLoop:
    """
    Runs coroutines one after the other in one loop, so that clients bound to it serve many records.

    It is made for the first coroutine. When the process ends, its tasks are cancelled and it is closed.
    """

    def __init__(self) -> None:
        self._runner: Runner | None = None
        self._close: Callable[[], object] = lambda: None
        self._reported: set[str] = set()

    def run(self, awaitable: Awaitable[Any]) -> Any:
        """Wait for a result in a copy of the current context, with its priority and trace."""
        # Late: asyncio takes 20 ms of a cold start.
        import asyncio

        coroutine = awaitable if inspect.iscoroutine(awaitable) else _result_of(awaitable)
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop()
            coroutine.close()
            raise TypeError(
                "a coroutine handler can't run inside of a running event loop; from a coroutine, call the consumer "
                "or the lanes of a test in a thread: await asyncio.to_thread(lanes.run_until_idle)"
            )
        if self._runner is None:
            self._runner = asyncio.Runner()
            self._close = weakref.finalize(self, _close, self._runner)
        try:
            result = self._runner.run(coroutine, context=contextvars.copy_context())
        except BaseException as error:
            # The loop was left between two steps, with tasks that would go on beside the next record: one of them may
            # be the handler itself, where `loop.stop()` was called.
            is_suspended = inspect.getcoroutinestate(coroutine) != inspect.CORO_CLOSED
            if is_suspended or isinstance(error, KeyboardInterrupt | SystemExit):
                self._runner = None
                # A task group or a `gather` raises the same once more when it is cancelled.
                with contextlib.suppress(KeyboardInterrupt, SystemExit):
                    self._close()
            raise
        self._report_left(asyncio.all_tasks(self._runner.get_loop()))
        return result

    def _report_left(self, tasks: set[Task[Any]]) -> None:
        """Warn once of each function that a handler left as a task: its work has an end only while later ones run."""
        for coroutine in (task.get_coro() for task in tasks):
            name = getattr(coroutine, "__qualname__", "")
            # Of a library it may be a task in the background, so the message is done all the same. Python itself closes
            # asynchronous generators in tasks.
            if inspect.iscoroutine(coroutine) and name not in self._reported:
                self._reported.add(name)
                _logger.warning(
                    "a handler has ended and left the task %s, which stands still until another coroutine handler "
                    "runs, and may never end; await the tasks that you start",
                    name,
                )


async def _result_of(awaitable: Awaitable[Any]) -> Any:
    return await awaitable


def _close(runner: Runner) -> None:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        runner.close()
        return
    # Collected in the middle of another loop, which lets no second one run in its thread.
    closing = threading.Thread(target=runner.close)
    closing.start()
    closing.join()
