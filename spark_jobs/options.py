"""Options of `format("lanes")`, read and checked on the driver before any task starts."""

from __future__ import annotations

import base64
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lanes.config.deployment import Deployment
from lanes.config.table import nearest
from lanes.errors import ConfigurationError, InvalidMessageError
from lanes.message import Message
from lanes.priority import Priority
from lanes.runs import NAME

from .manifest.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from lanes.aws.clients import Clients

    from .manifest.storage import Storage

SOURCE = 'options of format("lanes")'
# AWS: a FIFO queue has at most 120,000 messages in flight, and reading hides all that it has received until its end
# (SQSDeveloperGuide/quotas-messages).
MAX_DEAD_LETTERS = 100_000
DEAD_LETTERS = 10_000
MAX_BACKLOG = 1_000_000_000
MAX_RUN_ID_LENGTH = 100
# A colon, since times of schedules have them.
RUN_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._:-]{0,99}")
# A part of a message's identity: another source makes other messages of the same rows.
SENDER = "spark"
ORDERINGS = ("group", "none")
ON_ERROR = ("fail", "quarantine")
FLAGS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """
    The options that name the lanes.

    Attributes:
        stack: Name of the stack with the lanes; None if `deployment` is set.
        deployment: The deployment; None if `stack` is set.
        region: AWS region of the lanes; None for that of the environment.
        endpoint_url: Endpoint of SQS and SSM; None for that of the environment.
    """

    stack: str | None = None
    deployment: Deployment | None = None
    region: str | None = None
    endpoint_url: str | None = None

    def clients(self) -> Clients:
        """Give the factory of clients."""
        from lanes.aws.clients import Clients

        return Clients(region=self.region, endpoint_url=self.endpoint_url)

    def find_deployment(self) -> Deployment:
        """
        Give the lanes, on the driver.

        Raises:
            AwsError: They could not be found.
        """
        if self.deployment is not None:
            return self.deployment
        from lanes.aws.clients import read_deployment

        return read_deployment(self.clients().ssm(), str(self.stack))


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterOptions(Place):
    """The options of a write; `LanesDataSource` documents each of them."""

    kind: str | None = None
    source: str = SENDER
    priority: int = int(Priority.BULK)
    max_send_rate: float | None = None
    max_backlog: int | None = None
    ordering: str = "group"
    on_error: str = "fail"
    run_id: str | None = None
    manifest_path: str | None = None
    take_over: bool = False
    follow: bool = False
    on_complete: str = ""

    @classmethod
    def from_options(cls, options: Mapping[str, object]) -> WriterOptions:
        """
        Read the options of `.option(...)`, or of a dict, where numbers may be numbers.

        Names are case-insensitive, as always in Spark. None means not set.

        Raises:
            ConfigurationError: All problems at once.
        """
        values = _Input(options, WRITE_OPTIONS)
        read = cls(**values.fields)
        values.problems.extend(_contradictions(values, read))
        values.check()
        return read

    def storage(self) -> Storage:
        """Give the folder of all manifests."""
        return open_storage(str(self.manifest_path), endpoint_url=self.endpoint_url, region=self.region)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderOptions(Place):
    """The options of a read of dead letters; `LanesDataSource` documents each of them."""

    lane: str | None = None
    limit: int = DEAD_LETTERS

    @classmethod
    def from_options(cls, options: Mapping[str, object]) -> ReaderOptions:
        """
        Read the options of `.option(...)`.

        Raises:
            ConfigurationError: All problems at once.
        """
        values = _Input(options, READ_OPTIONS)
        read = cls(**values.fields)
        values.problems.extend(_no_single_place(values))
        values.check()
        return read


class Option(NamedTuple):
    """
    One option.

    Attributes:
        read: Reads its text; raises `ValueError` or `ConfigurationError`.
        help: What the argument of the jobs does; empty if they have none of that name, or another.
        is_flag: Whether the argument has no value.
    """

    read: Callable[[str], object]
    help: str = ""
    is_flag: bool = False


class _Input:
    """Options by their documented names, the fields that they set, and their problems."""

    def __init__(self, options: Mapping[str, object], known: Mapping[str, Option]) -> None:
        self.problems: list[str] = []
        self.fields: dict[str, Any] = {}
        self._names: set[str] = set()
        names = {name.lower(): name for name in known}
        for key, value in options.items():
            name = names.get(key.lower())
            if name is None:
                self.problems.append(f"unknown option {key!r}{nearest(key, known)}")
            elif value is not None:
                self._names.add(name)
                self._read(name, str(value), known[name].read)

    def check(self) -> None:
        if self.problems:
            raise ConfigurationError(self.problems, source=SOURCE)

    def has(self, name: str) -> bool:
        return name in self._names

    def _read(self, name: str, text: str, read: Callable[[str], object]) -> None:
        try:
            self.fields[field_of(name)] = read(text.strip())
        except ConfigurationError as error:
            self.problems.extend(f"option {name}: {problem}" for problem in error.problems)
        except ValueError as error:
            self.problems.append(f"option {name} is {text!r}; {error}")


