"""The lines that deployed functions print, for tests that wait for one."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

from tests.support.waiting import TIMEOUT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable


class FunctionLines:
    """Collects lines; give it to a platform as `on_line`."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._seen: list[str] = []

    def __call__(self, _function: str, line: str) -> None:
        """Take a line."""
        with self._changed:
            self._seen.append(line)
            self._changed.notify_all()

    def wait_for(self, text: str) -> str:
        """Return the first line that contains a text, once there is one."""
        return self._wait(lambda: next((line for line in self._seen if text in line), ""))

    def wait_for_events(self, name: str, *message_ids: str) -> list[dict[str, Any]]:
        """Return the log events of this name about these messages, once there is one for each."""

        def found() -> list[dict[str, Any]]:
            events = [json.loads(line) for line in self._seen if f'"{name}"' in line]
            by_id = {event.get("id"): event for event in events if event.get("event") == name}
            return [by_id[one] for one in message_ids] if by_id.keys() >= set(message_ids) else []

        return self._wait(found)

    def _wait(self, found: Callable[[], Any]) -> Any:
        with self._changed:
            self._changed.wait_for(found, TIMEOUT_SECONDS)
            result = found()
        assert result, self._seen[-100:]
        return result
