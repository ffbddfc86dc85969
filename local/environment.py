"""
One execution environment: a real process that runs the deployed handler through AWS's own `awslambdaric`.

Reused while warm, one invocation at a time, killed at the function timeout and started afresh after that
and after a crash.
"""

import contextlib
import json
import re
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from .runtime_api import RuntimeApi, RuntimeCall, RuntimeGoneError, RuntimeRequest
from .runtime_process import kill_environment

# AWS: the init phase is limited to 10 seconds; after that init runs again within the function timeout
# (Understanding the Lambda execution environment lifecycle). Here init simply gets both.
_INIT_LIMIT = timedelta(seconds=10)
# AWS: a response of a synchronous invocation is at most 6 MB (Lambda quotas).
_LARGEST_RESPONSE_BYTES = 6_291_556
# A process that ends by itself gets this long to do so, to keep its own exit status.
_EXIT_GRACE = 1.0
_BOOTSTRAP = Path(__file__).with_name("runtime_process.py")

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
"""A frame of a traceback."""

LineSink = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSettings:
    """
    The function of an environment.

    Attributes:
        function_arn: ARN of the function.
        handler: module and name, as deployed.
        task_root: the unzipped code.
        timeout: limit of an invocation.
        variables: every environment variable of the process.
        is_edited: the files of `task_root` are edited meanwhile, so that no bytecode stands for them.
    """

    function_arn: str
    handler: str
    task_root: Path
    timeout: timedelta
    variables: Mapping[str, str]
    is_edited: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Invocation:
    """
    How an invocation ended.

    Attributes:
        payload: the answer, or the error as JSON.
        function_error: None if the handler returned; else the value of X-Amz-Function-Error.
        throttled: nothing ran, since the reserved concurrency was used up.
    """

    payload: bytes = b""
    function_error: str | None = None
    throttled: bool = False


class ExecutionEnvironment:
    """
    Runs invocations one after the other in a process of its own; the caller keeps to one at a time.

    Args:
        settings: of the function, fixed for the life of the environment.
        write_line: gets each line of standard output and error, and of the platform.
    """

    def __init__(self, settings: EnvironmentSettings, *, write_line: LineSink) -> None:
        self._settings = settings
        self._write_line = write_line
        self._process: _RuntimeProcess | None = None
        self._lock = threading.Lock()
        self._running = threading.Lock()
        self._closed = False
        self.cold_starts = 0

    @property
    def pid(self) -> int | None:
        """Process id while a process runs."""
        process = self._process
        return process.pid if process else None

    def start(self) -> str | None:
        """Import the handler ahead of the first invocation; return why that fails."""
        with self._running:
            try:
                self._ready_process()
            except _InitError as error:
                self._discard(grace=_EXIT_GRACE)
                return str(error)
        return None

    def invoke(self, payload: bytes) -> Invocation:
        """Hand an event to the handler and wait for its answer, starting a process if there is none."""
        request_id = str(uuid.uuid4())
        with self._running:
            # As Lambda begins and ends each invocation in its log (Lambda, "Log formats"); running ones have no end.
            version = self._settings.variables.get("AWS_LAMBDA_FUNCTION_VERSION", "$LATEST")
            self._write_line(f"START RequestId: {request_id} Version: {version}")
            begun = time.monotonic()
            try:
                return self._invoke(payload, request_id=request_id)
            finally:
                took = (time.monotonic() - begun) * 1000
                self._write_line(f"REPORT RequestId: {request_id}\tDuration: {took:.2f} ms")

    def _invoke(self, payload: bytes, *, request_id: str) -> Invocation:
        try:
            process = self._ready_process()
        except _InitError as error:
            self._discard(grace=_EXIT_GRACE)
            # An environment that `close` ends is not a fault of the function.
            if not self._closed:
                self._write_line(f"Init failed: {error}")
            return _failed(error.payload)
        until = time.monotonic() + self._settings.timeout.total_seconds()
        process.give(payload, request_id=request_id, settings=self._settings)
        try:
            request = process.api.next_request(until=until)
        except RuntimeGoneError:
            return self._crashed(request_id)
        if request is None:
            return self._timed_out(request_id)
        request.reply("202 Accepted")
        return self._answer(request, request_id)

    def _ready_process(self) -> "_RuntimeProcess":
        """A process that waits for work."""
        with self._lock:
            if self._closed:
                raise _InitError(_error("Runtime.Closed", "the execution environment was shut down"))
            if self._process is None:
                self.cold_starts += 1
                self._process = _RuntimeProcess(self._settings, write_line=self._write_line)
            process = self._process
        limit = _INIT_LIMIT + self._settings.timeout
        process.wait_for_work(until=time.monotonic() + limit.total_seconds())
        return process

    def _answer(self, request: RuntimeRequest, request_id: str) -> Invocation:
        if request.call is RuntimeCall.RESPONSE:
            if len(request.body) > _LARGEST_RESPONSE_BYTES:
                size = f"Response payload size exceeded {_LARGEST_RESPONSE_BYTES} bytes"
                return _failed(_error("Function.ResponseSizeTooLarge", size))
            return Invocation(payload=request.body)
        if request.call is RuntimeCall.ERROR:
            return Invocation(payload=request.body, function_error="Unhandled")
        self._discard()
        return _failed(
            _error("Runtime.Unexpected", f"RequestId: {request_id} the runtime said {request.call}")
        )

    def _crashed(self, request_id: str) -> Invocation:
        status = self._discard(grace=_EXIT_GRACE)
        said = f"RequestId: {request_id} Error: Runtime exited with status {status}"
        # An environment that `close` ends is not a fault of the function.
        if not self._closed:
            self._write_line(said)
        return _failed(_error("Runtime.ExitError", said))

    def _timed_out(self, request_id: str) -> Invocation:
        self._discard()
        seconds = self._settings.timeout.total_seconds()
        said = f"RequestId: {request_id} Error: Task timed out after {seconds:.2f} seconds"
        self._write_line(said)
        return _failed(_error("Sandbox.Timedout", said))

    def _discard(self, *, grace: float = 0.0) -> int | None:
        with self._lock:
            process, self._process = self._process, None
        return process.end(grace=grace) if process else None

    def kill(self) -> None:
        """Kill the process as a crash would, in the middle of an invocation if one runs."""
        process = self._process
        if process:
            process.kill()

    def close(self) -> None:
        """End the process for good; an invocation that runs ends as a crash."""
        with self._lock:
            self._closed = True
        self.kill()
        with self._running:
            self._discard()