def field_of(option: str) -> str:
    """Give the name that an option has in Python."""
    return re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", option)


def _no_single_place(values: _Input) -> Iterator[str]:
    if values.has("stack") == values.has("deployment"):
        yield "set exactly one of the options stack and deployment: it names the lanes"


def _contradictions(values: _Input, read: WriterOptions) -> Iterator[str]:
    yield from _no_single_place(values)
    if values.has("runId") != values.has("manifestPath"):
        yield (
            "options runId and manifestPath belong together: the manifest is stored under the id of the run, so that "
            "a rerun with the same id sends only the missing rows"
        )
    if read.take_over and not values.has("manifestPath"):
        yield "option takeOver needs runId and manifestPath: it takes over the session of a run"
    if read.follow and not values.has("manifestPath"):
        yield "option follow needs runId and manifestPath: the members are the ids recorded there"
    if read.follow and read.run_id is not None and not NAME.fullmatch(read.run_id):
        yield f"option runId is {read.run_id!r}; with option follow it must begin with a letter or digit"
    if read.on_complete and not read.follow:
        yield "option onComplete is about the end of a run, which needs option follow"
    if read.on_error == "quarantine" and not values.has("manifestPath"):
        yield "option onError is 'quarantine', which needs manifestPath: rows that cannot be sent are written there"


def _deployment(text: str) -> Deployment:
    if text.startswith("{"):
        return Deployment.from_json(text)
    try:
        decoded = base64.b64decode(text, validate=True).decode()
    except ValueError:
        decoded = ""
    if decoded.lstrip().startswith("{"):
        return Deployment.from_json(decoded)
    try:
        return Deployment.from_json(Path(text).read_text())
    except OSError as error:
        raise ValueError(
            f"the document as JSON, its base64 form, or a file with it is needed: {error.strerror}"
        ) from error


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


def _source(text: str) -> str:
    try:
        Message(kind="any", source=text).to_body()
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


def _count(text: str, maximum: int) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= maximum:
        raise ValueError(f"a whole number from 1 to {maximum} is needed")
    return int(text)


def _one_of(text: str, allowed: Sequence[str]) -> str:
    if text.lower() not in allowed:
        raise ValueError(f"one of {', '.join(allowed)} is needed")
    return text.lower()


def _run_id(text: str) -> str:
    if not RUN_ID.fullmatch(text):
        raise ValueError(
            f"1 to {MAX_RUN_ID_LENGTH} letters, digits, dots, colons, dashes and underscores are needed, "
            f"no dot and no colon first"
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


def _flag(text: str) -> bool:
    return FLAGS[_one_of(text, tuple(FLAGS))]


PLACE = {
    "stack": Option(_text, "send to the lanes of this stack"),
    "deployment": Option(
        _deployment, "send to the lanes of this deployment document: JSON, its base64 form, or a file with it"
    ),
    "region": Option(_text, "AWS region of the lanes"),
    "endpointUrl": Option(_url, "endpoint of AWS, if it is local"),
}
WRITE_OPTIONS = {
    **PLACE,
    "kind": Option(_kind),
    "source": Option(_source, "CloudEvents source of the messages, a part of their identity (default spark)"),
    "priority": Option(_priority, "a name or a number (default BULK)"),
    "ordering": Option(
        lambda text: _one_of(text, ORDERINGS), "keep the order within a group: group (default), or none"
    ),
    "maxSendRate": Option(_rate, "maximum messages a second of the whole job"),
    "maxBacklog": Option(lambda text: _count(text, MAX_BACKLOG), "pause while more messages wait in a lane"),
    "runId": Option(_run_id, "name of the run in the manifest"),
    "manifestPath": Option(_folder, "folder, local or s3://, to record sent ids in; a rerun sends the rest"),
    "takeOver": Option(
        _flag, "begin although an earlier session of the run has not ended: after a crash", is_flag=True
    ),
    "onError": Option(
        lambda text: _one_of(text, ON_ERROR),
        "at a row that cannot be sent fail (default), or quarantine: set such rows aside beside the manifest",
    ),
    "follow": Option(
        _flag,
        "follow the messages to their end under the name of the run: lanes runs watch NAME",
        is_flag=True,
    ),
    "onComplete": Option(_kind, "with --follow: send a message of this kind when all have ended"),
}
"""The options of a write."""

READ_OPTIONS = {
    **PLACE,
    "lane": Option(_text),
    "limit": Option(lambda text: _count(text, MAX_DEAD_LETTERS)),
}
"""The options of a read of dead letters."""
