"""
Emulated EventBridge schedules: invoke the deployed functions at their rate.

When and with what is decided by `local.model.schedule`. An event that fails is gone: EventBridge's retries are not
emulated, since the next one follows.
"""

import logging
import threading
from collections.abc import Mapping
from datetime import UTC, datetime

from local.event_source_mapping import Invocable
from local.model.schedule import ScheduleSettings, scheduled_event

_logger = logging.getLogger(__name__)


class ScheduleEmulator:
    """
    One deployed schedule at work.

    # AWS: a rate rule fires for the first time one rate after it was made (EventBridge User Guide, "Rate expressions").

    Args:
        settings: as deployed.
        functions: its targets, by ARN.
    """

    def __init__(self, settings: ScheduleSettings, *, functions: Mapping[str, Invocable]) -> None:
        self._settings = settings
        self._functions = functions
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="schedule", daemon=True)
        self.fired = 0

    @property
    def settings(self) -> ScheduleSettings:
        """The schedule as deployed now."""
        return self._settings

    def start(self) -> None:
        """Begin to count the time."""
        self._thread.start()

    def update(self, settings: ScheduleSettings) -> None:
        """Follow a deploy; a new rate holds from the next event on."""
        self._settings = settings

    def stop(self) -> None:
        """Fire no more; an invocation that runs finishes."""
        self._stopped.set()

    def join(self) -> None:
        """Wait for the thread after `stop`."""
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._settings.rate.total_seconds()):
            if self._settings.enabled:
                self._fire()

    def _fire(self) -> None:
        event = scheduled_event(self._settings, at=datetime.now(UTC))
        for arn in self._settings.function_arns:
            answer = self._functions[arn].invoke(event)
            if answer.function_error and not self._stopped.is_set():
                _logger.warning("a scheduled invocation of %s failed: %s", arn, answer.function_error)
        self.fired += 1
