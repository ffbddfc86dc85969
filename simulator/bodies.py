"""The bodies that simulated producers send: real CloudEvents, written fast enough for a million of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from lanes.message import Message
from lanes.testing.clock import START

KIND = "work"
_ID, _DATA = "-the-id-", "-the-data-"


class Bodies:
    """
    Write bodies from a template made by `Message.to_body`.

    Their data controls the handler: its seconds, and whether it fails.
    """

    def __init__(self) -> None:
        sample = Message(kind=KIND, id=_ID, data=_DATA, time=datetime.fromtimestamp(START, UTC)).to_body()
        self._head, _, rest = sample.partition(_ID)
        self._middle, _, self._tail = rest.partition(f'"{_DATA}"')

    def write(self, *, lane: str, place: int, number: int, seconds: float, fault: str) -> str:
        """Return the body of a message, by its place in the run and its number in its group."""
        extra = f',"fault":"{fault}"' if fault else ""
        data = f'{{"seconds":{seconds!r},"number":{number},"place":{place}{extra}}}'
        return f"{self._head}{lane}-{place}{self._middle}{data}{self._tail}"


def data_of(body: str) -> dict[str, Any]:
    """Return the data for the handler in such a body."""
    data: dict[str, Any] = json.loads(body)["data"]
    return data
