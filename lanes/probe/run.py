"""One probe: deploy, measure, write events and profile, and destroy the stack whatever happens."""

from __future__ import annotations

import contextlib
import json
import signal
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from lanes.errors import ConfigurationError, LanesError
from lanes.probe.analysis import analysed
from lanes.probe.experiments import EXPERIMENTS, Bench, IncompleteError
from lanes.probe.stack import StackError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from lanes.probe.experiments import Event, Plan, Stand
    from lanes.probe.profile import Profile


class Deployable(Protocol):
    """The stack of the probe."""

    def deploy(self) -> tuple[Mapping[str, str], str]:
        """Deploy, and return URLs of queues by name and the name of the table."""

    def destroy(self) -> None:
        """Destroy, if there is a stack."""


def events_beside(profile: Path) -> Path:
    """Return the file of the recorded events, a JSON object a line, beside a profile."""
    return profile.with_suffix(".events.jsonl")


def run(
    stack: Deployable,
    stand_of: Callable[[Mapping[str, str], str], Stand],
    plan: Plan,
    out: Path,
    *,
    names: Sequence[str],
    now: datetime,
    region: str,
    report: Callable[[str], None],
) -> Profile:
    """
    Deploy, run the named experiments or all, write the files, and return the profile.

    Args:
        stack: of the probe.
        stand_of: connects to the deployed stack, with its queues and table.
        plan: repetitions and times.
        out: the profile; beside it, events are written as they come.
        names: experiments; empty for all.
        now: time for the profile.
        region: for the profile.
        report: called with lines about the progress.

    Raises:
        LanesError: from the stack or from AWS; the stack is destroyed.
        KeyboardInterrupt: after the stack is destroyed.
    """
    events: list[Event] = []
    incomplete: list[str] = []
    with _open(events_beside(out)) as lines, _terminated_as_interrupted():

        def keep(new: Sequence[Event]) -> None:
            events.extend(new)
            lines.writelines(json.dumps(event) + "\n" for event in new)
            lines.flush()

        keep([{"run": "probe", "event": "probe", "at": now.timestamp(), "region": region}])
        with _destroyed_at_the_end(stack, report):
            report("deploying the stack ...")
            bench = Bench(stand_of(*stack.deploy()), plan, keep=keep)
            for name in [name for name in EXPERIMENTS if not names or name in names]:
                report(f"{name}: about {plan.seconds[name]:.0f} s ...")
                try:
                    EXPERIMENTS[name](bench)
                except IncompleteError as error:
                    # The others need nothing of it.
                    incomplete.append(str(error))
                    report(f"incomplete: {error}")
    return write(events, out, incomplete=incomplete)


def write(events: Sequence[Event], out: Path, *, incomplete: Sequence[str] = ()) -> Profile:
    """
    Analyse events, write the profile, and return it.

    Raises:
        ConfigurationError: the file can't be written.
    """
    profile = analysed(events, incomplete=incomplete)
    with _open(out) as file:
        file.write(profile.to_toml())
    return profile


def read_events(path: Path) -> list[Event]:
    """
    Read the events of an earlier probe.

    Raises:
        ConfigurationError: the file can't be read, or a line is not an event.
    """
    events: list[Event] = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError([f"the file cannot be read: {error}"], source=str(path)) from error
    for number, line in enumerate(lines, start=1):
        try:
            event: Any = json.loads(line)
        except ValueError:
            event = None
        if not isinstance(event, dict) or not {"run", "event", "at"} <= event.keys():
            problem = f"line {number} is not an event of a probe. Use a JSON object with run, event and at"
            raise ConfigurationError([problem], source=str(path))
        events.append(event)
    return events


def _open(path: Path) -> TextIO:
    try:
        return path.open("w", encoding="utf-8")
    except OSError as error:
        problem = f"the file cannot be written: {error.strerror or type(error).__name__}"
        raise ConfigurationError([problem], source=str(path)) from error


@contextlib.contextmanager
def _destroyed_at_the_end(stack: Deployable, report: Callable[[str], None]) -> Iterator[None]:
    """Destroy the stack whatever happens; an error of that follows the first one and does not replace it."""
    try:
        yield
    except BaseException as error:
        report("destroying the stack ...")
        try:
            stack.destroy()
        except LanesError as left:
            raise StackError(f"{str(error) or 'interrupted'}\n{left}") from error
        raise
    report("destroying the stack ...")
    stack.destroy()


@contextlib.contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM clean up as Ctrl-C does."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
