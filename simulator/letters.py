"""The bodies that simulated producers send: real CloudEvents, written as quickly as a million of them need."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from lanes.message import Message

from .kernel import START

KIND = "work"
_ID, _DATA = "-the-id-", "-the-data-"


class Letters:
    """
    Writes bodies after one that `Message.to_body` has written.

    What is in them tells the handler what to do: how many seconds to take, and whether to fail.
    """

    def __init__(self) -> None:
        sample = Message(kind=KIND, id=_ID, data=_DATA, time=datetime.fromtimestamp(START, UTC)).to_body()
        self._head, _, rest = sample.partition(_ID)
        self._middle, _, self._tail = rest.partition(f'"{_DATA}"')

    def write(self, *, lane: str, place: int, number: int, seconds: float, fault: str) -> str:
        """Return the body of the run's message at a place, which is its group's message of that number."""
        told = f',"fault":"{fault}"' if fault else ""
        data = f'{{"seconds":{seconds!r},"number":{number},"place":{place}{told}}}'
        return f"{self._head}{lane}-{place}{self._middle}{data}{self._tail}"


def data_of(body: str) -> dict[str, Any]:
    """Return what such a body tells the handler."""
    data: dict[str, Any] = json.loads(body)["data"]
    return data
