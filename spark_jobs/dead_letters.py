"""Dead letters as a table: `spark.read.format("lanes")`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition

from lanes.errors import ConfigurationError, LanesError
from lanes.operate.dead_letters import LARGEST_RECEIVE, DeadLetterFilter, details_of, list_dead_letters

from .options import SOURCE, ReaderOptions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lanes.config.deployment import Deployment
    from lanes.operate.dead_letters import DeadLetteredMessage

SCHEMA = (
    "lane string, id string, kind string, group string, data string, reason string, error string, attempts int, "
    "sent_at timestamp, first_received_at timestamp, dead_lettered_at timestamp, message_id string, body string"
)
# If a task is killed, its dead letters stay hidden for so long. A read of 10,000 is a thousand calls.
HOLD = timedelta(minutes=5)
# Each brings at most ten within some 20 ms, and one after the other they would not end 100,000 within the hold.
RECEIVES = 16


class DeadLettersHiddenError(LanesError):
    """A read misses dead letters, though none is behind ten others of its group."""

    def __init__(self, lane: str, *, read: int, missing: int) -> None:
        super().__init__(
            f"{read:,} dead letters of {lane} were read, and about {missing:,} more are hidden: another reader has "
            f"received them, or this one took longer than {HOLD}. Read again, alone"
        )


class DeadLetterReader(DataSourceReader):
    """
    Reads the dead-letter queues, one partition for each lane; Spark copies it to the tasks.

    Args:
        options: The options.
        deployment: The lanes.
    """

    def __init__(self, options: ReaderOptions, deployment: Deployment) -> None:
        self._options = options
        self._deployment = deployment

    @classmethod
    def open(cls, options: Mapping[str, object]) -> DeadLetterReader:
        """
        Check the options and find the lanes.

        Raises:
            ConfigurationError: All problems at once.
            AwsError: The lanes could not be found.
        """
        read = ReaderOptions.from_options(options)
        deployment = read.find_deployment()
        if read.lane is not None and read.lane not in deployment.queues:
            names = ", ".join(deployment.queues)
            problem = f"option lane is {read.lane!r}; one of {names} is needed"
            raise ConfigurationError([problem], source=SOURCE)
        return cls(read, deployment)

    def partitions(self) -> list[InputPartition]:
        """Give a partition for each lane: a queue with several readers hides messages from each of them."""
        lanes = self._deployment.queues if self._options.lane is None else [self._options.lane]
        return [InputPartition(lane) for lane in lanes]

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Give the dead letters of a lane, on the worker."""
        from lanes.aws.dead_letters import DeadLetterQueueCalls

        listing = list_dead_letters(
            DeadLetterQueueCalls(deployment=self._deployment, client=self._options.clients().sqs()),
            partition.value,
            DeadLetterFilter(),
            limit=self._options.limit,
            hold=HOLD,
            at_once=RECEIVES,
        )
        of_group = Counter(letter.group for letter in listing.letters)
        is_cut = len(listing.letters) >= self._options.limit
        if listing.beyond and not is_cut and max(of_group.values(), default=0) < LARGEST_RECEIVE:
            raise DeadLettersHiddenError(partition.value, read=len(listing.letters), missing=listing.beyond)
        missing = listing.received - len(listing.letters) + listing.beyond
        if missing:
            line = {"event": "dead_letters_not_read", "lane": partition.value, "about": missing}
            sys.stderr.write(json.dumps(line) + "\n")
        return map(row_of, listing.letters)


def row_of(letter: DeadLetteredMessage) -> tuple[Any, ...]:
    """Give the columns of `SCHEMA`."""
    details = details_of(letter)
    return (
        letter.lane,
        letter.event_id or None,
        letter.kind or None,
        letter.group,
        _data(letter.body) if letter.kind else None,
        letter.reason,
        letter.error or None,
        details["attempts"],
        details["sent_at"],
        details["first_received_at"],
        details["given_up_at"],
        letter.message_id,
        letter.body,
    )


def _data(body: str) -> str:
    return json.dumps(json.loads(body).get("data"), ensure_ascii=False)
