"""Options of `format("lanes")`, read and checked on the driver before any task starts."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from lanes.config_table import nearest
from lanes.deployment import Deployment
from lanes.errors import ConfigurationError, InvalidMessageError
from lanes.message import Message
from lanes.priority import Priority

from .sending import CONCURRENCY
from .storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

T = TypeVar("T")

SOURCE = 'options of format("lanes")'
NAMES = (
    "stack",
    "deployment",
    "region",
    "endpointUrl",
    "kind",
    "priority",
    "shards",
    "maxSendRate",
    "maxBacklog",
    "maxTasks",
    "concurrency",
    "ordering",
    "onError",
    "runId",
    "manifestPath",
)
# SQS takes ten messages a call in some ten milliseconds, so this is more than one task can prepare.
MOST_CALLS = 64
MOST_WAITING = 1_000_000_000
LONGEST_RUN_ID = 100
RUN_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}")
ORDERINGS = ("group", "none")
ON_ERROR = ("fail", "quarantine")
# AWS: a FIFO queue looks at its first 120,000 messages for groups that are free, so more groups spread no
# better (SQSDeveloperGuide/avoid-backlog-with-the-same-message-group-id).
MOST_SHARDS = 120_000
MOST_TASKS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions:
    """
    What a job asked for; `LanesDataSource` says what each option means.

    Attributes:
        stack: name of the stack whose lanes are meant; None where the deployment is given.
        deployment: the deployment itself; None where the stack is given.
        region: AWS region of the lanes; None leaves it to the environment.
        endpoint_url: address of SQS and SSM; None leaves it to the environment.
        kind: kind of rows that name none themselves.
        priority: priority of rows that name none themselves.
        shards: number of groups for rows without one; None makes each of them its own group.
        max_send_rate: messages a second of the whole job.
        max_backlog: messages waiting in a lane from which on the job holds back.
        max_tasks: how many tasks share rate and backlog; None leaves it to Spark's settings.
        concurrency: most calls on their way for each task.
        ordering: `group` keeps the order within a group, `none` takes rows as independent.
        on_error: what becomes of a row that can't be a message: `fail` or `quarantine`.
        run_id: names what a rerun completes.
        manifest_path: folder of the manifests.
    """

    stack: str | None = None
    deployment: Deployment | None = None
    region: str | None = None
    endpoint_url: str | None = None
    kind: str | None = None
    priority: int = int(Priority.BULK)
    shards: int | None = None
    max_send_rate: float | None = None
    max_backlog: int | None = None
    max_tasks: int | None = None
    concurrency: int = CONCURRENCY
    ordering: str = "group"
    on_error: str = "fail"
    run_id: str | None = None
    manifest_path: str | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, object]) -> WriterOptions:
        """
        Read what was given with `.option(...)`, or as a dict, in which numbers needn't be texts.

        The case of names makes no difference, as always in Spark; None is as good as nothing.

        Raises:
            ConfigurationError: with every problem at once.
        """
        given = _Given(options)
        read = cls(
            stack=given.read("stack", _text),
            deployment=given.read("deployment", Deployment.from_json),
            region=given.read("region", _text),
            endpoint_url=given.read("endpointUrl", _url),
            kind=given.read("kind", _kind),
            priority=given.read("priority", _priority, default="BULK") or 0,
            shards=given.read("shards", lambda text: _count(text, MOST_SHARDS)),
            max_send_rate=given.read("maxSendRate", _rate),
            max_backlog=given.read("maxBacklog", lambda text: _count(text, MOST_WAITING)),
            max_tasks=given.read("maxTasks", lambda text: _count(text, MOST_TASKS)),
            concurrency=given.read("concurrency", lambda text: _count(text, MOST_CALLS)) or CONCURRENCY,
            ordering=given.read("ordering", lambda text: _one_of(text, ORDERINGS)) or "group",
            on_error=given.read("onError", lambda text: _one_of(text, ON_ERROR)) or "fail",
            run_id=given.read("runId", _run_id),
            manifest_path=given.read("manifestPath", _folder),
        )
        given.problems.extend(_contradictions(given, read))
        if given.problems:
            raise ConfigurationError(given.problems, source=SOURCE)
        return read


class _Given:
    """Options by their documented names, and what is wrong with them."""

    def __init__(self, options: Mapping[str, object]) -> None:
        self.problems: list[str] = []
        self._values: dict[str, str] = {}
        names = {name.lower(): name for name in NAMES}
        for key, value in options.items():
            if key.lower() in names:
                if value is not None:
                    self._values[names[key.lower()]] = str(value)
            else:
                self.problems.append(f"unknown option {key!r}{nearest(key, NAMES)}")

    def has(self, name: str) -> bool:
        return name in self._values

    def read(self, name: str, reader: Callable[[str], T], *, default: str | None = None) -> T | None:
        text = self._values.get(name, default)
        if text is None:
            return None
        try:
            return reader(text.strip())
        except ConfigurationError as error:
            self.problems.extend(f"option {name}: {problem}" for problem in error.problems)
        except ValueError as error:
            self.problems.append(f"option {name} is {text!r}; {error}")
        return None


def _contradictions(given: _Given, read: WriterOptions) -> Iterator[str]:
    if given.has("stack") == given.has("deployment"):
        yield "exactly one of the options stack and deployment is needed: it says where the lanes are"
    if given.has("maxTasks") and not (given.has("maxSendRate") or given.has("maxBacklog")):
        yield "option maxTasks divides maxSendRate and maxBacklog, and neither is set"
    if given.has("runId") != given.has("manifestPath"):
        yield (
            "options runId and manifestPath belong together: the manifest of a run is kept under its id, so that "
            "a rerun with the same id sends only what is missing"
        )
    if read.on_error == "quarantine" and not given.has("manifestPath"):
        yield "option onError is 'quarantine'; manifestPath is needed, rows that can't be sent are put there"


def _text(text: str) -> str:
    if not text:
        raise ValueError("a name is needed")
    return text


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise ValueError("an address that starts with http:// or https:// is needed")
    return text


def _kind(text: str) -> str:
    try:
        Message(kind=text).to_body()
    except InvalidMessageError as error:
        raise ConfigurationError(error.problems) from error
    return text


def _priority(text: str) -> int:
    named = Priority.__members__.get(text.upper())
    if named is not None:
        return int(named)
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"a whole number or one of {', '.join(Priority.__members__)} is needed") from None


def _count(text: str, most: int) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise ValueError(f"a whole number from 1 to {most} is needed")
    return int(text)


def _one_of(text: str, allowed: Sequence[str]) -> str:
    if text.lower() not in allowed:
        raise ValueError(f"one of {', '.join(allowed)} is needed")
    return text.lower()


def _run_id(text: str) -> str:
    if not RUN_ID.fullmatch(text):
        raise ValueError(
            f"1 to {LONGEST_RUN_ID} letters, digits, dots, dashes and underscores are needed, no dot first"
        )
    return text


def _folder(text: str) -> str:
    open_storage(text, endpoint_url=None, region=None)
    return text.rstrip("/")


def _rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise ValueError("a number of messages a second above 0 is needed")
    return rate
