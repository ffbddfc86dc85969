"""
The moto server as a process of its own: corrected, on a free loopback port, counting calls.

`AwsServer` starts it and stops it; the process itself is `python -m local.server`, which ends when its
standard input closes, and so never outlives its parent.
"""

import gc
import json
import os
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from lanes.testing.fifo.message import ReceivedMessage

from .account import ACCOUNT, HOST, REGION, without_aws_settings
from .callers import CALLS_PATH, ProgramsOnly
from .invocations import ADDRESS, InvokeRoute
from .unknowns import QueueUnknowns

_ROOT = Path(__file__).resolve().parent.parent
_STOP_SECONDS = 5.0
FIGURES = "--figures"
RECEIVES = "LANES_SERVER_RECEIVES"
"""Variable with the path of a file for the receives of FIFO queues, a line of JSON for each message."""
UNKNOWNS = "LANES_SERVER_UNKNOWNS"
"""Variable with the undocumented behaviour of the FIFO queues as JSON; see `local.unknowns`."""


class ServerError(RuntimeError):
    """The AWS server did not start; the message holds its output."""


class AwsServer:
    """
    AWS on this machine while the context lasts.

    Args:
        port: where to listen; 0 takes a free port.
        log_path: file for the server's own messages.
        figures: publish metrics of queues and functions, as AWS does; otherwise CloudWatch has none.
        receives_path: file for the receives of FIFO queues; by default they are not recorded.
        unknowns: undocumented behaviour of the FIFO queues.

    Raises:
        ServerError: the port is in use, or moto cannot start.
    """

    def __init__(
        self,
        *,
        port: int = 0,
        log_path: Path,
        figures: bool = False,
        receives_path: Path | None = None,
        unknowns: QueueUnknowns | None = None,
    ) -> None:
        self._port = port
        self._options = [FIGURES] if figures else []
        self._log_path = log_path
        self._receives_path = receives_path
        self._unknowns = unknowns or QueueUnknowns()
        self._process: subprocess.Popen[bytes] | None = None
        self._endpoint_url = ""

    @property
    def endpoint_url(self) -> str:
        """Base address of every service, for AWS_ENDPOINT_URL."""
        return self._endpoint_url

    def start(self, *, invocations: int | None = None) -> None:
        """
        Start the process and return once it answers.

        Args:
            invocations: port of an `InvokeEndpoint` that runs functions; without one Invoke fails.
        """
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        unknowns = {UNKNOWNS: self._unknowns.to_json()}
        environment = without_aws_settings(os.environ) | {"PYTHONPATH": str(_ROOT)} | unknowns
        if self._receives_path is not None:
            self._receives_path.unlink(missing_ok=True)
            environment[RECEIVES] = str(self._receives_path)
        if invocations is not None:
            environment[ADDRESS] = str(invocations)
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.server", str(self._port), *self._options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=_ROOT,
                env=environment,
                start_new_session=True,
            )
        assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
        ready = self._process.stdout.readline()
        if not ready:
            self.stop()
            raise ServerError(self._explain())
        self._endpoint_url = str(json.loads(ready)["endpoint_url"])

    def _explain(self) -> str:
        said = self._log_path.read_text(errors="replace").strip()
        if "Address already in use" in said:
            return f"port {self._port} is in use on {HOST}; choose another one, or 0 for a free port"
        return f"the AWS server did not start:\n{said}"

    def calls(self, *, reset: bool = False) -> dict[str, dict[str, int]]:
        """AWS calls counted so far: `{access key id: {"sqs.ReceiveMessage": 12}}`."""
        request = urllib.request.Request(  # noqa: S310 - our own loopback address
            self._endpoint_url + CALLS_PATH, method="DELETE" if reset else "GET"
        )
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            counted: dict[str, dict[str, int]] = json.load(answer)
        return counted

    def stop(self) -> None:
        """End the process and lose its memory."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_details: object) -> None:
        self.stop()


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


def serve(port: int, *options: str, environment: Mapping[str, str] = os.environ) -> None:
    """Run the corrected server in this process until standard input closes."""
    # The port is taken before the seconds that moto takes to import, to fail at once.
    listener = socket.create_server((HOST, port))
    # The collector finds nothing in the modules of moto, and takes a third of the time of that.
    gc.disable()
    import logging

    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server

    from .callers import CallCounter
    from .corrections import install
    from .corrections.sqs_queue import on_receive, set_unknowns

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    install()
    if UNKNOWNS in environment:
        set_unknowns(QueueUnknowns.from_json(environment[UNKNOWNS]))
    if RECEIVES in environment:
        on_receive(partial(write_receives, Path(environment[RECEIVES])))
    if FIGURES in options:
        from .figures import start_figures

        start_figures(account=ACCOUNT, region=REGION)
    application: Any = DomainDispatcherApplication(create_backend_app)
    if ADDRESS in environment:
        application = InvokeRoute(application, port=int(environment[ADDRESS]))
    application = ProgramsOnly(CallCounter(application))
    server = make_server(
        HOST, port, application, threaded=True, request_handler=MotoRequestHandler, fd=listener.fileno()
    )
    threading.Thread(target=_end_with_parent, daemon=True).start()
    print(json.dumps({"endpoint_url": f"http://{HOST}:{listener.getsockname()[1]}"}), flush=True)  # noqa: T201
    gc.freeze()
    gc.enable()
    server.serve_forever()


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os._exit(0)


if __name__ == "__main__":
    serve(int(sys.argv[1]), *sys.argv[2:])
