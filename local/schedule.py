"""
Emulated EventBridge schedules: invoke the deployed functions and send to the deployed queues at their rate.

`local.model.schedule` decides when, and makes the event. An event that fails is gone: EventBridge's retries are not
emulated, since the next one follows.
"""

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from botocore.exceptions import ClientError

from .event_source_mapping import Invocable
from .model.schedule import QueueTarget, ScheduleSettings, scheduled_event
from .repeated import Repeated

_logger = logging.getLogger(__name__)


class ScheduleEmulator(Repeated[ScheduleSettings]):
    """
    One deployed schedule, running.

    # AWS: a rate rule fires for the first time one rate after it was made (EventBridge User Guide, "Rate expressions").

    Args:
        settings: as deployed.
        functions: its targets, by ARN.
        send: sends a body to a target that is a queue.
    """

    def __init__(
        self,
        settings: ScheduleSettings,
        *,
        functions: Mapping[str, Invocable],
        send: Callable[[QueueTarget, str], None],
    ) -> None:
        super().__init__(settings, name="schedule")
        self._functions = functions
        self._send = send
        self.fired = 0

    def pause(self) -> float:
        """Return the seconds until the next event; a new rate holds from then on."""
        return self._settings.rate.total_seconds()

    def once(self) -> None:
        """Send one event, if the schedule is enabled."""
        if self._settings.enabled:
            self._fire()

    def _fire(self) -> None:
        event = scheduled_event(self._settings, at=datetime.now(UTC))
        for arn in self._settings.function_arns:
            answer = self._functions[arn].invoke(event)
            if answer.function_error and not self._stopped.is_set():
                _logger.warning("a scheduled invocation of %s failed: %s", arn, answer.function_error)
        for target in self._settings.queues:
            try:
                self._send(target, target.body or event.decode())
            except ClientError as error:
                _logger.warning("a schedule could not send to %s: %s", target.queue_arn, error)
        self.fired += 1
