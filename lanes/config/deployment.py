"""
The lanes of one deployment: queue URLs, tables and the configuration that was deployed.

It is one JSON document. The function reads it from its environment, producers from a parameter of their account.
A reader ignores settings and queues that it does not know. The version is that of the oldest reader: a document that an
older one must not read has a higher version.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from lanes.config.model import LanesConfig
from lanes.config.reading import known_settings, resolve
from lanes.config.settings import EngineName
from lanes.config.table import describe
from lanes.errors import ConfigurationError

if TYPE_CHECKING:
    from lanes.config.settings import Lane
    from lanes.schedules import Scheduler

VERSION = 1
VARIABLE = "LANES_DEPLOYMENT"
HANDLER_VARIABLE = "LANES_HANDLER"
"""Names the module and function of a consumer's code, as in `handler.lambda_handler`."""
SOURCE = "deployment of lanes"
POINTED = ("parameter", "table")


def pointer(parameter: str, *, table: str) -> str:
    """Write the variable of a function whose document is in a parameter, since it is too large for a variable."""
    return json.dumps({"version": VERSION, "parameter": parameter, "table": table}, separators=(",", ":"))


def pointed(text: str | None) -> Mapping[str, str] | None:
    """Return the `parameter` and `table` that `pointer` wrote; None for a document, or for anything else."""
    try:
        found = json.loads(text or "")
    except (ValueError, RecursionError):
        return None
    is_pointer = isinstance(found, dict) and all(isinstance(found.get(key), str) for key in POINTED)
    return found if is_pointer else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneQueues:
    """URLs of a lane's queue and of its dead-letter queue; `existing` if the stack uses but does not define them."""

    url: str
    dead_letter_url: str
    existing: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """
    One deployed set of lanes.

    Attributes:
        config: the lanes of the deployed stage.
        queues: URLs by name of the lane.
        table: name of the ledger's table.
        outbox: name of the outbox's table, or None if the stack has no outbox.
        bell: URL of the queue that starts invocations of the pull engine, or None if the stack has none.
        scheduler: group, role and queue of EventBridge Scheduler, or None if the stack has none.
    """

    config: LanesConfig
    queues: Mapping[str, LaneQueues]
    table: str
    outbox: str | None = None
    bell: str | None = None
    scheduler: Scheduler | None = None

    def to_json(self) -> str:
        """Write the document, without default values, since a function's environment holds only 4 KB."""
        document: dict[str, Any] = {
            "version": VERSION,
            "config": self.config.to_dict(brief=True),
            "queues": {
                name: {"url": queues.url, "dead_letter_url": queues.dead_letter_url}
                | ({"existing": True} if queues.existing else {})
                for name, queues in self.queues.items()
            },
            "table": self.table,
        }
        scheduler = None
        if self.scheduler is not None:
            scheduler = {key: value for key, value in asdict(self.scheduler).items() if value is not None}
        optional = {"outbox": self.outbox, "bell": self.bell, "scheduler": scheduler}
        # Absent rather than null: AWS limits all variables of a function to 4 KB together (Lambda quotas).
        document |= {key: value for key, value in optional.items() if value is not None}
        return json.dumps(document, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str, *, source: str = SOURCE) -> Deployment:
        """
        Read the document.

        Args:
            text: the document.
            source: where it comes from, for errors.

        Raises:
            ConfigurationError: the document is invalid, incomplete, or for readers of a later release.
        """
        try:
            document = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigurationError([f"not a JSON document: {error}"], source=source) from error
        version = document.get("version") if isinstance(document, dict) else document
        # Stop rather than guess: the records stay in their queues, and a sender has its messages.
        if not isinstance(document, dict) or version != VERSION:
            problem = (
                f"version {version!r} is not supported, only {VERSION}; install the release of the deployment, "
                "or deploy with this one"
            )
            raise ConfigurationError([problem], source=source)
        config = LanesConfig(**resolve(known_settings(document.get("config", {})), source=source))
        problems: list[str] = []
        queues = _queues(document.get("queues"), config, problems)
        table = document.get("table")
        if not isinstance(table, str) or not table:
            problems.append("table is missing")
        outbox = _optional(document, "outbox", "the name of a table", problems)
        bell = _optional(document, "bell", "the URL of a queue", problems)
        if document.get("bell") is None and config.consumer.engine is EngineName.PULL:
            problems.append(
                'bell is missing: with engine = "pull" it is the URL of the queue that starts invocations; '
                "deploy with this release"
            )
        scheduler = _scheduler(document.get("scheduler"), problems)
        if problems:
            raise ConfigurationError(problems, source=source)
        return cls(
            config=config, queues=queues, table=str(table), outbox=outbox, bell=bell, scheduler=scheduler
        )

    @classmethod
    def from_env(cls, environ: Mapping[str, str] | None = None) -> Deployment:
        """
        Read the document from the variable LANES_DEPLOYMENT.

        Raises:
            ConfigurationError: the variable is missing or invalid.
        """
        text = (os.environ if environ is None else environ).get(VARIABLE)
        if not text:
            raise ConfigurationError(
                [f"the variable {VARIABLE} is not set; the stack sets it on its function"], source=SOURCE
            )
        return cls.from_json(text, source=f"variable {VARIABLE}")

    def lane_of_queue(self, name_or_arn: str) -> Lane:
        """
        Return the lane of a queue, by the queue's name, ARN or URL.

        Raises:
            ConfigurationError: no lane of the deployment has this queue.
        """
        wanted = _queue_name(name_or_arn)
        for lane in self.config.lanes:
            if _queue_name(self.queues[lane.name].url) == wanted:
                return lane
        known = ", ".join(_queue_name(queues.url) for queues in self.queues.values())
        text = f"queue {wanted!r} is not a lane of this deployment; lanes: {known}"
        raise ConfigurationError([text], source="event of the mapping")

    def reads(self, name_or_arn: str) -> bool:
        """Check whether the consumer reads a queue, by its name, ARN or URL: that of a lane, or the bell."""
        names = {_queue_name(queues.url) for queues in self.queues.values()}
        return _queue_name(name_or_arn) in names or self.is_bell(name_or_arn)

    def is_bell(self, name_or_arn: str) -> bool:
        """Check whether a queue, by its name, ARN or URL, is the bell."""
        return self.bell is not None and _queue_name(self.bell) == _queue_name(name_or_arn)


