"""The receives of the FIFO queues, as the server answered them: a file with a line of JSON for each message."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from lanes.testing.fifo.message import ReceivedMessage


@dataclass(frozen=True, slots=True, kw_only=True)
class Receive:
    """One message of one receive; `sent_at` is in epoch seconds."""

    queue: str
    group: str
    sequence: int
    sent_at: float
    receive_count: int
    body: str


def write_receives(path: Path, queue: str, messages: Sequence[ReceivedMessage]) -> None:
    """Add the messages of one receive to a file."""
    with path.open("a", encoding="utf-8") as file:
        for message in messages:
            receive = Receive(
                queue=queue,
                group=message.group,
                sequence=message.sequence_number,
                sent_at=message.sent_at,
                receive_count=message.receive_count,
                body=message.body,
            )
            file.write(json.dumps(asdict(receive)) + "\n")


def read_receives(path: Path) -> Iterator[Receive]:
    """Read the receives so far, in their order."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield Receive(**json.loads(line))
