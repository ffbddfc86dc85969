"""
Where the lanes of one deployment are: queue addresses, table and the configuration they were made from.

One JSON document: the function reads it from its environment, producers from a parameter of their account.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from lanes.config import Lane, LanesConfig
from lanes.errors import ConfigurationError

VERSION = 1
VARIABLE = "LANES_DEPLOYMENT"
SOURCE = "deployment of lanes"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneQueues:
    """Addresses of a lane's queue and of its dead-letter queue."""

    url: str
    dead_letter_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """
    One deployed set of lanes.

    Attributes:
        config: the lanes as they were deployed, stage included.
        queues: addresses by lane name.
        table: name of the table that keeps attempts.
        outbox: name of the table of the outbox, None where the stack has none.
    """

    config: LanesConfig
    queues: Mapping[str, LaneQueues]
    table: str
    outbox: str | None = None

    def to_json(self) -> str:
        """Write the document, brief because a function's environment holds 4 KB in all."""
        document: dict[str, Any] = {
            "version": VERSION,
            "config": self.config.to_dict(brief=True),
            "queues": {
                name: {"url": queues.url, "dead_letter_url": queues.dead_letter_url}
                for name, queues in self.queues.items()
            },
            "table": self.table,
        }
        if self.outbox is not None:
            document["outbox"] = self.outbox
        return json.dumps(document, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Deployment:
        """
        Read the document.

        Raises:
            ConfigurationError: it is not such a document, or of another version, or incomplete.
        """
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigurationError([f"not a JSON document: {error}"], source=SOURCE) from error
        if not isinstance(document, dict) or document.get("version") != VERSION:
            found = document.get("version") if isinstance(document, dict) else document
            raise ConfigurationError(
                [f"version {found!r} can't be read; version {VERSION} is needed: deploy with this release"],
                source=SOURCE,
            )
        config = LanesConfig.from_dict(document.get("config", {}))
        problems: list[str] = []
        queues = _queues(document.get("queues"), config, problems)
        table = document.get("table")
        if not isinstance(table, str) or not table:
            problems.append("table is missing")
        outbox = document.get("outbox")
        if outbox is not None and (not isinstance(outbox, str) or not outbox):
            problems.append("outbox is no table's name")
        if problems:
            raise ConfigurationError(problems, source=SOURCE)
        return cls(config=config, queues=queues, table=str(table), outbox=outbox)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Deployment:
        """
        Read the document from the variable LANES_DEPLOYMENT.

        Raises:
            ConfigurationError: the variable is missing or its content can't be read.
        """
        text = (os.environ if environ is None else environ).get(VARIABLE)
        if not text:
            raise ConfigurationError(
                [f"the variable {VARIABLE} is not set; the stack sets it on its function"], source=SOURCE
            )
        return cls.from_json(text)

    def lane_of_queue(self, name_or_arn: str) -> Lane:
        """
        Give the lane whose queue has this name, ARN or URL.

        Raises:
            KeyError: the queue is none of the lanes'.
        """
        wanted = _queue_name(name_or_arn)
        for lane in self.config.lanes:
            if _queue_name(self.queues[lane.name].url) == wanted:
                return lane
        known = ", ".join(_queue_name(queues.url) for queues in self.queues.values())
        raise KeyError(f"queue {wanted!r} is no lane of this deployment; lanes: {known}")


def _queue_name(address: str) -> str:
    return address.rstrip("/").rpartition("/")[2].rpartition(":")[2]


def _queues(raw: Any, config: LanesConfig, problems: list[str]) -> dict[str, LaneQueues]:
    entries = raw if isinstance(raw, Mapping) else {}
    names = [lane.name for lane in config.lanes]
    problems.extend(f"queues: {name} is no lane" for name in entries if name not in names)
    queues = {}
    for name in names:
        entry = entries.get(name)
        entry = entry if isinstance(entry, Mapping) else {}
        urls = {key: entry.get(key) for key in ("url", "dead_letter_url")}
        problems.extend(
            f"queues: {name} has no {key}" for key, url in urls.items() if not (isinstance(url, str) and url)
        )
        queues[name] = LaneQueues(url=str(urls["url"]), dead_letter_url=str(urls["dead_letter_url"]))
    return queues
