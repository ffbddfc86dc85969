"""The running platform of an app, as its folder records it for `lanes local run`."""

import contextlib
import json
import socket
from collections.abc import Iterator, Mapping
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
def recorded(app: Path, variables: Mapping[str, str]) -> Iterator[None]:
    """Record the variables that lead to the running app, while the block runs."""
    file = _file(app)
    file.write_text(json.dumps(dict(variables)))
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


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
    except OSError as error:
        problem = f"{app} does not run on this machine: start it in another terminal with `lanes local up`"
        raise ConfigurationError([problem], source="lanes local") from error
    return variables