class _InitError(Exception):
    """
    The environment did not come up.

    Args:
        payload: the error as JSON.
        code: the function's code, to name the place of the error in it.
    """

    def __init__(self, payload: bytes, *, code: Path | None = None) -> None:
        answer = json.loads(payload)
        frames = _FRAME.findall("".join(answer.get("stackTrace") or ()))
        places = [
            f" ({Path(file).relative_to(code)}, line {line})"
            for file, line in frames
            if code is not None and Path(file).is_relative_to(code)
        ]
        super().__init__(f"{answer['errorType']}: {answer['errorMessage']}{''.join(places[-1:])}")
        self.payload = payload


class _RuntimeProcess:
    """A process, its Runtime API and the thread that reads its lines."""

    def __init__(self, settings: EnvironmentSettings, *, write_line: LineSink) -> None:
        self._code = settings.task_root
        self._lifeline, theirs = socket.socketpair()
        self.api = RuntimeApi(lifeline=self._lifeline)
        self._waiting: RuntimeRequest | None = None
        variables = {**settings.variables, "AWS_LAMBDA_RUNTIME_API": self.api.address}
        edited = [str(settings.task_root)] if settings.is_edited else []
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(_BOOTSTRAP), str(theirs.fileno()), settings.handler, *edited],
                cwd=settings.task_root,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read_lines, args=(write_line,), daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_for_work(self, *, until: float) -> None:
        """Wait until the runtime asks for an event."""
        if self._waiting is not None:
            return
        try:
            request = self.api.next_request(until=until)
        except RuntimeGoneError:
            status = self._process.wait()
            said = f"Runtime exited with status {status} during init"
            raise _InitError(_error("Runtime.ExitError", said)) from None
        if request is None:
            raise _InitError(_error("Sandbox.Timedout", "Init timed out"))
        if request.call is not RuntimeCall.NEXT:
            request.reply("202 Accepted")
            # The runtime gives text to http.client, which sends Latin-1; a text beyond that ends the process.
            raise _InitError(request.body.decode("latin-1").encode(), code=self._code)
        self._waiting = request

    def give(self, payload: bytes, *, request_id: str, settings: EnvironmentSettings) -> None:
        """Answer the runtime's request for work."""
        waiting, self._waiting = self._waiting, None
        assert waiting is not None  # noqa: S101 - wait_for_work came first
        deadline = int((time.time() + settings.timeout.total_seconds()) * 1000)
        headers = (
            ("Lambda-Runtime-Aws-Request-Id", request_id),
            ("Lambda-Runtime-Deadline-Ms", str(deadline)),
            ("Lambda-Runtime-Invoked-Function-Arn", settings.function_arn),
            ("Lambda-Runtime-Trace-Id", _trace_header(request_id)),
        )
        waiting.reply("200 OK", payload, headers)

    def kill(self) -> None:
        # The address is this environment's alone, and a handler's processes inherit it.
        kill_environment(self._process.pid, mark=f"AWS_LAMBDA_RUNTIME_API={self.api.address}")

    def end(self, *, grace: float) -> int:
        """Kill the process unless it ends by itself in time, read its last lines and free everything."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(grace)
        self.kill()
        status = self._process.wait()
        self._reader.join(1)
        if self._waiting is not None:
            self._waiting.drop()
        self.api.close()
        self._lifeline.close()
        return status

    def _read_lines(self, write_line: LineSink) -> None:
        assert self._process.stdout is not None  # noqa: S101 - a pipe was asked for
        with self._process.stdout as stream:
            for line in stream:
                write_line(line.decode(errors="replace").rstrip("\r\n"))


def _trace_header(request_id: str) -> str:
    """Return the trace header of an invocation: its trace, its segment, and that it is not sampled."""
    digits = request_id.replace("-", "")
    return f"Root=1-{int(time.time()):08x}-{digits[:24]};Parent={digits[-16:]};Sampled=0"


def _error(error_type: str, message: str) -> bytes:
    return json.dumps({"errorType": error_type, "errorMessage": message}).encode()


def _failed(payload: bytes) -> Invocation:
    return Invocation(payload=payload, function_error="Unhandled")