def _queue_name(address: str) -> str:
    return address.rstrip("/").rpartition("/")[2].rpartition(":")[2]


def _optional(document: Mapping[str, Any], key: str, meaning: str, problems: list[str]) -> str | None:
    value = document.get(key)
    if value is None or (isinstance(value, str) and value):
        return value
    problems.append(f"{key} must be {meaning}, not {describe(value)}")
    return None


def _scheduler(raw: Any, problems: list[str]) -> Scheduler | None:
    if raw is None:
        return None
    from lanes.schedules import Scheduler

    entry = raw if isinstance(raw, Mapping) else {}
    values = {field.name: entry.get(field.name, field.default) for field in fields(Scheduler)}
    problems.extend(
        f"scheduler: {name} is missing"
        for name, value in values.items()
        if value is not None and not (isinstance(value, str) and value)
    )
    return Scheduler(**values)


def _queues(raw: Any, config: LanesConfig, problems: list[str]) -> dict[str, LaneQueues]:
    entries = raw if isinstance(raw, Mapping) else {}
    names = [lane.name for lane in config.lanes]
    queues = {}
    for name in names:
        entry = entries.get(name)
        entry = entry if isinstance(entry, Mapping) else {}
        urls = {key: entry.get(key) for key in ("url", "dead_letter_url")}
        problems.extend(
            f"queues: {name} has no {key}" for key, url in urls.items() if not (isinstance(url, str) and url)
        )
        queues[name] = LaneQueues(
            url=str(urls["url"]),
            dead_letter_url=str(urls["dead_letter_url"]),
            existing=entry.get("existing") is True,
        )
    return queues
