"""The running platform of an app, as its folder records it for `lanes local run`."""

import contextlib
import fcntl
import json
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from lanes.errors import ConfigurationError

_ANSWER_SECONDS = 2.0


def build_folder(app: Path) -> Path:
    """Return the folder for logs, code and state of an app that runs on this machine."""
    return app / "build" / "local"


def _file(app: Path) -> Path:
    return build_folder(app) / "running.json"


@contextlib.contextmanager
def claimed(app: Path) -> Iterator[Callable[[Mapping[str, str]], None]]:
    """
    Claim an app's folder for one platform while the block runs.

    Yields:
        A function that records the variables that lead to the running app.

    Raises:
        ConfigurationError: the app runs already, or its folder can't be written to.
    """
    file = _file(app)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        opened = file.open("a+")
    except OSError as error:
        problem = (
            f"{file.parent}: {error.strerror}; logs and code of the running app need a folder to write to"
        )
        raise ConfigurationError([problem], source="lanes local") from error
    with opened as record:
        try:
            # The system releases it when the process ends, however that is.
            fcntl.flock(record, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _runs_already(app, file) from error
        record.truncate(0)

        def write(variables: Mapping[str, str]) -> None:
            record.write(json.dumps(dict(variables)))
            record.flush()

        try:
            yield write
        finally:
            record.truncate(0)


def _runs_already(app: Path, file: Path) -> ConfigurationError:
    text = file.read_text()
    state = f"runs already at {json.loads(text)['AWS_ENDPOINT_URL']}" if text else "is being deployed already"
    problem = f"{app} {state}: reach it with `lanes local run`, or stop the other `lanes local up` with Ctrl-C first"
    return ConfigurationError([problem], source="lanes local")


def running(app: Path) -> dict[str, str]:
    """
    Return the variables that lead to the running app.

    Raises:
        ConfigurationError: it does not run.
    """
    try:
        variables: dict[str, str] = json.loads(_file(app).read_text())
        address = urlsplit(variables["AWS_ENDPOINT_URL"])
        socket.create_connection((address.hostname, address.port), timeout=_ANSWER_SECONDS).close()
    # Without a running app the file is missing or empty.
    except (OSError, ValueError) as error:
        problem = f"{app} does not run on this machine: start it in another terminal with `lanes local up`"
        raise ConfigurationError([problem], source="lanes local") from error
    return variables
