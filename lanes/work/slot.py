"""A slot of `lanes work`: the process of one consumer, which is imported by its name."""

from __future__ import annotations

import dataclasses
import importlib
import io
import os
import signal
import sys
import threading
import time
import traceback
import uuid
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lanes.config.deployment import Deployment
from lanes.config.table import nearest
from lanes.consumer import Consumer
from lanes.errors import ConfigurationError
from lanes.work.supervisor import BEGAN, ENDED, REFUSED, search_path

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

SOURCE = "MODULE:CONSUMER"


def split_name(name: str) -> tuple[str, str]:
    """
    Split `module:consumer`.

    Raises:
        ConfigurationError: it has no such form.
    """
    module, _, attribute = name.partition(":")
    if all(part.isidentifier() for part in (*module.split("."), attribute)):
        return module, attribute
    problem = (
        f"{name!r} is not of the form MODULE:CONSUMER; write the module as in an import, such as "
        f"orders.handler:consumer for the name consumer in orders/handler.py"
    )
    raise ConfigurationError([problem], source=SOURCE)


def load_consumer(name: str) -> Consumer:
    """
    Import a consumer; modules in the working directory are found before installed ones.

    Raises:
        ConfigurationError: there is no such module or name, the import fails, or it is no consumer.
    """
    module_name, attribute = split_name(name)
    # An installed command has its own folder there, not the one that it was started in.
    sys.path[:] = search_path(sys.path, folder=Path.cwd())
    module = _imported(module_name)
    found: Any = getattr(module, attribute, None)
    if isinstance(found, Consumer):
        return found
    consumers = [key for key, value in vars(module).items() if isinstance(value, Consumer)]
    known = nearest(attribute, consumers) if consumers else "; the module has no lanes.Consumer"
    is_there = hasattr(module, attribute)
    problem = (
        f"it is of type {type(found).__name__}, no lanes.Consumer" if is_there else "there is no such name"
    )
    problem = f"{name}: {problem}{known}{_hidden_modules()}"
    raise ConfigurationError([problem], source=SOURCE)


def _imported(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _failed(name, error) from error
        problem = (
            f"there is no module {error.name!r} in {Path.cwd()} or among the installed packages; "
            f"start the command in the folder that has it"
        )
        raise ConfigurationError([problem], source=SOURCE) from error
    # A module that ends the program when it is imported would end the slot without a reason.
    except (Exception, SystemExit) as error:
        raise _failed(name, error) from error


def _failed(name: str, error: BaseException) -> ConfigurationError:
    """Print where the module's code failed, which is the user's to mend."""
    traceback.print_exception(error)
    problem = f"{name} could not be imported: {type(error).__name__}: {error}{_hidden_modules()}"
    return ConfigurationError([problem], source=SOURCE)


def _hidden_modules() -> str:
    """Name the modules of the working directory that Python's own hide; they may be the cause of a failed import."""
    folder = Path.cwd()
    modules = [*folder.glob("*.py"), *(package.parent for package in folder.glob("*/__init__.py"))]
    hidden = sorted(module.name for module in modules if module.stem in sys.stdlib_module_names)
    if not hidden:
        return ""
    return f"; Python's own modules hide {', '.join(hidden)} in {folder}: give them other names"


class Stop:
    """Whether the slot is to stop. Signal handlers set it, so it has no lock."""

    is_asked = False

    def ask(self, *_signal: object) -> None:
        """Stop after the record in hand."""
        self.is_asked = True

    def wait(self, seconds: float) -> None:
        """Wait, but not for longer than until a stop."""
        until = time.monotonic() + seconds
        while not self.is_asked and time.monotonic() < until:
            # Not an event: a signal handler that sets one may wait for its lock for ever.
            time.sleep(0.1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of a slot, in place of Lambda's context; after a stop it has no time left, so no record starts."""

    ends_at: float
    stop: Stop
    clock: Callable[[], float] = time.monotonic
    aws_request_id: str = dataclasses.field(default_factory=lambda: str(uuid.uuid4()))

    def get_remaining_time_in_millis(self) -> int:
        """Return the time that is left."""
        return 0 if self.stop.is_asked else max(0, int((self.ends_at - self.clock()) * 1000))

    def is_stopped(self) -> bool:
        """Whether the slot is to stop."""
        return self.stop.is_asked


def main(control_fd: str, number: str, consumer: str) -> None:
    """
    Run a slot until the supervisor stops it.

    Args:
        control_fd: the connection to the supervisor, which it passed on.
        number: of the slot.
        consumer: `MODULE:CONSUMER`.
    """
    control, stop = Connection(int(control_fd)), Stop()
    # A program that a handler starts would keep the connection open, and the supervisor would never see its end.
    os.set_inheritable(control.fileno(), False)
    for number_of_signal in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number_of_signal, stop.ask)
    threading.Thread(target=_obey, args=(control, stop), daemon=True).start()
    write_whole_lines()
    try:
        timeout = Deployment.from_env().config.consumer.function_timeout.total_seconds()
        loaded = load_consumer(consumer)
        # Without time nothing is received, but the clients are made, which may take longer than a run.
        loaded.work(Run(ends_at=0.0, stop=stop), slot=int(number))
    except ConfigurationError as error:
        control.send((REFUSED, "; ".join(error.problems)))
        sys.exit(1)
    serve(loaded, int(number), timeout=timeout, stop=stop, report=lambda word: control.send((word, "")))


def serve(
    consumer: Consumer, number: int, *, timeout: float, stop: Stop, report: Callable[[str], None]
) -> None:
    """Make runs until a stop, each as long as an invocation may be."""
    while not stop.is_asked:
        report(BEGAN)
        pause = consumer.work(Run(ends_at=time.monotonic() + timeout, stop=stop), slot=number)
        report(ENDED)
        stop.wait(pause)


def write_whole_lines() -> None:
    """Write each line of standard output at once and whole, so that the lines of processes never mix."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True, write_through=False)


def _obey(control: Connection, stop: Stop) -> None:
    """Stop on the supervisor's word; without a supervisor, end at once: the next one may start its slots already."""
    try:
        control.recv()
        stop.ask()
        control.recv()
    except (EOFError, OSError):
        os.killpg(0, signal.SIGKILL)
